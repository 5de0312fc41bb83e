"""YAML as strict as JSON, with the line of every value: for files whose mistakes must be named.

No anchors, no duplicate keys, no implicit dates, octals or `yes`/`no`.
"""

import re
from pathlib import Path
from typing import Any, TypeVar

import yaml
from envfarm.errors import ConfigError
from pydantic import BaseModel, ValidationError

Lines = dict[tuple[Any, ...], int]
M = TypeVar("M", bound=BaseModel)


class _Loader(yaml.CSafeLoader):
    """libyaml's: the one in Python took 4 s of each service's start for 1,200 files, this 0.6."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _rule, _first in (
    ("null", r"null|~|", ["n", "~", ""]),
    ("bool", r"true|false", ["t", "f"]),
    ("int", r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
    (
        "float",
        r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)",
        list("-0123456789"),
    ),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_rule})$"), _first
    )


def load(path: Path, model: type[M]) -> M:
    """The file as a `model`; ConfigError names file and line of the first mistake."""
    value, lines = _read(path)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        # A misspelt key is missing and unknown at once; the unknown one is where the mistake stands.
        first = min(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
        line, where = _locate(first["loc"], lines)
        message = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{path}:{line}: {where + ': ' if where else ''}{message}") from error


def read(path: Path) -> Any:
    """The file as plain values; ConfigError names file and line of the first mistake."""
    return _read(path)[0]


def _read(path: Path) -> tuple[Any, Lines]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    lines: Lines = {}
    try:
        for event in yaml.parse(text, Loader=_Loader) if "*" in text else ():
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1
                raise ConfigError(f"{path}:{line}: not valid YAML: aliases are not allowed")
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                raise ConfigError(f"{path}:1: the file is empty")
            return _build(loader, node, (), lines, path), lines
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # libyaml sees the end of a file on a line of its own.
        line = min(mark.line + 1 if mark else 1, max(1, len(text.splitlines())))
        raise ConfigError(f"{path}:{line}: not valid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}:1: not valid YAML: {error}") from error


def _build(loader: _Loader, node: yaml.Node, at: tuple[Any, ...], lines: Lines, path: Path) -> Any:
    lines[at] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError(f"{path}:{line}: a key must be plain text")
            if key in result:
                raise ConfigError(f"{path}:{line}: the key {key!r} stands here twice")
            result[key] = _build(loader, value_node, (*at, key), lines, path)
            lines[(*at, key)] = line
        return result
    if isinstance(node, yaml.SequenceNode):
        return [
            _build(loader, item, (*at, index), lines, path) for index, item in enumerate(node.value)
        ]
    return loader.construct_object(node)


def _locate(location: tuple[Any, ...], lines: Lines) -> tuple[int, str]:
    """Line and dotted name of the deepest part that the file has; pydantic adds union tags."""
    at: tuple[Any, ...] = ()
    for part in location:
        if (*at, part) in lines:
            at = (*at, part)
    named = [str(part) for part in at]
    if location and location[-1] not in at and isinstance(location[-1], str):
        named.append(location[-1])
    return lines[at], ".".join(named)
