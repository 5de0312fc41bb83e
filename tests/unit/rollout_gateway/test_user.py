"""The scripted user."""

from pathlib import Path

import pytest
from envfarm.errors import ConfigError

from rollout_gateway.user import Users

GOOD = """\
task: shop/late
context: You are Ada.
script:
  - when: '(?i)e-?mail'
    say: It is ada@example.com.
  - when: 'sure'
    say: Yes.
  - when: '(?i)e-?mail'
    say: I told you already.
end_after: '(?i)refunded'
"""


def write(folder: Path, text: str, slug: str = "late") -> Path:
    path = folder / "shop" / "user" / f"{slug}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return folder


async def test_the_first_line_that_fits_is_said_once(tmp_path: Path):
    user = Users(write(tmp_path, GOOD)).user("shop/late")
    assert await user.answer("Your E-Mail, please; are you sure?") == "It is ada@example.com."
    assert await user.answer("Your email, please.") == "I told you already."
    assert await user.answer("Your email, please.") is None


async def test_two_attempts_have_users_of_their_own(tmp_path: Path):
    scripts = Users(write(tmp_path, GOOD))
    assert await scripts.user("shop/late").answer("email") == "It is ada@example.com."
    assert await scripts.user("shop/late").answer("email") == "It is ada@example.com."


async def test_the_end_comes_before_any_line(tmp_path: Path):
    user = Users(write(tmp_path, GOOD)).user("shop/late")
    assert await user.answer("Refunded. Are you sure?") is None


async def test_when_nothing_fits_the_user_leaves(tmp_path: Path):
    assert await Users(write(tmp_path, GOOD)).user("shop/late").answer("Hm.") is None


def test_a_task_without_a_script_is_the_users_failure(tmp_path: Path):
    with pytest.raises(ConfigError, match="shop/early"):
        Users(write(tmp_path, GOOD)).user("shop/early")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: shop/late\nscript: [", r"late.yaml:2"),
        ("task: shop/late\nbogus: 1\n", r"late.yaml:2: bogus: Extra inputs"),
        ("task: shop/other\n", r"its place says 'shop/late'"),
        ("task: shop/late\nend_after: '('\n", r"late.yaml:2: end_after.*valid regular"),
        ("task: shop/late\nscript:\n  - when: x\n", r"late.yaml:3: script.0.say: Field required"),
        (
            "task: shop/late\nscript:\n  - {when: '[', say: x}\n",
            r"late.yaml:3: script.0.when.*valid regular",
        ),
        ("task: shop/late\nscript: x\n", r"late.yaml:2: script: .*valid list"),
        ("- x\n", r"late.yaml:1: Input should be a valid dict"),
        ("", r"late.yaml:1: the file is empty"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, text: str, message: str):
    with pytest.raises(ConfigError, match=message):
        Users(write(tmp_path, text))


async def test_the_scripts_of_the_orders_domain_load():
    scripts = Users(Path(__file__).parents[3] / "domains")
    assert await scripts.user("orders/refund-damaged").answer("Your email?")
