"""Lines that a person types, or that come from a pipe."""

import importlib
import sys

from rich.console import Console

from envfarm_cli.output import plain


class Prompt:
    """Reads lines from stdin; on a terminal with editing and a history."""

    def __init__(self, console: Console, mark: str):
        self._console = console
        self._mark = mark
        self._is_terminal = sys.stdin.isatty()
        if self._is_terminal:
            # Importing it is what gives input() its editing.
            importlib.import_module("readline")

    def line(self) -> str | None:
        """The next line without its end; None when there are no more."""
        if self._is_terminal:
            try:
                return input(self._mark).strip()
            except EOFError:
                return None
        read = sys.stdin.readline()
        if not read:
            return None
        self._console.print(f"[dim]{plain(self._mark + read.rstrip())}[/dim]")
        return read.strip()
