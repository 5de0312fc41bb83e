"""docs/checks.md: every example is read by the grader, and every option is explained."""

import re
import typing
from pathlib import Path

import pytest
from envfarm_common import strict_yaml
from pydantic import BaseModel

from grader import check_kinds
from grader.check_kinds import Check, PythonCheck, Strict
from grader.checkset import CheckFile
from grader.sandbox import child
from grader.sandbox.sandbox import Sandbox

TEXT = (Path(__file__).parents[3] / "docs/checks.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
KINDS = typing.get_args(typing.get_args(Check)[0])


class Checks(Strict):
    checks: list[Check]


def read(example: str, folder: Path) -> CheckFile | Checks:
    path = folder / "example.yaml"
    if example.startswith("task:"):
        path.write_text(example)
        return strict_yaml.load(path, CheckFile)
    path.write_text("checks:\n" + example)
    return strict_yaml.load(path, Checks)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_is_read_as_it_stands(example: str, tmp_path: Path):
    read(example, tmp_path)


def test_every_kind_has_an_example(tmp_path: Path):
    shown = {check.kind for example in EXAMPLES for check in read(example, tmp_path).checks}
    assert shown == {kind.model_fields["kind"].annotation.__args__[0] for kind in KINDS}
    assert len(shown) == 7


@pytest.mark.parametrize(
    "model", [*KINDS, CheckFile, check_kinds.AllowedRows], ids=lambda m: m.__name__
)
def test_every_option_is_explained(model: type[BaseModel]):
    missing = [name for name in model.model_fields if not re.search(rf"\b{name}\b", TEXT)]
    assert missing == []


def test_the_modules_of_a_python_check_are_listed():
    listed = {name for name in child.MODULES if not name.startswith("_")}
    assert {name for name in listed if f"`{name}`" in TEXT} == listed


async def test_the_python_example_answers(tmp_path: Path):
    (check,) = [
        check
        for example in EXAMPLES
        for check in read(example, tmp_path).checks
        if isinstance(check, PythonCheck)
    ]
    whole = [{"order_id": "O-1014", "amount": 100.0}, {"order_id": "O-1014", "amount": 29.0}]
    assert (await Sandbox().run(check.code, [], "", {"lines": whole})).outcome == "pass"
    half = await Sandbox().run(check.code, [], "", {"lines": whole[:1]})
    assert (half.outcome, half.detail) == ("fail", "refunds add up to 100.0")
