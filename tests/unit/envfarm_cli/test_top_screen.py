from rich.console import Console

from envfarm_cli.commands_top import screen
from envfarm_watch.scrape import Interval, Sample
from envfarm_watch.top import Top


def drawn(page_before: str, page_after: str, silent: list[str]) -> str:
    interval = Interval(Sample.read(0.0, [page_before]), Sample.read(2.0, [page_after]))
    console = Console(width=120, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(screen(Top.of(interval), silent))
    return capture.get()


def test_rates_stand_under_what_became_of_them():
    text = drawn(
        'envfarm_groups_total{outcome="published"} 2\nenvfarm_groups_total{outcome="stale"} 0\n'
        'envfarm_groups_taken_total{fate="trained"} 0',
        'envfarm_groups_total{outcome="published"} 8\nenvfarm_groups_total{outcome="stale"} 2\n'
        'envfarm_groups_taken_total{fate="trained"} 4',
        [],
    )
    (groups,) = [line for line in text.splitlines() if line.strip("│ ").startswith("groups ")]
    assert [cell.strip() for cell in groups.strip("│").split("│")] == [
        "groups",
        "4.0",
        "3.0",
        "2.0",
        "2.0",
    ]


def test_what_nobody_told_is_a_dash_and_not_a_zero():
    text = drawn("", "", [])
    assert "–" in text
    assert "0.0" not in text.replace("over 2.0 s", "")


def test_the_learner_shows_the_phase_that_it_is_in():
    phases = 'envfarm_learner_phase{phase="wait"} 0\nenvfarm_learner_phase{phase="gradients"} 1\n'
    assert "the learner is at: gradients" in drawn(phases, phases, [])
    idle = phases.replace("} 1", "} 0")
    assert "the learner is at" not in drawn(idle, idle, [])


def test_a_process_that_does_not_answer_is_named():
    assert "no answer: grader" in drawn("", "", ["grader"])
