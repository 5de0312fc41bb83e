"""Sequential probing beside probing everything k times, on three pools: exact, and as a campaign runs.

The exact figures follow every (passed, clean). The simulated ones draw tasks and ask for attempts in
waves, as `envfarm probe` does with its defaults.
"""

import inspect

import numpy as np
import pytest

from envfarm_cli.campaign.probing import ProbePlan, Standing, next_keys
from envfarm_cli.commands_probe import probe_
from envfarm_numbers import jeffreys
from envfarm_numbers.probe_efficiency import (
    FIXED_LIMIT,
    Pool,
    efficiency,
    fixed_wrong_band,
    pools,
    true_bands,
)
from envfarm_numbers.probing import StoppingRule
from tests.support.proof import write_proof

TASKS = 6_000
LIMIT = 0.6
pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]


def default(name: str):
    return inspect.signature(probe_).parameters[name].default


def rule() -> StoppingRule:
    names = ("minimum", "cap", "confidence", "worth")
    return StoppingRule(**{name: default(name) for name in names})


def campaign(pool: Pool, random: np.random.Generator) -> tuple[float, float]:
    """(mean attempts a task, share of wrong bands) of one probe of TASKS tasks."""
    rates = dict(enumerate(random.choice(pool.rates, TASKS, p=pool.weights / pool.weights.sum())))
    standings = {str(task): Standing() for task in rates}
    plan = ProbePlan(
        name="p",
        tasks=list(standings),
        rule=rule(),
        at_once=default("at_once"),
        budget=0,
        seed=1,
        run_id="r",
        policy=None,
    )
    while keys := next_keys(plan, standings, 0):
        for task, _ in keys:
            one = standings[task]
            one.asked, one.clean = one.asked + 1, one.clean + 1
            one.passed += int(random.random() < rates[int(task)])
    counts = np.array([(one.passed, one.clean) for one in standings.values()])
    named = jeffreys.bands(counts[:, 0], counts[:, 1])
    truth = true_bands(np.array(list(rates.values())))
    return float(counts[:, 1].mean()), float((named != truth).mean())


def test_the_default_probe_needs_three_fifths_of_a_fixed_one():
    random, found = np.random.default_rng(5), {}
    for pool in pools():
        exact = efficiency(rule(), pool)
        runs, wrong = campaign(pool, random)
        # In waves no task stops earlier than alone, so it is wrong no more often; what remains is
        # the sampling error of the simulation.
        error = 2 * (wrong * (1 - wrong) / TASKS) ** 0.5
        fixed = next(
            k for k in range(3, FIXED_LIMIT + 1) if fixed_wrong_band(k, pool) <= exact.wrong_band
        )
        found[pool.name] = {
            "exact": {
                "runs": round(exact.runs, 3),
                "wrong_band": round(exact.wrong_band, 5),
                "fixed_k": exact.fixed_k,
                "fixed_wrong_band": round(exact.fixed_wrong_band, 5),
                "fraction": round(exact.fraction, 4),
            },
            "simulated": {
                "tasks": TASKS,
                "runs": round(runs, 3),
                "wrong_band": round(wrong, 5),
                "two_standard_errors": round(error, 5),
                "fraction": round(runs / fixed, 4),
            },
        }
        assert wrong <= exact.wrong_band + error
        assert exact.fraction <= LIMIT
        assert runs / fixed <= LIMIT
    at_once = default("at_once")
    settings = {name: default(name) for name in ("minimum", "cap", "confidence", "worth")}
    write_proof(
        "sequential-probing",
        {"limit": LIMIT, "rule": settings, "at_once": at_once, "pools": found},
    )
