"""Groups end once, with exactly G samples that belong together, or not at all."""

from hypothesis import given
from hypothesis import strategies as st

from rollout_gateway.groups import Cancelled, CancelReason, Formed, GroupState, Rules, Sample

TASK = "t" * 64


def rules(size: int = 2, cap: int = 3, spread: int = 1, keep: bool = False) -> Rules:
    return Rules(
        task_hash=TASK,
        size=size,
        attempts_per_slot=cap,
        max_version_spread=spread,
        keep_zero_variance=keep,
    )


def sample(slot: int, reward: float, attempt: int = 1, **other: object) -> Sample:
    fields = {
        "task_hash": TASK,
        "initial_state_hash": "s",
        "oldest_version": 4,
        "newest_version": 4,
        **other,
    }
    return Sample(slot=slot, attempt=attempt, reward=reward, **fields)  # pyright: ignore


def test_every_slot_is_owed_once():
    group = GroupState(rules(3))
    assert group.take_owed() == [(0, 1), (1, 1), (2, 1)]
    assert group.take_owed() == []


def test_clean_samples_form_the_group_in_slot_order():
    group = GroupState(rules())
    group.take_owed()
    assert group.arrived(sample(1, 1.0))
    assert group.outcome is None
    assert group.arrived(sample(0, 0.0))
    assert isinstance(group.outcome, Formed)
    assert [s.slot for s in group.outcome.samples] == [0, 1]


def test_a_failed_sample_is_run_again_alone():
    group = GroupState(rules())
    group.take_owed()
    assert group.failed(1, 1)
    assert group.take_owed() == [(1, 2)]
    assert group.refilled == 1


def test_past_the_cap_the_group_is_given_up():
    group = GroupState(rules(cap=2))
    for attempt in (1, 2):
        group.take_owed()
        group.failed(0, attempt)
    assert group.outcome == Cancelled(CancelReason.REFILL_CAP)
    assert group.take_owed() == []


def test_a_failure_that_no_attempt_can_change_ends_the_group():
    group = GroupState(rules())
    group.take_owed()
    group.failed(0, 1, final=True)
    assert group.outcome == Cancelled(CancelReason.NOT_RUNNABLE)


def test_equal_rewards_end_the_group_unless_they_are_wanted():
    for keep, wanted in ((False, Cancelled), (True, Formed)):
        group = GroupState(rules(keep=keep))
        group.take_owed()
        group.arrived(sample(0, 1.0))
        group.arrived(sample(1, 1.0))
        assert isinstance(group.outcome, wanted)


def test_samples_that_do_not_belong_together_end_the_group():
    for odd in ({"task_hash": "other"}, {"initial_state_hash": "other"}):
        group = GroupState(rules())
        group.take_owed()
        group.arrived(sample(0, 1.0))
        group.arrived(sample(1, 0.0, **odd))
        assert group.outcome == Cancelled(CancelReason.INCONSISTENT)


def test_versions_may_differ_by_the_spread_and_no_more():
    for newest, wanted in ((5, Formed), (6, Cancelled)):
        group = GroupState(rules(spread=1))
        group.take_owed()
        group.arrived(sample(0, 1.0))
        group.arrived(sample(1, 0.0, newest_version=newest))
        assert isinstance(group.outcome, wanted)


def test_an_old_attempt_that_answers_late_is_not_counted():
    group = GroupState(rules())
    group.take_owed()
    group.failed(0, 1)
    group.take_owed()
    assert not group.arrived(sample(0, 1.0, attempt=1))
    assert group.arrived(sample(0, 1.0, attempt=2))
    assert not group.arrived(sample(0, 0.0, attempt=2))


def test_a_restart_goes_on_from_what_was_recorded():
    group = GroupState(rules())
    group.resume(0, 1)
    group.failed(0, 1)
    group.resume(0, 2)
    group.arrived(sample(0, 1.0, attempt=2))
    group.skip_attempt(1, 1)
    assert group.take_owed() == [(1, 2)]
    assert group.refilled == 1


EVENT = st.tuples(
    st.sampled_from(["start", "arrive", "arrive", "arrive", "fail", "cancel"]),
    st.integers(0, 3),
    st.integers(1, 4),
    st.sampled_from([0.0, 1.0]),
    st.booleans(),
)


@given(st.lists(EVENT, max_size=60), st.integers(1, 4), st.booleans())
def test_any_order_of_events_ends_in_at_most_one_outcome_and_never_pads(
    events: list[tuple[str, int, int, float, bool]], size: int, keep: bool
):
    group, first = GroupState(rules(size, keep=keep)), None
    accepted: dict[int, Sample] = {}
    for kind, slot, attempt, reward, odd in events:
        slot %= size
        before = group.outcome
        if kind == "start":
            for started in group.take_owed():
                assert started[0] not in accepted
        elif kind == "arrive":
            came = sample(slot, reward, attempt, oldest_version=3 if odd else 4)
            if group.arrived(came):
                assert slot not in accepted
                accepted[slot] = came
        elif kind == "fail":
            group.failed(slot, attempt, final=odd)
        else:
            group.cancel(CancelReason.JOB_CANCELLED)
        if before is not None:
            assert group.outcome is before
        first = first or group.outcome
    assert group.outcome is first
    if isinstance(group.outcome, Formed):
        assert list(group.outcome.samples) == [accepted[s] for s in range(size)]
    if group.outcome is not None:
        assert group.take_owed() == []


@given(st.data())
def test_a_group_whose_attempts_all_end_does_end(data: st.DataObject):
    group = GroupState(rules(4, cap=3))
    running = group.take_owed()
    while group.outcome is None:
        assert running
        slot, attempt = running.pop(data.draw(st.integers(0, len(running) - 1)))
        if data.draw(st.booleans()):
            group.arrived(sample(slot, data.draw(st.sampled_from([0.0, 1.0])), attempt))
        else:
            group.failed(slot, attempt)
        running += group.take_owed()
