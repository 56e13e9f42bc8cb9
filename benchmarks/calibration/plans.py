"""Levels of plans through the whole command: looks, Dunnett's family, guardrails with a range.

Tables of one row a user, through `analyze` as anybody runs it. Looks read the first users of a
table, then more of them, and an experiment rejects if any look does.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from abeval.results.analysis import Result
from benchmarks.runner import Record, Table, write_share
from tests.worlds.experiments import define_experiment

Entries = dict[str, Any]
Draw = Callable[[np.random.Generator, int], np.ndarray[Any, Any]]

VALUES: dict[str, Draw] = {
    "gamma .5": lambda random, n: random.gamma(0.5, 10, n),
    "revenue": lambda random, n: (random.random(n) < 0.1) * random.lognormal(2, 1, n),
    "0 or 1": lambda random, n: (random.random(n) < 0.1).astype(int),
    "counts": lambda random, n: random.poisson(3, n),
}
MEANS = {"gamma .5": 5.0, "revenue": 0.1 * float(np.exp(2.5)), "0 or 1": 0.1, "counts": 3.0}

UNITS = 2_000
"""Users of an experiment."""

SPLITS = {"50/50": 0.5, "90/10": 0.1}
LOOKS = {2: (0.5, 1.0), 5: (0.2, 0.4, 0.6, 0.8, 1.0)}
EVEN = {"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}
DUNNETT = {
    "3 variants": ({"a": 0.34, "b": 0.33, "c": 0.33}, "gamma .5", 1.0),
    "4 variants, b gains": (EVEN, "gamma .5", 1.5),
    "4 variants": (EVEN, "gamma .5", 1.0),
    "4 variants, 70 % in control": ({"a": 0.7, "b": 0.1, "c": 0.1, "d": 0.1}, "gamma .5", 1.0),
    "4 variants, shares": (EVEN, "0 or 1", 1.0),
}
"""Shares of variants, their values, and what b multiplies them by."""


def draw_table(random: np.random.Generator, shares: Mapping[str, float]) -> pd.DataFrame:
    """Return users who arrive in a random order, and their values, alike in all variants."""
    numbers = [round(UNITS * share) for share in shares.values()]
    variant = random.permutation(np.repeat([*shares], numbers))
    values = {f"v{i}": draw(random, variant.size) for i, draw in enumerate(VALUES.values())}
    return pd.DataFrame({"user_id": np.arange(variant.size), "variant": variant, **values})


def analyze_plan(
    table: pd.DataFrame,
    shares: Mapping[str, float],
    metrics: Sequence[Entries],
    **inference: object,
) -> Result:
    """Analyse a table by a plan."""
    return define_experiment(
        variants={name: {"weight": share} for name, share in shares.items()},
        logs={"units": {}},
        metrics=metrics,
        inference=inference,
        trust={"aa_runs": 0},
    ).analyze(logs={"units": table})


# One goal for each kind of values; their p-values are read before any correction.
GOALS: list[Entries] = [{"name": name, "value": f"v{i}"} for i, name in enumerate(VALUES)]


def measure_looks(cell: tuple[str, int], repetitions: int, seed: int) -> Iterator[Record]:
    """Count experiments in which nothing differs and any look rejects, by values."""
    (split, number), shares = cell, _halves(cell[0])
    rejected, refused = Counter[str](), Counter[str]()
    plan = {"looks": "group_sequential", "planned_units": UNITS, "planned_looks": LOOKS[number]}
    for run in range(seed, seed + repetitions):
        table = draw_table(np.random.default_rng([run, 60, number]), shares)
        looks = [
            analyze_plan(table[: round(UNITS * look)], shares, GOALS, **plan).scorecard
            for look in LOOKS[number]
        ]
        rejected.update({r.metric for look in looks for r in look if (r.p_value or 1) <= 0.05})
        refused.update({r.metric for look in looks for r in look if r.p_value is None})
    for name in VALUES:
        found = write_share(rejected[name], repetitions)
        head = {"looks": number, "split": split, "values": name}
        yield {**head, "any look rejects, %": found, "no answer": refused[name]}


def measure_dunnett(design: str, repetitions: int, seed: int) -> Record:
    """Count experiments in which Dunnett's family finds any variant that does nothing."""
    shares, values, gain = DUNNETT[design]
    place, found, refused = [*VALUES].index(values), 0, 0
    for run in range(seed, seed + repetitions):
        table = draw_table(np.random.default_rng([run, 61]), shares)
        table[f"v{place}"] *= np.where(table["variant"] == "b", gain, 1)
        result = analyze_plan(table, shares, [GOALS[place]], family="dunnett")
        rows = [r for r in result.scorecard if gain == 1 or r.variant != "b"]
        found += any(r.p_adjusted is not None and r.p_adjusted <= 0.05 for r in rows)
        refused += any(r.p_value is None for r in rows)
    false = {"any false finding, %": write_share(found, repetitions), "no answer": refused}
    return {"Dunnett": design, "values": values, **false}


def measure_ranges(split: str, repetitions: int, seed: int) -> Iterator[Record]:
    """Count experiments whose variant has the value of an end: called outside, called inside."""
    guardrails = [
        {
            **goal,
            "name": f"{end} end, {goal['name']}",
            "role": "guardrail",
            "margin": {"within": [share * MEANS[goal["name"]] for share in within]},
        }
        for end, within in (("upper", (0.5, 1.0)), ("lower", (1.0, 2.0)))
        for goal in GOALS
    ]
    outside, inside, answered = Counter[str](), Counter[str](), Counter[str]()
    for run in range(seed, seed + repetitions):
        table = draw_table(np.random.default_rng([run, 62]), _halves(split))
        for row in analyze_plan(table, _halves(split), guardrails).ranges:
            answered[row.metric] += 1
            is_out = not row.low <= row.value <= row.high
            outside[row.metric] += is_out and row.p_value <= 0.05
            inside[row.metric] += row.low < row.value_low and row.value_high < row.high
    for name in (guardrail["name"] for guardrail in guardrails):
        yield {
            "value at the": name,
            "split": split,
            "called outside, %": write_share(outside[name], repetitions),
            "called inside, %": write_share(inside[name], repetitions),
            "no answer": repetitions - answered[name],
        }


def _halves(split: str) -> dict[str, float]:
    return {"a": 1 - SPLITS[split], "b": SPLITS[split]}


TABLES = {
    "range": Table(measure_ranges, tuple(SPLITS), repetitions=400),
    "dunnett": Table(measure_dunnett, tuple(DUNNETT), repetitions=400),
    "looks": Table(measure_looks, [(s, n) for s in SPLITS for n in LOOKS], repetitions=400),
}
