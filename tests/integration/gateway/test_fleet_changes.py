"""Engines and env-servers that join and leave under a job: the same tokens and rewards as with none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.integration.gateway.conftest import Farm, mixed
from tests.support.env_server import EnvServer, running_env_server
from tests.support.gateway_process import INFRA_TOKEN
from tests.support.policy_server import PolicyServer

TASK = "orders/refund-damaged"
GROUPS, SIZE = 4, 4


async def use(it: Farm, kind: str, *places: str) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        answer = await client.put(
            f"{it.gateway.http}/v1/fleet/{kind}",
            json=places,
            headers={"Authorization": f"Bearer {INFRA_TOKEN}"},
        )
    answer.raise_for_status()


def results(it: Farm, job_id: str) -> dict[tuple[str, int], tuple[Any, ...]]:
    """By group and slot: ids, mask and reward."""
    return {
        (group.group_id.removeprefix(job_id), rollout.slot): (
            tuple(rollout.trajectory.token_ids),
            rollout.trajectory.loss_mask,
            rollout.verdict.reward,
        )
        for group in it.stream.groups()
        if group.group_id.startswith(f"{job_id}.")
        for rollout in group.rollouts
    }


async def test_a_fleet_that_changes_under_a_job_changes_no_token_and_no_reward(
    farm: Callable[..., Farm], domains: Path, env_server: EnvServer, tokenizer_dir: Path
):
    script = mixed(TASK, lambda slot: slot % 2 == 0)
    it = farm(script, concurrency=4)
    await it.announce()
    fields = {"group_size": SIZE, "groups_per_task": GROUPS}
    await it.gateway.submit("still", [TASK], **fields)
    await it.gateway.done("still")
    tokens = {"infra_token": env_server.infra_token, "grader_token": env_server.grader_token}
    with (
        PolicyServer(tokenizer_dir, script) as second,
        running_env_server(domains, **tokens) as other,
    ):
        it.engine.delay = second.delay = 0.3
        await it.gateway.submit("moving", [TASK], **fields)
        await it.gateway.until("moving", lambda job: job.attempts >= 2)
        await use(it, "engines", it.engine.url, second.url)
        await use(it, "env-servers", env_server.grpc, other.grpc)
        await it.gateway.until("moving", lambda job: job.attempts >= 6)
        await use(it, "engines", second.url)
        await use(it, "env-servers", other.grpc)
        asked = len(it.engine.requests)
        job = await it.gateway.done("moving")
        assert job.groups_published == GROUPS
        assert second.requests and len(it.engine.requests) - asked <= 4
    still = results(it, "still")
    assert len(still) == GROUPS * SIZE
    assert results(it, "moving") == still
