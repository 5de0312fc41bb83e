"""What the commands print: rich text for people on stdout, or one JSON object for machines."""

from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape

from envfarm_cli.results import write_result

OK, FAILED, USAGE, NOT_RUNNING = 0, 1, 2, 3
"""Exit codes; 128 + n after signal n."""

EXIT_CODES = (
    "Exit codes: 0 done · 1 something failed · 2 wrong arguments or files · "
    "3 no stack is running, or it cannot be reached · 130 stopped with Ctrl-C."
)


class Output:
    """Where one command prints. With `as_json` only `result` reaches stdout."""

    def __init__(self, as_json: bool):
        self.as_json = as_json
        self.console = Console(stderr=as_json, quiet=as_json, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """A line for people; may hold rich markup."""
        self.console.print(text)

    def show(self, renderable: RenderableType) -> None:
        self.console.print(renderable)

    def result(self, value: dict[str, Any]) -> None:
        """The one JSON object of a command."""
        if self.as_json:
            write_result(value)


def plain(text: object) -> str:
    """Text that is not ours, safe inside markup and on one terminal: no control characters."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else "�" for c in str(text))
    return escape(shown)
