"""Read a YAML file into a model; whatever is wrong with it names the file and the line."""

from pathlib import Path
from typing import TypeVar

import yaml
from envfarm.errors import ConfigError
from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)


def load(path: Path, model: type[M]) -> M:
    """ConfigError with file and line for bad YAML, unknown or missing keys, and wrong values."""
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ConfigError(f"{path}:{line}: not valid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}:1: not valid YAML: {error}") from error
    _refuse_duplicates(path, root)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = [
            f"{path}:{_line(root, item['loc'])}: "
            + (f"{'.'.join(map(str, item['loc']))}: " if item["loc"] else "")
            + item["msg"]
            for item in error.errors()
        ]
        raise ConfigError("; ".join(problems)) from error


def _line(node: yaml.Node | None, loc: tuple[int | str, ...]) -> int:
    """Line of the deepest node on the way to `loc`: a missing key points to its parent."""
    line = _start(node)
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            pair = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if pair is None:
                return line
            line, node = _start(pair[0]), pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line = _start(node)
    return line


def _start(node: yaml.Node | None) -> int:
    return node.start_mark.line + 1 if node and node.start_mark else 1


def _refuse_duplicates(path: Path, node: yaml.Node | None) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise ConfigError(f"{path}:{_start(key)}: the key {key.value!r} stands here twice")
            seen.add(key.value)
            _refuse_duplicates(path, value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_duplicates(path, item)
