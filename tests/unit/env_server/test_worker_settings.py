"""Several workers divide the limits of their command and none of it is lost."""

from pathlib import Path
from typing import Any

import pytest
from envfarm.errors import ConfigError
from envfarm_common.settings import load

from env_server.settings import Settings


def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **more: Any) -> Settings:
    values = {
        "domains_dir": tmp_path,
        "state_dir": tmp_path,
        "infra_token": "i" * 16,
        "grader_token": "g" * 16,
        **more,
    }
    for name, value in values.items():
        monkeypatch.setenv(f"ENV_SERVER_{name.upper()}", str(value))
    return load(Settings)


def shares(all_together: Settings, folder: Path) -> list[Settings]:
    return [
        all_together.of_worker(number, folder, http_port=100 + number, grpc_port=200 + number)
        for number in range(all_together.workers)
    ]


def test_episodes_and_keepers_are_divided_without_a_rest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    found = shares(settings(monkeypatch, tmp_path, workers=3, max_episodes=64), tmp_path)
    assert [share.max_episodes for share in found] == [22, 21, 21]
    assert [share.keepers for share in found] == [11, 11, 10]
    assert [(share.ready_low, share.ready_high) for share in found] == [(1, 2)] * 3


def test_a_part_is_never_too_small_to_work_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    few = settings(
        monkeypatch, tmp_path, workers=4, max_episodes=4, keepers=2, ready_low=0, ready_high=1
    )
    found = shares(few, tmp_path)
    assert [(share.max_episodes, share.keepers) for share in found] == [(1, 2)] * 4
    assert [(share.ready_low, share.ready_high) for share in found] == [(0, 1)] * 4


def test_the_environment_of_a_worker_gives_its_settings_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    share = shares(settings(monkeypatch, tmp_path, workers=2, max_episodes=5), tmp_path)[1]
    for name, value in share.worker_environment().items():
        monkeypatch.setenv(name, value)
    assert load(Settings) == share
    assert (share.workers, share.worker, share.http_port, share.grpc_port) == (1, 1, 101, 201)


def test_doors_that_would_meet_and_workers_without_an_episode_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    with pytest.raises(ConfigError, match="overlap"):
        settings(monkeypatch, tmp_path, workers=3, http_port=9089, grpc_port=9091)
    monkeypatch.setenv("ENV_SERVER_HTTP_PORT", "9088")
    load(Settings)
    with pytest.raises(ConfigError, match="max_episodes is below workers"):
        settings(monkeypatch, tmp_path, workers=3, http_port=0, max_episodes=2)
