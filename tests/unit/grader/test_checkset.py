from pathlib import Path

import pytest
from envfarm.errors import ConfigError, NoChecks

from grader.checkset import load_checkset

GOOD = """\
task: shop/t
golden:
  actions:
    - tool: pay
      arguments: {id: 1, amount: 2.50}
  reply: Paid.
checks:
  - name: end
    kind: state
    unstable: [notes.text]
  - name: words
    kind: reply
    contains_all: [paid]
extra_write:
  tool: pay
"""


def write(root: Path, text: str, slug: str = "t") -> Path:
    folder = root / "shop/private"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{slug}.yaml"
    path.write_text(text)
    return path


def test_a_good_file_is_read(tmp_path: Path):
    write(tmp_path, GOOD)
    checks = load_checkset(tmp_path).find("shop/t")
    assert checks.empty == "fails"
    assert checks.golden.actions[0].arguments == {"id": 1, "amount": 2.5}
    assert [check.kind for check in checks.checks] == ["state", "reply"]


def test_the_hash_ignores_comments_and_follows_content(tmp_path: Path):
    def hash_of(text: str) -> str:
        write(tmp_path, text)
        return load_checkset(tmp_path).find("shop/t").checks_hash

    first = hash_of(GOOD)
    assert hash_of("# a comment\n" + GOOD) == first
    assert hash_of(GOOD.replace("contains_all", "contains_none")) != first


def test_a_task_without_checks_is_not_a_pass(tmp_path: Path):
    write(tmp_path, GOOD)
    with pytest.raises(NoChecks, match="shop/other"):
        load_checkset(tmp_path).find("shop/other")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("golden:", "goldn:", 2, "goldn"),
        ("unstable", "unstabel", 10, "unstabel"),
        ("kind: state", "kind: stat", 8, "checks.0"),
        ("notes.text", "notes", 10, "unstable.0"),
        ("amount: 2.50", "amount: 2.50, id: 2", 5, "twice"),
        ("{id: 1, amount", "{id: 1 amount", 5, ""),
        ("contains_all: [paid]", "matches: '('", 13, "not a usable pattern"),
        ("    contains_all: [paid]\n", "", 11, "contains_all, contains_none or matches"),
        ("name: words", "name: end", 7, "two checks are called"),
        ("  tool: pay\n", "  tol: pay\n", 15, "extra_write.tol"),
        ("reply: Paid.", "reply: 3", 6, "golden.reply"),
        ("task: shop/t", "task: &a shop/t\nempty: *a", 2, "aliases"),
        (
            "    kind: state\n    unstable: [notes.text]\n",
            "    kind: reply\n    contains_all: [x]\n",
            7,
            "words alone",
        ),
        ("    unstable: [notes.text]\n", "    refs: {a.b: notes}\n", 10, "needs `keys`"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
):
    assert old in GOOD
    path = write(
        tmp_path, GOOD.replace(old, new, 1) if old != "name: words" else GOOD.replace(old, new)
    )
    with pytest.raises(ConfigError) as caught:
        load_checkset(tmp_path)
    assert caught.value.message.startswith(f"{path}:{line}: ")
    assert message in caught.value.message


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "- 1\n", "just words\n", "a: b: c\n", "\t- x\n"]
)
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str):
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_checkset(tmp_path)
    assert caught.value.message.startswith(f"{path}:1: ")


def test_yes_is_a_word_and_a_date_is_a_text(tmp_path: Path):
    write(
        tmp_path, GOOD.replace("{id: 1, amount: 2.50}", "{a: yes, b: 2026-03-02, c: 010, d: true}")
    )
    arguments = load_checkset(tmp_path).find("shop/t").golden.actions[0].arguments
    assert arguments == {"a": "yes", "b": "2026-03-02", "c": "010", "d": True}


def test_a_task_must_stand_where_its_id_says(tmp_path: Path):
    write(tmp_path, GOOD, slug="u")
    with pytest.raises(ConfigError, match="by its place it is 'shop/u'"):
        load_checkset(tmp_path)


def test_a_folder_without_checks_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="holds no"):
        load_checkset(tmp_path)
    with pytest.raises(ConfigError, match="not a folder"):
        load_checkset(tmp_path / "nowhere")
