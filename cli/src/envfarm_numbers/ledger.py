"""What a campaign cost, by who was paid, and what that makes per attempt, success and dependable task.

All attempts are paid for, those without reward included; they are also shown apart as wasted.
Probing and training have ledgers of their own: they are never hidden in the price of a success.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from envfarm.attempt_row import AttemptRow

from envfarm_numbers.prices import PriceSheet

MILLION = 1_000_000
HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Tokens, seconds and money of some attempts."""

    attempts: int
    prompt_tokens: int
    sampled_tokens: int
    user_tokens: int
    judge_tokens: int
    agent_seconds: float
    """Wall seconds outside tools: rendering, queueing and generation."""
    tool_seconds: float
    environment_seconds: float
    """Wall seconds that an attempt held its database."""
    agent_cost: float
    user_cost: float
    judge_cost: float
    environment_cost: float

    @property
    def cost(self) -> float:
        return self.agent_cost + self.user_cost + self.judge_cost + self.environment_cost

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "cost": self.cost}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """Money per something. Nothing to divide by is not zero and not free: `value` is None then, and
    `note` says what was spent without one."""

    name: str
    value: float | None
    cost: float
    units: int
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """One campaign."""

    all: Spending
    wasted: Spending
    """Attempts without reward; part of `all`."""
    units: list[UnitCost]
    """Per attempt with a reward, per success, per dependable task."""
    currency: str
    prices_of: str
    """Date and source of the price sheet."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "all": self.all.to_dict(),
            "wasted": self.wasted.to_dict(),
            "units": [unit.to_dict() for unit in self.units],
            "currency": self.currency,
            "prices_of": self.prices_of,
        }


def ledger(rows: Iterable[AttemptRow], sheet: PriceSheet, *, dependable: int) -> Ledger:
    """`dependable` is the number of tasks whose attempts all passed."""
    known = list(rows)
    spent = spending(known, sheet)
    clean = [row for row in known if row.reward is not None]
    successes = sum(row.reward == 1.0 for row in clean)
    return Ledger(
        all=spent,
        wasted=spending([row for row in known if row.reward is None], sheet),
        units=[
            unit_cost("attempt", spent.cost, len(clean), "no attempt with a reward"),
            unit_cost("success", spent.cost, successes, "no attempt passed"),
            unit_cost("dependable task", spent.cost, dependable, "no task passed every time"),
        ],
        currency=sheet.currency,
        prices_of=f"{sheet.date.isoformat()}, {sheet.source}",
    )


def spending(rows: Iterable[AttemptRow], sheet: PriceSheet) -> Spending:
    """Sums over `rows` at the prices of the sheet.

    `prompt_tokens` counts each token that the policy did not sample once, as with a prefix cache; of a
    chat endpoint the growing prompt of every turn, as it is billed.
    """
    known = list(rows)
    total = {
        name: sum(getattr(row, name) for row in known)
        for name in ("prompt_tokens", "sampled_tokens", "user_tokens", "judge_tokens")
    }
    seconds = sum(row.seconds for row in known)
    tool_seconds = sum(row.tool_seconds for row in known)
    agent = total["prompt_tokens"] * sheet.policy.prompt
    agent += total["sampled_tokens"] * sheet.policy.sampled
    return Spending(
        attempts=len(known),
        **total,
        agent_seconds=seconds - tool_seconds,
        tool_seconds=tool_seconds,
        environment_seconds=seconds,
        agent_cost=agent / MILLION,
        user_cost=total["user_tokens"] * sheet.user.tokens / MILLION,
        judge_cost=total["judge_tokens"] * sheet.judge.tokens / MILLION,
        environment_cost=seconds / HOUR * sheet.hours.environment,
    )


def training_cost(seconds: float, sheet: PriceSheet) -> UnitCost:
    """Of the training machine over the wall time of a run; its rollouts have a ledger of their own."""
    return UnitCost(
        name="training machine", value=None, cost=seconds / HOUR * sheet.hours.training, units=0
    )


def unit_cost(name: str, cost: float, units: int, none: str) -> UnitCost:
    """`cost` / `units`, or None with the reason `none`."""
    if units:
        return UnitCost(name=name, value=cost / units, cost=cost, units=units)
    return UnitCost(
        name=name, value=None, cost=cost, units=0, note=f"undefined: {none}; {cost:.2f} was spent"
    )
