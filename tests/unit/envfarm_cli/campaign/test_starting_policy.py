"""Training says when its tasks were selected for other weights than it starts from."""

from types import SimpleNamespace

import pytest
from envfarm.v1 import policy_pb2

from envfarm_cli.commands_train import Run
from envfarm_numbers.selection_files import SelectedTasks

PROBED, OTHER = "a" * 64, "b" * 64


@pytest.mark.parametrize(
    ("number", "weights", "selected", "warned"),
    [
        (0, PROBED, True, False),
        (0, OTHER, True, True),
        (0, OTHER, False, False),
        # A run that goes on was warned when it began.
        (3, OTHER, True, False),
    ],
)
def test_other_weights_are_warned_of_once(number, weights, selected, warned):
    said: list[str] = []
    run = SimpleNamespace(
        selected=SelectedTasks("s", "train", PROBED, {"d/a": "h"}) if selected else None,
        narration=SimpleNamespace(say=said.append),
    )
    version = policy_pb2.PolicyVersion(run_id="r", number=number, weights_hash=weights)
    Run._begun(run, version)  # pyright: ignore[reportArgumentType, reportPrivateUsage]
    assert bool(said) == warned
    assert all("selected for policy" in line for line in said)
