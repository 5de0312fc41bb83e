"""What all stages of the demonstration share: recipe, folder, their durable state, their voice."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envfarm.v1 import policy_pb2

from envfarm_cli.campaign.narration import Narration
from envfarm_cli.campaign.stages import Stage, Stages
from envfarm_cli.demo.recipe import DemoRecipe


@dataclass(frozen=True, kw_only=True)
class DemoContext:
    recipe: DemoRecipe
    path: Path
    """The demonstration's folder."""
    domains: Path
    stages: Stages
    narration: Narration

    @property
    def warm_model(self) -> Path:
        """Folder of the warmed-up policy."""
        return self.path / "sft" / "model"

    @property
    def learner(self) -> Path:
        return Path(self.recipe.learner).absolute()

    def version(self, number: int) -> policy_pb2.PolicyVersion:
        return policy_pb2.PolicyVersion(run_id=self.recipe.run_id, number=number)

    def say(self, title: str, text: str, about: str = "") -> None:
        """A stage begins; how long it takes is said of the whole demonstration only."""
        self.narration.stage(title, text, about if self.recipe.minutes >= 10 else "")

    def once(
        self,
        name: str,
        work: Callable[[], dict[str, Any]],
        *,
        needs: tuple[str, ...] = (),
        files: tuple[Path, ...] = (),
    ) -> dict[str, Any]:
        """The result of a stage, of now or of an earlier start."""
        if self.stages.is_done(name, needs):
            self.narration.done_before(self.stages.seconds[name])
            return self.stages.result(name)
        return self.stages.run(Stage(name=name, needs=needs, work=work, files=files))
