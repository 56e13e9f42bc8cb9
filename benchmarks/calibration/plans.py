"""Levels of plans through the whole command: looks, Dunnett's family, guardrails with a range.

    python -m benchmarks.calibration.plans

Tables of one row a user, through `analyze` as anybody runs it. Looks read the first users of a
table, then more of them, and an experiment rejects if any look does.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

import abeval
from abeval.results.analysis import Result

Metrics = list[dict[str, Any]]
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


def table_of(random: np.random.Generator, shares: dict[str, float]) -> pd.DataFrame:
    """Return users who arrive in a random order, and their values, alike in all variants."""
    numbers = [round(UNITS * share) for share in shares.values()]
    variant = random.permutation(np.repeat([*shares], numbers))
    values = {f"v{i}": draw(random, variant.size) for i, draw in enumerate(VALUES.values())}
    return pd.DataFrame({"user_id": np.arange(variant.size), "variant": variant, **values})


def analyzed(
    table: pd.DataFrame,
    shares: dict[str, float],
    metrics: Metrics,
    **inference: object,
) -> Result:
    """Analyse a table by a plan."""
    return abeval.define(
        name="plans",
        unit="user_id",
        control="a",
        variants={name: {"weight": share} for name, share in shares.items()},
        logs={"units": {}},
        metrics=metrics,
        inference=inference,
        trust={"aa_runs": 0},
        engine={"threads": 1},
    ).analyze(logs={"units": table})


def goals() -> Metrics:
    """One goal for each kind of values; their p-values are read before any correction."""
    return [{"name": name, "value": f"v{i}"} for i, name in enumerate(VALUES)]


def by_looks(runs: int) -> Iterator[tuple[str, ...]]:
    """Count experiments in which nothing differs and any look rejects, by values."""
    for split, share in SPLITS.items():
        shares = {"a": 1 - share, "b": share}
        for number, looks in LOOKS.items():
            rejected, refused = Counter[str](), Counter[str]()
            for seed in range(runs):
                table = table_of(np.random.default_rng([seed, 60, number]), shares)
                any_of, none_of = set[str](), set[str]()
                for look in looks:
                    result = analyzed(
                        table[: round(UNITS * look)],
                        shares,
                        goals(),
                        looks="group_sequential",
                        planned_units=UNITS,
                        planned_looks=[*looks],
                    )
                    any_of |= {r.metric for r in result.scorecard if (r.p_value or 1) <= 0.05}
                    none_of |= {r.metric for r in result.scorecard if r.p_value is None}
                rejected.update(any_of)
                refused.update(none_of)
            for name in VALUES:
                found = percent(rejected[name], runs)
                yield f"{number}", split, name, found, f"{refused[name]}"


def by_arms(runs: int) -> Iterator[tuple[str, ...]]:
    """Count experiments in which Dunnett's family finds any variant that does nothing."""
    for design, (shares, values, gain) in DUNNETT.items():
        place, found, refused = [*VALUES].index(values), 0, 0
        for seed in range(runs):
            table = table_of(np.random.default_rng([seed, 61]), shares)
            table[f"v{place}"] *= np.where(table["variant"] == "b", gain, 1)
            result = analyzed(table, shares, [goals()[place]], family="dunnett")
            rows = [r for r in result.scorecard if gain == 1 or r.variant != "b"]
            found += any(r.p_adjusted is not None and r.p_adjusted <= 0.05 for r in rows)
            refused += any(r.p_value is None for r in rows)
        yield design, values, percent(found, runs), f"{refused}"


def by_range(runs: int) -> Iterator[tuple[str, ...]]:
    """Count experiments whose variant has the value of an end: called outside, called inside."""
    ends = {"upper": (0.5, 1.0), "lower": (1.0, 2.0)}
    guardrails = [
        {
            **goal,
            "name": f"{end} end, {goal['name']}",
            "role": "guardrail",
            "margin": {"within": [share * MEANS[goal["name"]] for share in shares]},
        }
        for end, shares in ends.items()
        for goal in goals()
    ]
    for split, share in SPLITS.items():
        shares = {"a": 1 - share, "b": share}
        outside, inside, answered = Counter[str](), Counter[str](), Counter[str]()
        for seed in range(runs):
            table = table_of(np.random.default_rng([seed, 62]), shares)
            for row in analyzed(table, shares, guardrails).ranges:
                answered[row.metric] += 1
                is_out = not row.low <= row.value <= row.high
                outside[row.metric] += is_out and row.p_value <= 0.05
                inside[row.metric] += row.low < row.value_low and row.value_high < row.high
        for one in guardrails:
            name = one["name"]
            shown = (percent(counts[name], runs) for counts in (outside, inside))
            yield name, split, *shown, f"{runs - answered[name]}"


def percent(count: int, runs: int) -> str:
    """Write a share of experiments with its standard error."""
    share = count / runs
    return f"{100 * share:.1f} ± {100 * (share * (1 - share) / runs) ** 0.5:.1f}"


PARTS: dict[str, tuple[Callable[[int], Iterator[tuple[str, ...]]], tuple[str, ...]]] = {
    "range": (by_range, ("value at the", "split", "called outside, %", "called inside, %")),
    "dunnett": (by_arms, ("Dunnett", "values", "any false finding, %")),
    "looks": (by_looks, ("looks", "split", "values", "any look rejects, %")),
}


def main() -> None:
    """Print a table of each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.plans")
    parser.add_argument("--runs", type=int, default=400, help="experiments a cell")
    parser.add_argument("--part", choices=PARTS, action="append", help="all by default")
    options = parser.parse_args()
    for name in options.part or PARTS:
        rows, heads = PARTS[name]
        sys.stdout.write(
            f"\n| {' | '.join((*heads, 'no answer'))} |\n|{'--|' * (len(heads) + 1)}\n"
        )
        for row in rows(options.runs):
            sys.stdout.write(f"| {' | '.join(row)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
