"""The report in a real browser: no error, no request, every figure drawn, numbers those of the JSON."""

import json
import shutil
from pathlib import Path

import pytest

from envfarm_cli.main import main
from envfarm_numbers.report.document import lookup, show
from tests.support.sample_campaigns import PRICES, sample_campaign

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")
FIGURES = {
    "campaign": {
        "repeatability",
        "domains",
        "workflows",
        "difficulty",
        "posteriors",
        "failure-classes",
    },
    "comparison": {"repeatability", "before-after", "failure-classes", "cost-dependability"},
    "runs": {"repeatability", "before-after", "domains", "cost-dependability", "difficulty-1"}
    | {"curve-reward-mean-0", "failure-classes"},
    "selection": {"difficulty", "posteriors"},
    "training": {"curve-reward-mean", "curve-zero-variance-share", "curve-mismatch-gap"},
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict[str, Path]:
    """Folder of each kind of report."""
    root = tmp_path_factory.mktemp("reports")
    before = sample_campaign(root / "before", gain=0.0, policy="before")
    after = sample_campaign(root / "after", gain=0.25, policy="after")
    prices = root / "prices.toml"
    prices.write_text(PRICES)
    learner = root / "learner"
    learner.mkdir()
    steps = [
        {
            "update": i,
            "version": i - 1,
            "reward_mean": 0.3 + i / 40,
            "zero_variance_share": 0.5 - i / 40,
            "mismatch_gap": 0.01 / i,
            "grad_norm": None if i == 4 else 1.0 + i,
        }
        for i in range(1, 13)
    ]
    (learner / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    for arguments in (
        ["select", str(before), "--only-rows", "--out", str(root / "selected")],
        ["report", str(before), "--prices", str(prices), "--out", str(root / "campaign")],
        [
            "compare",
            str(before),
            str(after),
            "--prices",
            str(prices),
            "--out",
            f"{root}/comparison",
        ],
        [
            *("report", str(before), str(learner), str(after)),
            *("--prices", str(prices), "--probe", str(before), "--out", str(root / "runs")),
        ],
        ["report", str(root / "selected"), "--out", str(root / "selection")],
        ["report", str(learner), "--out", str(root / "training")],
    ):
        assert main(arguments) == 0
    return {name: root / name for name in FIGURES}


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Its sandbox does not work for root in containers; the pages are our own.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(params=list(FIGURES))
def kind(request) -> str:
    return request.param


@pytest.fixture(params=[400, 1200])
def page(request, browser, reports, kind):
    """The report at that width, watched for errors and requests."""
    page = browser.new_page(viewport={"width": request.param, "height": 900})
    page.trouble, page.requested = [], []
    page.on("console", lambda message: page.trouble.append(message.text))
    page.on("pageerror", lambda error: page.trouble.append(str(error)))
    page.on("request", lambda wanted: page.requested.append(wanted.url))
    page.goto((reports[kind] / "report.html").as_uri())
    yield page
    assert page.trouble == []
    assert [url for url in page.requested if not url.startswith(("file:", "data:"))] == []
    page.close()


def test_every_figure_is_drawn_inside_the_page(page, kind):
    found = set(page.eval_on_selector_all("figure", "all => all.map(one => one.id)"))
    assert found >= FIGURES[kind], found
    for name in found:
        svg = page.locator(f"#{name} > div svg:visible")
        assert svg.count() == 1, name
        box = svg.bounding_box()
        assert box and box["width"] > 250 and box["height"] > 60, name
        marks = page.locator(f"#{name} > div svg:visible [data-tip]").count()
        assert marks > 0, name
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    smallest = page.evaluate(
        """() => Math.min(...[...document.querySelectorAll("figure svg text")]
        .filter(one => one.checkVisibility()).map(one => one.getBoundingClientRect().height))"""
    )
    assert smallest >= 9, "axis labels can be read"


def test_every_number_is_the_one_of_the_json(page, reports, kind):
    data = json.loads((reports[kind] / "summary.json").read_text())
    assert json.loads(page.locator("#data").text_content() or "") == data
    numbers = page.eval_on_selector_all(
        "[data-path]",
        "all => all.map(one => [one.dataset.path, one.dataset.format, one.textContent])",
    )
    assert len(numbers) > 10
    wrong = [(path, text) for path, how, text in numbers if show(lookup(data, path), how) != text]
    assert wrong == []


def test_all_of_it_can_be_reached_and_used_from_the_keyboard(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(400):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.tagName")
        if name == "BODY":
            break
        reached.add(name)
    assert reached >= {"A", "BUTTON", "SUMMARY"}
    summary = page.locator("figure summary").first
    summary.focus()
    page.keyboard.press("Enter")
    table = page.locator("figure details[open] table").first
    assert table.is_visible()
    head = table.locator("th button").last
    head.focus()
    page.keyboard.press("Enter")
    assert table.locator("th").last.get_attribute("aria-sort") == "ascending"


def test_the_theme_can_be_chosen(page):
    colour = "getComputedStyle(document.body).backgroundColor"
    button = page.locator("#theme")
    button.focus()
    page.keyboard.press("Enter")
    light = page.evaluate(colour)
    page.keyboard.press("Enter")
    assert button.text_content() == "theme: dark"
    assert page.evaluate(colour) != light


def test_a_mark_says_what_it_is_under_the_pointer(page, kind):
    mark = page.locator(f"#{min(FIGURES[kind])} > div svg:visible [data-tip]").first
    mark.scroll_into_view_if_needed()
    mark.hover(force=True)
    assert page.locator("#tip").text_content() == mark.get_attribute("data-tip")
