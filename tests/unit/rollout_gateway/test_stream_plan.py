"""Which groups a training job starts, and what becomes of them."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_gateway.pool import Parking, Pool, band
from rollout_gateway.stream_plan import Decision, PlanRules, StreamPlan, View

MIXED, ZEROS, ONES = (0.0, 1.0), (0.0, 0.0), (1.0, 1.0)


def plan(tasks: int = 5, parking: Parking | None = None, **rules: object) -> StreamPlan:
    fields = {"groups_per_update": 2, "max_replacements": 4, "oversampling": 1.0, **rules}
    return StreamPlan(PlanRules(**fields), Pool(tasks, 7, parking or Parking()))  # pyright: ignore


def view(version: int = 0, elsewhere: int = 0, dropped: int = 0) -> View:
    return View(version, elsewhere, dropped)


def start_all(it: StreamPlan, at: View) -> list[int]:
    started = []
    while it.may_start(at):
        turn = it.start(at)
        assert turn is not None
        started.append(turn.ordinal)
    return started


def test_as_many_start_as_the_learner_can_admit():
    for staleness, wanted in ((0, 2), (1, 4), (2, 4)):
        # A spread of one version within a group keeps staleness 2 from starting more.
        assert len(start_all(plan(staleness=staleness), view())) == wanted
    assert len(start_all(plan(staleness=2, spread=2), view())) == 6


def test_a_new_version_makes_room_for_one_more_update():
    it = plan()
    assert start_all(it, view()) == [0, 1, 2, 3]
    for ordinal in range(4):
        it.formed(ordinal, MIXED, 0)
        assert it.decide(ordinal, view()) is Decision.PUBLISH
    assert start_all(it, view()) == []
    assert start_all(it, view(1)) == [4, 5]


def test_a_slow_group_is_not_overtaken_by_an_update_that_would_make_it_stale():
    it = plan()
    start_all(it, view())
    for ordinal in (0, 1, 2):
        it.formed(ordinal, MIXED, 0)
        it.decide(ordinal, view())
    # The learner made an update of 0 and 1; group 3 still runs under version 0.
    assert start_all(it, view(1)) == []
    it.formed(3, MIXED, 0)
    assert it.decide(3, view(1)) is Decision.PUBLISH
    assert start_all(it, view(1)) == [4, 5]


def test_the_order_of_publication_is_the_order_of_starts():
    it = plan()
    start_all(it, view())
    it.formed(1, MIXED, 0)
    assert not it.is_turn(1)
    it.ended(0, "refill_cap")
    assert it.is_turn(1)


def test_a_group_that_would_be_refused_is_stale_and_replaced():
    it = plan()
    start_all(it, view())
    for ordinal in range(4):
        it.formed(ordinal, MIXED, 0)
    assert [it.decide(n, view(2, elsewhere=4)) for n in range(2)] == [Decision.STALE] * 2
    assert it.published == 0


def test_groups_of_other_jobs_count_as_in_front_of_the_learner():
    assert len(start_all(plan(), view(elsewhere=3))) == 1
    assert start_all(plan(), view(elsewhere=4)) == []


def test_what_the_learner_dropped_is_owed_again():
    it = plan(updates=1)
    assert start_all(it, view()) == [0, 1]
    for ordinal in (0, 1):
        it.formed(ordinal, MIXED, 0)
        it.decide(ordinal, view())
    assert it.is_delivered(view())
    assert not it.is_consumed(view())
    assert it.is_consumed(view(1))
    assert not it.is_delivered(view(dropped=1))
    assert start_all(it, view(dropped=1)) == [2]


def test_equal_rewards_are_replaced_up_to_the_cap_and_then_fill_the_update():
    it = plan(max_replacements=2, updates=2, parking=Parking(after=99, per_update=99))
    decisions = []
    while not it.is_delivered(view(1)):
        for ordinal in start_all(it, view(1)):
            it.formed(ordinal, ZEROS, 1)
            decisions.append(it.decide(ordinal, view(1)))
    assert decisions == [*[Decision.REPLACE] * 2, *[Decision.FILL] * 2] * 2
    assert (it.replaced, it.filled, it.published) == (4, 4, 4)


def test_more_are_started_than_owed_when_many_are_replaced():
    it = plan(oversampling=2.0, groups_per_update=8, max_replacements=99, tasks=50, staleness=0)
    for ordinal in start_all(it, view()):
        it.formed(ordinal, ZEROS if ordinal % 2 else MIXED, 0)
        it.decide(ordinal, view())
    # 4 of 8 are missing and 4 of 8 + 4 were equal: each counts two thirds.
    assert len(start_all(it, view())) == 6


def test_a_task_that_teaches_nothing_is_parked_and_comes_back():
    it = plan(tasks=2, parking=Parking(after=2, updates=1, per_update=9), max_replacements=0)
    task = it.pool.order(0)[0]
    indices = []
    for update in range(4):
        while (it.published - 2 * update) < 2:
            turn = it.start(view(update))
            assert turn is not None
            indices.append(turn.index)
            it.formed(turn.ordinal, ONES if turn.index == task else MIXED, update)
            it.decide(turn.ordinal, view(update))
        if update == 1:
            assert it.pool.parked() == {task: "saturated"}
    assert indices.count(task) < indices.count(1 - task)


def test_a_pool_in_which_nothing_can_run_says_so():
    it = plan(tasks=2)
    for _ in range(2):
        turn = it.start(view())
        assert turn is not None
        it.ended(turn.ordinal, "not_runnable")
    assert it.start(view()) is None
    assert it.pool.parked() == {0: "not_runnable", 1: "not_runnable"}


def test_each_pass_has_every_task_once_in_an_order_that_the_seed_fixes():
    def turns(seed: int) -> list[int]:
        pool = Pool(6, seed, Parking())
        return [turn.index for _ in range(12) if (turn := pool.next()) is not None]

    assert sorted(turns(1)[:6]) == sorted(turns(1)[6:]) == list(range(6))
    assert turns(1) == turns(1) != turns(2)


def test_a_restart_goes_on_with_the_same_turns():
    first = plan(tasks=3, updates=9)
    turns = []
    for number, rewards in enumerate((MIXED, ZEROS, MIXED)):
        turn = first.start(view())
        assert turn is not None
        turns.append(turn)
        first.formed(turn.ordinal, rewards, 0)
        first.decide(turn.ordinal, view())
        assert number == turn.ordinal
    second = plan(tasks=3, updates=9)
    for turn, outcome, rewards in zip(
        turns, ("published", "zero_variance", "published"), (MIXED, ZEROS, MIXED), strict=True
    ):
        assert second.pool.place(turn.index, turn.number) == turn.ordinal
        second.restore(turn, outcome, rewards)
    assert (second.published, second.replaced) == (first.published, first.replaced) == (2, 1)
    assert second.start(view(1)) == first.start(view(1))


HISTORY = st.tuples(
    st.integers(1, 4), st.integers(0, 3), st.integers(1, 3), st.integers(1, 6), st.integers(0, 6)
)


@settings(max_examples=150, deadline=None)
@given(HISTORY, st.integers(0, 2**32))
def test_the_learner_always_gets_whole_updates_and_refuses_nothing(
    history: tuple[int, int, int, int, int], seed: int
):
    """A learner that takes in stream order and trains whenever it has enough; chaos otherwise."""
    (per_update, staleness, updates, tasks, cap), chance = history, random.Random(seed)
    rules = {"groups_per_update": per_update, "staleness": staleness, "updates": updates}
    it = plan(tasks, **rules, max_replacements=cap, oversampling=chance.choice((1.0, 2.0)))
    version, running, stream, oldest = 0, list[int](), list[int](), dict[int, int]()
    for _ in range(2000):
        now = view(version)
        if it.is_delivered(now) and it.is_consumed(now):
            break
        if it.may_start(now) and (not running or chance.random() < 0.5):
            turn = it.start(now)
            assert turn is not None
            running.append(turn.ordinal)
            oldest[turn.ordinal] = version
        elif running and chance.random() < 0.7:
            ordinal = chance.choice(running)
            if chance.random() < 0.1:
                it.ended(ordinal, "refill_cap")
                running.remove(ordinal)
            elif it.is_turn(ordinal):
                it.formed(ordinal, chance.choice((MIXED, ZEROS, ONES)), oldest[ordinal])
                running.remove(ordinal)
                if it.decide(ordinal, now) in (Decision.PUBLISH, Decision.FILL):
                    stream.append(oldest[ordinal])
        if len(stream) >= (version + 1) * per_update:
            taken = stream[version * per_update : (version + 1) * per_update]
            assert all(version - sampled <= staleness for sampled in taken)
            version += 1
    else:
        raise AssertionError("the run never ended")
    assert version == updates
    assert it.published == updates * per_update


def test_bands_are_where_the_mean_of_the_posterior_lies():
    # (k + 1/2) / (n + 1): 0.5/9 = .056, 1.5/9 = .167, 4.5/9 = .5, 7.5/9 = .83, 8.5/9 = .94
    found = [band(passed, 8) for passed in (0, 1, 4, 7, 8)]
    assert found == ["too_hard", "hard", "medium", "easy", "too_easy"]
    assert band(1, 16) == "hard"  # 1.5/17 = .088
    assert band(1, 24) == "too_hard"  # 1.5/25 = .06


def test_a_task_that_has_become_too_easy_rests_and_comes_back_with_a_clean_slate():
    pool = Pool(2, 7, Parking(updates=3), reband_after=16)
    # 15 of 16, with a failure in each half: 15.5/17 = .91.
    pool.results(0, (1.0,) * 8)
    assert pool.bands() == {}
    pool.results(0, (1.0,) * 7 + (0.0,))
    assert (pool.bands(), pool.parked()) == ({0: "too_easy"}, {0: "too_easy"})
    pool.begin_update(3)
    assert pool.parked() == {}
    pool.results(0, (0.0, 1.0) * 4)
    assert pool.bands() == {0: "too_easy"}, "half a look is none"
    pool.results(0, (0.0, 1.0) * 4)
    assert (pool.bands(), pool.parked()) == ({0: "medium"}, {})


def test_each_rest_in_a_row_is_twice_as_long():
    pool = Pool(1, 7, Parking(updates=2), reband_after=8)
    pool.results(0, (0.0,) * 8)
    pool.begin_update(2)
    assert pool.parked() == {}
    pool.results(0, (0.0,) * 8)
    pool.begin_update(5)
    assert pool.parked() == {0: "too_hard"}
    pool.begin_update(6)
    assert pool.parked() == {}


def test_without_reband_after_the_pool_is_fixed():
    pool = Pool(1, 7, Parking())
    for _ in range(20):
        pool.results(0, (1.0,) * 8)
    assert (pool.bands(), pool.parked()) == ({}, {})


def test_a_restart_finds_the_same_bands_and_rests():
    rules = PlanRules(groups_per_update=2, max_replacements=4, oversampling=1.0)
    parking, chance = Parking(after=9, updates=2, per_update=9), random.Random(3)
    first = StreamPlan(rules, Pool(3, 7, parking, reband_after=6))
    told = []
    for step in range(40):
        turn = first.start(view(step // 2))
        assert turn is not None
        rewards = tuple(float(chance.random() < (0.02, 0.5, 0.98)[turn.index]) for _ in range(3))
        first.formed(turn.ordinal, rewards, step // 2)
        decision = first.decide(turn.ordinal, view(step // 2))
        told.append((turn, "published" if decision is Decision.FILL else decision.value, rewards))
    second = StreamPlan(rules, Pool(3, 7, parking, reband_after=6))
    for turn, outcome, rewards in told:
        second.restore(turn, outcome, rewards)
    assert first.pool.bands() == second.pool.bands() != {}
    assert first.pool.parked() == second.pool.parked()
