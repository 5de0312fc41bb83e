"""The numbers of each update as TensorBoard events, where the configuration asks for them."""

from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter


class EventFile:
    """Scalars under their names in steps.jsonl; seconds by phase under seconds/."""

    def __init__(self, folder: Path):
        self._writer = SummaryWriter(str(folder))

    def step(self, line: dict[str, Any]) -> None:
        for name, value in line.items():
            if isinstance(value, dict):
                for part, seconds in value.items():
                    self._writer.add_scalar(f"{name}/{part}", seconds, line["update"])
            elif isinstance(value, int | float):
                self._writer.add_scalar(name, value, line["update"])
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
