import json
from dataclasses import replace

import pytest
from envfarm.errors import ConfigError
from hypothesis import given
from hypothesis import strategies as st

from envfarm_numbers.counts import CampaignCounts, TaskCounts
from envfarm_numbers.drift import drift
from envfarm_numbers.exclusion import Exclusions
from envfarm_numbers.selection import ReferenceGate, Settings, select
from envfarm_numbers.selection_files import SelectedTasks, read_inputs, read_tasks, texts
from envfarm_numbers.split import stratified_split
from envfarm_numbers.suite import BIASED, Suite
from envfarm_numbers.task_facts import TaskFacts, families, golden_hash, near_duplicates, text_hash
from tests.support.attempts import digest, rows_of, write_rows


def counts(**tasks: tuple[int, int]) -> CampaignCounts:
    return CampaignCounts(
        {
            f"d/{name}": TaskCounts(f"d/{name}", digest(name), passed=k, clean=n)
            for name, (k, n) in tasks.items()
        },
        sum(n for _, n in tasks.values()),
        {"policy_hash": {"p"}},
    )


def facts(*names: str, **changes) -> dict[str, TaskFacts]:
    return {
        f"d/{name}": TaskFacts(task_id=f"d/{name}", task_hash=digest(name), **changes)
        for name in names
    }


def reasons(selection) -> dict[str, list[str]]:
    return {task.facts.task_id: task.reasons for task in selection.judged}


ALL_BANDS = {"a": (0, 9), "b": (2, 9), "c": (5, 10), "e": (7, 9), "f": (9, 9)}


def test_the_middle_three_bands_are_kept():
    found = select(counts(**ALL_BANDS), {}, Settings())
    assert [task.band for task in found.judged] == [
        "too_hard",
        "hard",
        "medium",
        "easy",
        "too_easy",
    ]
    assert reasons(found) == {
        "d/a": ["band not retained: too_hard"],
        "d/b": [],
        "d/c": [],
        "d/e": [],
        "d/f": ["band not retained: too_easy"],
    }
    assert found.summary()["reasons"] == {"band not retained": 2}


def test_every_reason_against_a_task_is_listed():
    policy = counts(a=(0, 2), b=(4, 8), c=(4, 8), d=(4, 8))
    known = facts("a", "b", "c")
    known["d/b"] = replace(known["d/b"], task_hash="f" * 64)
    reference = counts(a=(0, 1), b=(1, 1), c=(3, 4))
    gate = ReferenceGate(rate_above=0.5, probability=0.7)
    exclusions = Exclusions(ids={"d/a"})
    found = select(policy, known, Settings(gate=gate), reference=reference, exclusions=exclusions)
    assert reasons(found) == {
        "d/a": [
            "excluded: its id is on the list",
            "too few clean runs: 2 of 3",
            "band not retained: too_hard",
            "reference model: 0 of 1 passes",
        ],
        "d/b": [f"changed: it was probed as {digest('b')[:12]}, and is ffffffffffff"],
        "d/c": [],
        "d/d": ["unknown: no domain has this task", "reference model: 0 of 1 clean runs"],
    }


def test_the_gate_on_a_rate_says_what_it_found():
    gate = ReferenceGate(rate_above=0.9, probability=0.9)
    with pytest.raises(ConfigError, match=r"its rate is above 0.9 with probability 0\.\d{3}, not"):
        select(counts(a=(4, 8)), {}, Settings(gate=gate), reference=counts(a=(3, 4)))


def test_copies_of_excluded_tasks_are_found_under_other_names():
    known = facts("a", "b", "c", "e")
    known["d/b"] = replace(known["d/b"], text_hash=text_hash("Please, REFUND my order!"))
    known["d/c"] = replace(known["d/c"], golden_hash=golden_hash("w", [{"tool": "t"}]))
    copied = [
        TaskFacts(task_id="x/1", task_hash=digest("a")),
        TaskFacts(task_id="x/2", task_hash="1", text_hash=text_hash("please refund my order")),
        TaskFacts(task_id="x/3", task_hash="2", golden_hash=known["d/c"].golden_hash),
    ]
    exclusions = Exclusions()
    exclusions.add_suite(Suite.freeze("bench", copied))
    policy = counts(a=(4, 8), b=(4, 8), c=(4, 8), e=(4, 8))
    assert reasons(select(policy, known, Settings(), exclusions=exclusions)) == {
        "d/a": ["excluded: its content is on the list"],
        "d/b": ["excluded: its text is that of a listed task"],
        "d/c": ["excluded: its world and golden run are those of a listed task"],
        "d/e": [],
    }


def test_wrong_exclusion_lists_name_the_line(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("# a benchmark\nd/a\n" + "a" * 64 + "\n\nnonsense\n")
    with pytest.raises(ConfigError, match=r"list.txt:5: 'nonsense' is neither"):
        Exclusions.read([path])
    path.write_text("d/a\nd/a # again\n")
    with pytest.raises(ConfigError, match=r"list.txt:2: d/a is already in line 1"):
        Exclusions.read([path])


def test_rows_of_two_policies_are_refused():
    mixed = counts(a=(4, 8))
    mixed.identity["policy_hash"] = {"p" * 64, "q" * 64}
    with pytest.raises(ConfigError, match="more than one policy_hash: pppppppppppp, qqqqqqqqqqqq"):
        select(mixed, {}, Settings())


def test_wrong_settings_are_named():
    for wrong, word in (
        (Settings(bands=("tough",)), "tough"),
        (Settings(bands=()), "bands"),
        (Settings(minimum_clean=0), "clean"),
        (Settings(validation_share=1.0), "share"),
        (Settings(gate=ReferenceGate(rate_above=0.5)), "given together"),
    ):
        reference = counts(a=(1, 1)) if wrong.gate else None
        with pytest.raises(ConfigError, match=word):
            select(counts(a=(4, 8)), {}, wrong, reference=reference)


def test_near_duplicates_are_reported_and_stay_on_one_side():
    known = facts("a", "b", "c", "e")
    for name in ("a", "b"):
        known[f"d/{name}"] = replace(known[f"d/{name}"], text_hash=text_hash("same words"))
    known["d/c"] = replace(known["d/c"], golden_hash="g")
    known["d/b"] = replace(known["d/b"], golden_hash="g")
    assert families(known.values()) == [["d/a", "d/b", "d/c"], ["d/e"]]
    assert [g["same"] for g in near_duplicates(known.values())] == ["text_hash", "golden_hash"]
    found = select(
        counts(a=(4, 8), b=(4, 8), c=(4, 8), e=(4, 8)), known, Settings(validation_share=0.25)
    )
    assert [task.facts.task_id for task in found.part("validation")] == ["d/e"]


@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=60),
    st.floats(0.05, 0.9),
    st.integers(0, 10**6),
)
def test_the_split_keeps_its_share_in_every_stratum(strata, share, seed):
    ids = [f"d/{i:03}" for i in range(len(strata))]
    of = {task: str(s) for task, s in zip(ids, strata, strict=True)}
    train, validation = stratified_split([[task] for task in ids], of, share, seed)
    assert sorted(train + validation) == ids and train and validation
    assert abs(len(validation) - share * len(ids)) <= 1
    for stratum in set(of.values()):
        size = sum(s == stratum for s in of.values())
        held = sum(of[task] == stratum for task in validation)
        assert abs(held - share * size) <= 1.5
    shuffled = [[task] for task in reversed(ids)]
    assert (train, validation) == stratified_split(shuffled, of, share, seed)


def test_the_expected_share_of_informative_groups_by_hand():
    # Beta(2.5, 2.5): E[p^8] = prod (2.5+i)/(5+i), i = 0 … 7.
    expected = 1.0
    for i in range(8):
        expected *= (2.5 + i) / (5 + i)
    found = select(counts(a=(2, 4)), {}, Settings())
    assert found.summary()["expected_informative_groups"] == pytest.approx(
        1 - 2 * expected, abs=1e-6
    )


@pytest.fixture
def written(tmp_path):
    rows = rows_of({f"d/{i:02}": (1 + i % 7, 8) for i in range(30)})
    path = write_rows(tmp_path / "attempts.jsonl", rows)
    inputs = read_inputs([path], [], [])
    files = texts(select(inputs.policy, {}, Settings()), inputs)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path, files


def test_same_inputs_give_the_same_bytes(written):
    folder, files = written
    inputs = read_inputs([folder / "attempts.jsonl"], [], [])
    assert texts(select(inputs.policy, {}, Settings()), inputs) == files
    other = texts(select(inputs.policy, {}, Settings(seed=43)), inputs)
    assert other["train.json"] != files["train.json"]


def test_train_and_validation_name_their_manifest_and_are_all_that_was_selected(written):
    folder, _ = written
    manifest, lines = read_tasks(folder)
    train, validation = SelectedTasks.read(folder), SelectedTasks.read(folder / "validation.json")
    assert train.selection == validation.selection == manifest["selection"]
    assert not set(train.tasks) & set(validation.tasks)
    kept = {line["task_id"] for line in lines if not line["reasons"]}
    assert set(train.tasks) | set(validation.tasks) == kept
    assert all(line["reasons"] or line["part"] for line in lines)


def test_training_from_other_weights_is_worth_a_warning(written):
    train = SelectedTasks.read(written[0])
    assert train.policy_warning(digest("policy")) == ""
    assert "selected for policy" in train.policy_warning("f" * 64)


def test_an_edited_manifest_is_refused(written):
    folder, files = written
    value = json.loads(files["manifest.json"])
    value["summary"]["selected"] += 1
    (folder / "manifest.json").write_text(json.dumps(value))
    with pytest.raises(ConfigError, match="not a manifest as"):
        read_tasks(folder)
    (folder / "manifest.json").write_text(files["manifest.json"])
    (folder / "tasks.jsonl").write_text(files["tasks.jsonl"] + "\n")
    with pytest.raises(ConfigError, match="not the one of its manifest"):
        read_tasks(folder)


def test_a_selection_is_no_suite_unless_asked_for_and_then_says_so(written):
    folder, _ = written
    with pytest.raises(ConfigError, match="selection of training tasks"):
        Suite.read(folder / "train.json")
    suite = Suite.read(folder / "train.json", biased=True)
    assert suite.warning == BIASED and suite.tasks == SelectedTasks.read(folder).tasks
    (folder / "suite.json").write_text(suite.to_json())
    with pytest.raises(ConfigError, match="selection of training tasks"):
        Suite.read(folder / "suite.json")
    assert Suite.read(folder / "suite.json", biased=True) == suite


def test_a_suite_survives_writing_and_no_edit(tmp_path):
    suite = Suite.freeze("held-out", facts("b", "a", text_hash="t").values())
    path = tmp_path / "suite.json"
    path.write_text(suite.to_json())
    assert Suite.read(path) == suite and suite.warning == ""
    assert Suite.freeze("another name", facts("a", "b").values()).hash == suite.hash
    path.write_text(suite.to_json().replace("d/a", "d/z"))
    with pytest.raises(ConfigError, match="its tasks have the hash"):
        Suite.read(path)
    with pytest.raises(ConfigError, match="1 of its 2 tasks are not as they were frozen: d/b"):
        suite.check({"d/a": digest("a"), "d/b": "0" * 64})


def test_age_finds_the_task_that_left_its_band(written):
    folder, _ = written
    _, lines = read_tasks(folder)
    selected = [line for line in lines if not line["reasons"]]
    trained = {
        line["task_id"]: TaskCounts(line["task_id"], passed=2 * line["passed"], clean=16)
        for line in selected[1:]
    }
    changed = selected[1]["task_id"]
    trained[changed] = TaskCounts(changed, passed=40, clean=40)
    found = drift(selected, trained, 8)
    assert found.tasks[0].task_id == changed and found.tasks[0].p_value < 0.05
    assert (found.drifted, found.unseen) == (1, 1)
    assert found.tasks[0].new_band == "too_easy"
    with pytest.raises(ValueError):
        drift(selected, {}, 8)
