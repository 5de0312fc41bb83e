"""Stages are done once, whatever is killed and when."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envfarm_cli.campaign import files
from envfarm_cli.campaign import stages as module
from envfarm_cli.campaign.files import write_json
from envfarm_cli.campaign.stages import Stage, Stages
from envfarm_cli.failure import BadInput

NAMES = ("model", "probe", "train", "report")


@pytest.fixture(autouse=True, scope="module")
def quick_disk():
    """A kill loses no page cache, so nothing here needs to wait for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "fsync", lambda descriptor: None)
        yield


class Killed(BaseException):
    """Stands for kill -9: nothing after it runs in this life."""


class World:
    """What outlives a kill: the files, and the jobs that a gateway knows by id."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.jobs: Counter[str] = Counter()
        self.works: Counter[str] = Counter()

    def submit(self, job_id: str) -> None:
        """The gateway's promise: the same id, the same job."""
        if job_id not in self.jobs:
            self.jobs[job_id] += 1

    def live(self, kill_at: int | None) -> int:
        """One life of the command; gives the number of points at which it could be killed."""
        point = 0

        def step() -> None:
            nonlocal point
            point += 1
            if point == kill_at:
                raise Killed

        def write(path: Path, value: object) -> None:
            step()
            write_json(path, value)
            step()

        original = module.write_json
        module.write_json = write
        try:
            stages = Stages(self.folder, "recipe")
            for index, name in enumerate(NAMES):
                stages.run(Stage(name=name, needs=NAMES[:index], work=self._work(name, step)))
        finally:
            module.write_json = original
        return point

    def _work(self, name: str, step):
        def work() -> dict:
            self.works[name] += 1
            step()
            self.submit(f"run.{name}")
            step()
            return {"name": name}

        return work


def lives(world: World, kills: list[int]) -> None:
    for kill_at in kills:
        try:
            world.live(kill_at)
        except Killed:
            continue
    world.live(None)


@settings(max_examples=100, deadline=None)
@given(kills=st.lists(st.integers(min_value=1, max_value=60), max_size=6))
def test_kills_at_any_points_leave_every_stage_done_exactly_once(tmp_path_factory, kills):
    world = World(tmp_path_factory.mktemp("campaign"))
    lives(world, kills)
    stages = Stages(world.folder, "recipe")
    assert world.jobs == Counter({f"run.{name}": 1 for name in NAMES})
    assert [stages.result(name) for name in NAMES] == [{"name": name} for name in NAMES]
    before = Counter(world.works)
    world.live(None)
    assert world.works == before


def test_every_single_kill_point_costs_at_most_one_stage_again(tmp_path):
    points = World(tmp_path / "whole").live(None)
    assert points > 30
    for point in range(1, points + 1):
        world = World(tmp_path / str(point))
        lives(world, [point])
        assert sum(world.works.values()) <= len(NAMES) + 1
        assert set(world.works) == set(NAMES)


def test_a_stage_whose_result_was_changed_is_done_again_and_so_is_what_needs_it(tmp_path):
    world = World(tmp_path)
    world.live(None)
    (tmp_path / "results" / "probe.json").write_text('{"name": "forged"}')
    world.live(None)
    assert world.works == Counter({"model": 1, "probe": 2, "train": 1, "report": 1})
    assert Stages(tmp_path, "recipe").result("probe") == {"name": "probe"}


def test_another_result_makes_later_stages_run_again(tmp_path):
    stages = Stages(tmp_path, "recipe")
    stages.run(Stage(name="probe", work=lambda: {"n": 1}))
    stages.run(Stage(name="select", needs=("probe",), work=lambda: {"of": 1}))
    (tmp_path / "results" / "probe.json").unlink()
    stages.run(Stage(name="probe", work=lambda: {"n": 2}))
    assert not stages.is_done("select", ("probe",))


def test_a_file_that_a_stage_promised_and_did_not_leave_is_named(tmp_path):
    stage = Stage(name="fit", work=dict, files=(tmp_path / "weights",))
    with pytest.raises(BadInput, match="weights was to be there"):
        Stages(tmp_path, "recipe").run(stage)


def test_another_recipe_skips_nothing(tmp_path):
    Stages(tmp_path, "one").run(Stage(name="fit", work=dict))
    assert not Stages(tmp_path, "two").is_done("fit")


def test_damaged_stages_are_one_line(tmp_path):
    (tmp_path / "stages.json").write_text('{"stages": {"fit": {"colour": "red"}}}')
    with pytest.raises(BadInput, match="is damaged"):
        Stages(tmp_path, "recipe")


def test_time_spent_is_counted_over_starts_and_survives(tmp_path, monkeypatch):
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))

    def work() -> dict:
        stages.beat()
        raise Killed

    stages = Stages(tmp_path, "recipe")
    with pytest.raises(Killed):
        stages.run(Stage(name="fit", work=work))
    spent = Stages(tmp_path, "recipe").seconds["fit"]
    assert spent >= 10
    assert Stages(tmp_path, "recipe").starts("fit") == 1
