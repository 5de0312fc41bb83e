"""Groups of real, graded attempts on the stream."""

from collections.abc import Callable

from envfarm.v1 import gateway_service_pb2 as wire
from envfarm.v1 import trajectory_pb2

from tests.integration.gateway.conftest import Farm, mixed


async def test_eight_scripted_attempts_become_one_group_on_the_stream(farm: Callable[..., Farm]):
    it = farm(mixed("orders/refund-damaged", lambda slot: slot % 2 == 0))
    await it.announce()
    await it.gateway.submit("job", ["orders/refund-damaged"])
    job = await it.gateway.done("job")
    assert job.state == wire.JOB_STATE_DONE, job
    assert (job.groups_published, job.groups_cancelled) == (1, 0)

    (group,) = it.stream.groups()
    assert group.group_id == "job.0.0"
    assert [rollout.slot for rollout in group.rollouts] == list(range(8))
    assert [rollout.verdict.reward for rollout in group.rollouts] == [1, 0, 1, 0, 1, 0, 1, 0]
    assert group.policy == it.version
    for rollout in group.rollouts:
        trajectory = rollout.trajectory
        assert trajectory.status == trajectory_pb2.ROLLOUT_STATUS_COMPLETED
        total = len(trajectory.token_ids)
        assert total == len(trajectory.loss_mask) == len(trajectory.logprobs)
        sampled = [
            i
            for span in trajectory.version_spans
            for i in range(span.start, span.start + span.length)
        ]
        assert sampled == [i for i, bit in enumerate(trajectory.loss_mask) if bit]
        assert rollout.verdict.initial_state_hash == group.initial_state_hash
