import datetime

import pytest
from envfarm.errors import ConfigError

from envfarm_numbers.ledger import ledger, training_cost, unit_cost
from envfarm_numbers.prices import HourPrices, PolicyPrices, PriceSheet, TokenPrice
from envfarm_numbers.usage import statuses, usage
from tests.support.attempts import row

SHEET = PriceSheet(
    date=datetime.date(2026, 11, 1),
    currency="USD",
    source="a test",
    policy=PolicyPrices(prompt=1.0, sampled=10.0),
    user=TokenPrice(tokens=2.0),
    judge=TokenPrice(tokens=4.0),
    hours=HourPrices(environment=3.6, training=12.0),
)


@pytest.mark.parametrize(
    "cost, units, shown",
    [
        (925.80, 5242, "0.177"),
        (855.58, 6163, "0.139"),
        (925.80, 38, "24.36"),
        (855.58, 107, "8.00"),
        (1720.60, 231, "7.45"),
    ],
)
def test_published_unit_costs(cost, units, shown):
    digits = len(shown.partition(".")[2])
    assert f"{unit_cost('success', cost, units, '').value:.{digits}f}" == shown


def test_every_part_of_a_campaign_by_hand():
    rows = [
        row("d/a", 0, 1.0, user_tokens=500, judge_tokens=250),
        row("d/a", 1, None),
        row("d/a", 1, 0.0, attempt=2),
    ]
    found = ledger(rows, SHEET, dependable=0)
    # 3 × 1000 prompt at 1 + 3 × 200 sampled at 10, per million; 3 × 2 s at 3.6 an hour.
    assert found.all.agent_cost == pytest.approx(0.009)
    assert found.all.user_cost == pytest.approx(0.001)
    assert found.all.judge_cost == pytest.approx(0.001)
    assert found.all.environment_cost == pytest.approx(0.006)
    assert found.all.cost == pytest.approx(0.017)
    assert found.wasted.cost == pytest.approx(0.005)
    assert (found.all.agent_seconds, found.all.tool_seconds) == (5.25, 0.75)
    per = {unit.name: unit for unit in found.units}
    assert per["attempt"].value == pytest.approx(0.0085)
    assert per["success"].value == pytest.approx(0.017)
    assert found.prices_of == "2026-11-01, a test"


def test_nothing_to_divide_by_is_said_and_is_neither_zero_nor_free():
    per = ledger([row("d/a", 0, 0.0)], SHEET, dependable=0).units
    assert [unit.value for unit in per[1:]] == [None, None]
    assert per[1].note == "undefined: no attempt passed; 0.01 was spent"
    assert "no task passed every time" in per[2].note


def test_training_is_paid_by_the_hour_and_apart():
    assert training_cost(1800, SHEET).cost == 6.0


def test_a_price_sheet_is_read_strictly(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text('date = 2026-11-01\ncurrency = "USD"\nsource = "x"\n[policy]\nprompt = 1\n')
    assert PriceSheet.read(path).policy.prompt == 1.0
    for text, word in (
        ('currency = "USD"\nsource = "x"\n', "date"),
        ('date = 2026-11-01\ncurrency = "USD"\nsource = "x"\n[polcy]\n', "polcy"),
        ('date = 2026-11-01\ncurrency = "USD"\nsource = "x"\n[user]\ntokens = -1\n', "below zero"),
        ("date = ", "Invalid value"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=word):
            PriceSheet.read(path)
    with pytest.raises(ConfigError, match="no price sheet"):
        PriceSheet.read(tmp_path / "none.toml")


def test_usage_by_outcome():
    rows = [row("d/a", i, 1.0, sampled_tokens=100 * (i + 1)) for i in range(3)]
    rows += [row("d/a", 3, 0.0, status="truncated_tokens"), row("d/a", 4, None)]
    found = {part["outcome"]: part for part in usage(rows)}
    assert {name: part["attempts"] for name, part in found.items()} == {
        "all": 5,
        "passed": 3,
        "failed": 1,
        "without reward": 1,
    }
    assert found["passed"]["measures"]["sampled_tokens"] == {
        "sum": 600,
        "mean": 200,
        "median": 200,
        "p90": 280,
        "max": 300,
    }
    assert statuses(rows) == {"completed": 3, "failed_env": 1, "truncated_tokens": 1}
