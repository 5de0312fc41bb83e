"""How a job that goes on is told to people."""

from typing import Any

from rich.console import Console

from envfarm_cli.job_view import Progress, Rates, clock, groups_there, line, screen

NONE = Rates(None, None, None, None)


def job(**fields: Any) -> dict[str, Any]:
    return {
        "job_id": "j",
        "run_id": "r",
        "kind": "JOB_KIND_PROBE",
        "state": "JOB_STATE_RUNNING",
        "is_stream": False,
        "groups_total": 10,
        "groups_published": 0,
        "groups_recorded": 0,
        "groups_cancelled": 0,
        "groups_dropped": 0,
        "groups_running": 0,
        "rollouts_running": 0,
        "attempts": 0,
        "sampled_tokens": 0,
        "reward_mean": 0.0,
        "refilled_samples": 0,
        "cancelled": {},
        "parked": {},
        "waiting": {},
        "waiting_for": "",
        "message": "",
        **fields,
    }


def drawn(it: dict[str, Any], slots: list[dict[str, Any]], trouble: str = "") -> str:
    console = Console(width=140, quiet=False)
    with console.capture() as capture:
        console.print(screen(it, NONE, slots, trouble))
    return capture.get()


def test_rates_are_over_what_came_between_two_looks_and_the_time_left_follows():
    progress = Progress()
    progress.add(100.0, job())
    assert progress.rates(100.0) == NONE
    progress.add(110.0, job(groups_recorded=4, attempts=32, sampled_tokens=640))
    # 10 s: 4 groups, 32 attempts, 640 tokens; 6 groups are left at 0.4 a second.
    assert progress.rates(110.0) == Rates(3.2, 64.0, 0.4, 15.0)
    # Ten seconds in which nothing came halve every rate.
    assert progress.rates(120.0) == Rates(1.6, 32.0, 0.2, 30.0)


def test_looks_of_more_than_a_minute_ago_do_not_count():
    progress = Progress()
    for second in range(0, 200, 10):
        progress.add(float(second), job(attempts=second * 5 if second <= 100 else 500))
    # From second 130 to 190 nothing came.
    assert progress.rates(190.0).attempts == 0.0


def test_a_job_without_end_or_without_progress_has_no_time_left():
    progress = Progress()
    progress.add(0.0, job(groups_total=0))
    progress.add(5.0, job(groups_total=0, groups_published=3))
    assert progress.rates(5.0).seconds_left is None
    still = Progress()
    still.add(0.0, job())
    still.add(5.0, job())
    assert still.rates(5.0).seconds_left is None


def test_a_cancelled_group_is_over_in_a_list_and_owed_again_in_a_stream():
    ended = {"groups_published": 5, "groups_cancelled": 2, "groups_dropped": 1}
    assert groups_there(job(**ended)) == 6
    assert groups_there(job(is_stream=True, **ended)) == 4


def test_one_line_holds_what_matters():
    told = line(
        job(
            groups_recorded=4,
            attempts=32,
            reward_mean=0.25,
            refilled_samples=2,
            waiting_for="grader",
        ),
        Rates(3.2, 6400.0, 0.4, 3725.0),
    )
    assert told == (
        "running: 4 of 10 groups · 32 attempts · 3.2 attempts/s, 6,400 tokens/s · 1:02:05 left · "
        "mean reward 0.250 · 2 run again · waits for the grader"
    )


def test_the_screen_says_what_each_attempt_does_and_what_is_waited_for():
    slots = [
        {
            "rollout_id": f"j.0.0.s{n}.a1",
            "task_id": "d/t",
            "turn": 2,
            "doing": "generate" if n else "tool",
            "seconds": 9.5 - n,
            "running_seconds": 12.0,
        }
        for n in range(10)
    ]
    text = drawn(job(waiting={"seat": 7, "env": 1}, parked={"d/x": "hopeless"}), slots)
    assert "attempts by what they do: generate 9, tool 1" in text
    assert "7 waiting for a seat: all are taken" in text
    assert "j.0.0.s0.a1" in text
    assert "9.5 s" in text
    assert "and 2 that wait less long" in text
    assert "hopeless 1" in text


def test_text_of_others_is_neither_markup_nor_control_characters():
    text = drawn(job(job_id="[red]x\x1b[2J", message="[b]no"), [], "gone")
    assert "[red]x" in text
    assert "\x1b[2J" not in text
    assert "[b]no" in text
    assert "no answer from the gateway: gone" in text


def test_clock_times():
    assert [clock(0), clock(61), clock(3661.4)] == ["0:00", "1:01", "1:01:01"]
