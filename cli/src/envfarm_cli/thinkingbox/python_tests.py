"""Test cases written as Python functions, read from the syntax tree alone.

A string literal that begins with `!` is YAML: in the module's body for all its tests, as the first
statement of a function for that one. A test's code is the whole file with every other test blanked, so
that line numbers stay, and a last line that names the function. Nothing is imported or run.
"""

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError

from envfarm_cli.thinkingbox import plain_yaml

ALIAS = "__tb_test_fn"
"""The name that a harness calls."""
KEYS = frozenset(
    {
        *("scenario", "query", "user_context", "max_user_sim_turns", "max_agent_sim_turns"),
        *("bot_instructions", "history", "init", "format_query", "tags"),
    }
)


@dataclass(frozen=True, slots=True)
class WrittenTest:
    """One test case as its file holds it."""

    name: str
    line: int
    fields: dict[str, Any]
    code: str


def read(path: Path) -> list[WrittenTest]:
    """In the order of the file; ConfigError names file, line and mistake."""
    text = plain_yaml.read_text(path)
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ConfigError(f"{path}:{error.lineno or 1}: not valid Python: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(f"{path}: not valid Python: {error}") from error
    shared: dict[str, Any] = {}
    found: dict[str, tuple[dict[str, Any], ast.FunctionDef]] = {}
    for node in _statements(tree, path):
        if isinstance(node, ast.Expr) and (text_node := _marked(node)):
            shared.update(_mapping(text_node, path))
        elif isinstance(node, ast.FunctionDef) and (text_node := _marked(node.body[0])):
            own = _mapping(text_node, path)
            if unknown := sorted(own.keys() - KEYS):
                raise ConfigError(f"{path}:{text_node.lineno}: there is no key {unknown[0]!r}")
            found[node.name] = (_merged(shared, own), node)
    lines = text.split("\n")
    bare = list(lines)
    for _, node in found.values():
        for number in _own_lines(node):
            bare[number] = ""
    return [
        WrittenTest(name, node.lineno, fields, _code(name, node, lines, bare))
        for name, (fields, node) in found.items()
    ]


def _statements(tree: ast.Module, path: Path) -> Iterator[ast.stmt]:
    last = 0
    for node in tree.body:
        if node.lineno <= last:
            raise ConfigError(f"{path}:{node.lineno}: two statements stand on one line")
        last = node.end_lineno or node.lineno
        yield node


def _marked(node: ast.stmt) -> ast.Constant | None:
    """The literal of a statement that is nothing but a text beginning with `!`."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        if isinstance(node.value.value, str) and node.value.value.startswith("!"):
            return node.value
    return None


def _mapping(node: ast.Constant, path: Path) -> dict[str, Any]:
    text = textwrap.dedent(str(node.value)[1:])
    value = plain_yaml.parse(text, str(path), node.lineno)
    if not isinstance(value, dict):
        raise ConfigError(f"{path}:{node.lineno}: the YAML after `!` is no mapping")
    return value


def _merged(shared: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A test's own keys win; lists of tags are joined."""
    both = {**shared, **own}
    if isinstance(shared.get("tags"), list) and isinstance(own.get("tags"), list):
        both["tags"] = [*shared["tags"], *own["tags"]]
    return both


def _own_lines(node: ast.FunctionDef) -> range:
    return range(node.lineno - 1, node.end_lineno or node.lineno)


def _code(name: str, node: ast.FunctionDef, lines: list[str], bare: list[str]) -> str:
    own = _own_lines(node)
    kept = [*bare[: own.start], *lines[own.start : own.stop], *bare[own.stop :]]
    return "\n".join([*kept, f"{ALIAS} = {name}", ""])
