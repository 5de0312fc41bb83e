"""Which processes of a stack are scraped, and which are missed."""

import os

from envfarm_cli.process_table import Identity, identify
from envfarm_cli.scraping import missed, targets
from envfarm_cli.state_dir import ProcessRecord, StackState, StateDir


def state(**ends: int | None) -> StackState:
    """Processes by name, each with how it ended."""
    names = {name: name.replace("_", "-") for name in ends}
    return StackState(
        phase="ready",
        supervisor=Identity(2, 0),
        boot="",
        started_at=0.0,
        engine="scripted",
        processes=[
            ProcessRecord(names[name], 2, 0, "", http=f"http://h/{name}", exit_status=end)
            for name, end in ends.items()
        ],
    )


def test_what_runs_is_scraped_under_the_name_of_its_service():
    found = targets(state(gateway=None, grader=None, valkey=None))
    assert found == {"rollout-gateway": "http://h/gateway", "grader": "http://h/grader"}


def test_a_scripted_policy_is_the_engine_unless_a_vllm_stands_behind_it():
    assert targets(state(policy=None)) == {"engine": "http://h/policy"}
    assert targets(state(policy=None, engine=None)) == {"engine": "http://h/engine"}


def test_a_process_that_died_is_missed_and_one_that_ended_in_order_is_not():
    now = state(grader=-9, learner=0, env_server=1, gateway=None)
    assert missed(now) == {"grader", "env-server"}
    assert set(targets(now)) == {"rollout-gateway"}


def test_the_learner_of_a_campaign_is_scraped_while_it_lives(tmp_path):
    folder = StateDir(tmp_path)
    folder.write(state(gateway=None))
    me = identify(os.getpid())
    assert me is not None
    folder.add_guest(ProcessRecord("learner", me.pid, me.start, "", http="http://h/learner"))
    now = folder.read()
    assert now is not None
    assert targets(now) == {"rollout-gateway": "http://h/gateway", "learner": "http://h/learner"}
    assert [process.name for process in now.processes] == ["gateway"]
    folder.add_guest(ProcessRecord("learner", me.pid, me.start + 1, "", http="http://h/learner"))
    now = folder.read()
    assert now is not None and set(targets(now)) == {"rollout-gateway"}
