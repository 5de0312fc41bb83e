"""What a job's records were made with, beside them: its tasks, and how conversations were rendered.

    <job>/tasks.bin       the job's tasks as the agent's side knows them (ListTasksResponse)
    <job>/renderer.json   tokenizer folder, chat format, reasoning, and the hash of all three
    <job>/rules.json      the gateway's settings that say how groups end

With it the records can be looked through without any service; see `parity.py` and `replay.py`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from envfarm.errors import ConfigError
from envfarm.v1 import env_service_pb2, task_pb2
from google.protobuf.message import DecodeError

from rollout_gateway.chat.formats import FORMATS
from rollout_gateway.chat.render import Renderer
from rollout_gateway.chat.vocabulary import Vocabulary
from rollout_gateway.files import read_json, write_bytes, write_json

TASKS, RENDERER, RULES = "tasks.bin", "renderer.json", "rules.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendering:
    tokenizer_dir: str
    chat_format: str
    reasoning: str
    hash: str

    @classmethod
    def of(cls, renderer: Renderer, tokenizer_dir: Path) -> Self:
        return cls(
            tokenizer_dir=str(tokenizer_dir.resolve()),
            chat_format=renderer.format.name,
            reasoning=renderer.reasoning,
            hash=renderer.hash,
        )

    def renderer(self, tokenizer_dir: Path | None = None) -> Renderer:
        """ConfigError when the tokenizer is not there."""
        if self.chat_format not in FORMATS:
            raise ConfigError(f"there is no chat format {self.chat_format!r}")
        words = Vocabulary(tokenizer_dir or Path(self.tokenizer_dir))
        return Renderer(words, self.chat_format, "strip" if self.reasoning == "strip" else "keep")


@dataclass(frozen=True, kw_only=True, slots=True)
class EndRules:
    """Of groups and streams, as the gateway had them when it began the job, or went on with it."""

    attempts_per_slot: int
    max_version_spread: int
    park_after: int
    park_updates: int
    task_replacements: int
    oversampling: float


def write_context(
    folder: Path, rendering: Rendering, rules: EndRules, tasks: Mapping[str, task_pb2.Task]
) -> None:
    """OSError when the disk does not take it."""
    write_json(folder / RULES, asdict(rules))
    answer = env_service_pb2.ListTasksResponse(tasks=list(tasks.values()))
    write_bytes(folder / TASKS, answer.SerializeToString(deterministic=True))
    write_json(folder / RENDERER, asdict(rendering))


def read_context(folder: Path) -> tuple[Rendering, dict[str, task_pb2.Task]]:
    """ConfigError that says what is missing or damaged."""
    value = read_json(folder / RENDERER)
    try:
        rendering = Rendering(**value)
        answer = env_service_pb2.ListTasksResponse.FromString((folder / TASKS).read_bytes())
    except (TypeError, OSError, DecodeError) as error:
        raise ConfigError(
            f"{folder}: {RENDERER} or {TASKS} is missing or damaged",
            hint="name a folder that a gateway of this version wrote",
        ) from error
    return rendering, {task.ref.task_id: task for task in answer.tasks}


def read_rules(folder: Path) -> EndRules:
    """ConfigError that says what is missing or damaged."""
    try:
        return EndRules(**read_json(folder / RULES))
    except TypeError as error:
        raise ConfigError(
            f"{folder}: {RULES} is missing or damaged",
            hint="name a folder that a gateway of this version wrote",
        ) from error
