"""What every rank does of an update, in the order that rank 0 says.

Rank 0 runs the loop and alone knows the stream, the lease and the gateway. What the ranks must do
together (a pass, a step, a probe, a checkpoint) are the methods of `Trainee`; rank 0 calls them on
`LeadingTrainee`, which first tells the others, and they call the same in `follow`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from learner import checkpoint_folder, line_wire, process_group, served_folder
from learner.config import Config
from learner.engine import TrainerEngine
from learner.line import Line
from learner.line_wire import Arrays
from learner.reference_model import ReferenceModel
from learner.update import PassResult, Work, forward_backward

END = "end"


class Trainee:
    """One rank's model and what is done with it."""

    def __init__(self, config: Config):
        self.config = config
        self.engine = TrainerEngine(config.model, config.batch, config.optimizer, config.seed)
        self.vocabulary = self.engine.vocabulary
        self._reference = None
        if config.algorithm.kl_reference == "initial":
            self._reference = ReferenceModel(config.model, config.batch, self.engine.device)
        self._initial_model = ""

    def forward_backward(self, work: Work, current_version: int | None) -> PassResult:
        """Gradients of the whole update; see update.py."""
        return forward_backward(
            self.engine,
            work,
            self.config.algorithm,
            self.config.batch,
            current_version=current_version,
            reference=self._reference,
        )

    def step(self, update: int) -> float:
        """Move the optimizer at the rate of that update, counted from 0; the gradient norm before
        clipping."""
        return self.engine.step(self.config.learning_rate(update))

    def probe(self, token_ids: Sequence[int]) -> list[float]:
        return self.engine.probe(token_ids)

    def weights(self) -> dict[str, Tensor]:
        """The whole model on rank 0, nothing elsewhere."""
        return self.engine.weights()

    def save(
        self,
        folder: Path,
        *,
        facts: dict[str, Any],
        keep: int,
        fill: Callable[[Path], None] = lambda _: None,
    ) -> Path:
        """The next checkpoint in `folder`; facts and fill count on rank 0 only."""
        return checkpoint_folder.save(folder, self.engine, facts=facts, keep=keep, fill=fill)

    def load(self, folder: Path, recipe_hash: str) -> tuple[Path, dict[str, Any]] | None:
        """The newest checkpoint of `folder`; None when there is none."""
        return checkpoint_folder.load(
            folder, self.engine, recipe_hash=recipe_hash, initial_model=self._initial_model
        )

    def still_waiting(self) -> None:
        """Nothing to do; says that rank 0 lives, and finds out whether the others do."""

    def end(self) -> None:
        """The other ranks may leave."""


class LeadingTrainee(Trainee):
    """Rank 0's: every method is done by all ranks."""

    def __init__(self, config: Config):
        super().__init__(config)
        self._initial_model = served_folder.model_hash(config.model.path)

    def forward_backward(self, work: Work, current_version: int | None) -> PassResult:
        with process_group.attributed():
            facts = {"version": current_version, "tokens": work.tokens, "signal": work.has_signal}
            _tell("forward_backward", facts, line_wire.to_arrays(work.lines))
            return super().forward_backward(work, current_version)

    def step(self, update: int) -> float:
        with process_group.attributed():
            _tell("step", {"update": update})
            return super().step(update)

    def probe(self, token_ids: Sequence[int]) -> list[float]:
        with process_group.attributed():
            _tell("probe", {"token_ids": list(token_ids)})
            return super().probe(token_ids)

    def weights(self) -> dict[str, Tensor]:
        with process_group.attributed():
            _tell("weights")
            return super().weights()

    def save(
        self,
        folder: Path,
        *,
        facts: dict[str, Any],
        keep: int,
        fill: Callable[[Path], None] = lambda _: None,
    ) -> Path:
        with process_group.attributed():
            _tell("save", {"folder": str(folder.resolve())})
            facts = {**facts, "initial_model": self._initial_model}
            return super().save(folder, facts=facts, keep=keep, fill=fill)

    def load(self, folder: Path, recipe_hash: str) -> tuple[Path, dict[str, Any]] | None:
        with process_group.attributed():
            _tell("load", {"folder": str(folder.resolve()), "recipe_hash": recipe_hash})
            return super().load(folder, recipe_hash)

    def still_waiting(self) -> None:
        with process_group.attributed():
            _tell("still_waiting")

    def end(self) -> None:
        with process_group.attributed():
            _tell(END)


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    facts: dict[str, Any]
    arrays: Arrays


def follow(trainee: Trainee) -> None:
    """Do what rank 0 says until it says that it is over."""
    with process_group.attributed():
        while (call := _listen()).name != END:
            facts = call.facts
            if call.name == "forward_backward":
                lines: tuple[Line, ...] = line_wire.from_arrays(call.arrays)
                work = Work(lines=lines, tokens=facts["tokens"], has_signal=facts["signal"])
                trainee.forward_backward(work, facts["version"])
            elif call.name == "probe":
                trainee.probe(facts["token_ids"])
            elif call.name == "step":
                trainee.step(facts["update"])
            elif call.name == "save":
                trainee.save(Path(facts["folder"]), facts={}, keep=1)
            elif call.name == "load":
                trainee.load(Path(facts["folder"]), facts["recipe_hash"])
            else:
                {
                    "weights": trainee.weights,
                    "still_waiting": trainee.still_waiting,
                }[call.name]()


def _tell(name: str, facts: dict[str, Any] | None = None, arrays: Arrays | None = None) -> None:
    arrays = arrays or {}
    head = {
        "name": name,
        "facts": facts or {},
        "arrays": [[key, array.dtype.str, list(array.shape)] for key, array in arrays.items()],
    }
    data = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
    process_group.broadcast(np.array([len(data)], dtype=np.int64))
    process_group.broadcast(data)
    for array in arrays.values():
        process_group.broadcast(np.ascontiguousarray(array).view(np.uint8).ravel())


def _listen() -> _Call:
    size = process_group.broadcast(np.zeros(1, dtype=np.int64))
    head = json.loads(process_group.broadcast(np.zeros(int(size[0]), dtype=np.uint8)).tobytes())
    arrays: Arrays = {}
    for key, kind, shape in head["arrays"]:
        dtype = np.dtype(kind)
        raw = np.zeros(int(np.prod(shape)) * dtype.itemsize, dtype=np.uint8)
        arrays[key] = process_group.broadcast(raw).view(dtype).reshape(shape)
    return _Call(head["name"], head["facts"], arrays)
