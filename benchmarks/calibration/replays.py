"""How often the check `aa` warns of sound tables, and of tables whose test rejects too often.

    python -m benchmarks.calibration.replays --tables 1000

Sound: a mean of six kinds of values, or a ratio, at 200 to 5,000 users a variant. Not sound: a
ratio in which ten users have most of the denominator and none of the numerator. Each is a table of
one row a user, through `analyze` as anybody runs it.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import abeval

Draw = Callable[[np.random.Generator, int], np.ndarray[Any, Any]]

KINDS: dict[str, Draw] = {
    "normal": lambda random, n: random.normal(10, 3, n),
    "gamma 2": lambda random, n: random.gamma(2, 10, n),
    "gamma .5": lambda random, n: random.gamma(0.5, 10, n),
    "lognormal": lambda random, n: random.lognormal(0, 1, n),
    "counts": lambda random, n: random.poisson(2, n),
    "0 or 1": lambda random, n: (random.random(n) < 0.2).astype(int),
}

SIZES = (200, 500, 1_500, 5_000)
"""Users of each variant."""


def table_of(random: np.random.Generator, units: int) -> pd.DataFrame:
    """Return users of two variants, and nothing else."""
    variant = random.permutation(np.repeat(["a", "b"], units))
    return pd.DataFrame({"user_id": np.arange(2 * units), "variant": variant})


def sound(kind: str, units: int, seed: int) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return a table in which nothing differs, and its metric; of `ratio`, clicks of views."""
    random = np.random.default_rng([seed, 46])
    table = table_of(random, units)
    if kind != "ratio":
        return table.assign(y=KINDS[kind](random, 2 * units)), {"name": "y", "value": "y"}
    views = 1 + random.poisson(random.gamma(2, 3, 2 * units))
    clicks = random.binomial(views, random.beta(2, 8, 2 * units))
    return table.assign(clicks=clicks, views=views), _ratio("clicks")


def heavy(units: int, seed: int) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return a table in which ten users decide, whose test rejects in vain."""
    random = np.random.default_rng([seed, 47])
    table = table_of(random, units)
    views = 1 + np.round(random.lognormal(0, 2, 2 * units)).astype(int)
    clicks = random.binomial(views, 0.3)
    clicks[np.argsort(views)[-10:]] = 0
    return table.assign(gain=5 * clicks - views, views=views), _ratio("gain")


def _ratio(numerator: str) -> dict[str, str]:
    return {"name": "rate", "numerator": numerator, "denominator": "views", "role": "goal"}


def judged(table: pd.DataFrame, metric: dict[str, str]) -> tuple[str, float | None, bool]:
    """Return the status of the check, the share of replays that reject, and if a cap is advised."""
    result = abeval.define(
        name="replays",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"units": {}},
        metrics=[metric],
        engine={"threads": 1},
    ).analyze(logs={"units": table})
    check = next(one for one in result.trust if one.name == "aa")
    rate = result.aa[0].rejection_rate if result.aa else None
    return check.status, rate, check.status == "warn" and "cap = 0.99" in check.remedy


def main() -> None:
    """Print a table of both."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.replays")
    parser.add_argument("--tables", type=int, default=1_000, help="sound tables in all")
    options = parser.parse_args()
    cells = [(kind, units) for kind in (*KINDS, "ratio") for units in SIZES]
    found, advised = dict[str, Counter[str]](), 0
    for seed in range(options.tables):
        kind, units = cells[seed % len(cells)]
        status, _, cap = judged(*sound(kind, units, seed))
        found.setdefault(kind, Counter())[status] += 1
        advised += cap
    sys.stdout.write("| sound tables | | warned | not replayed |\n|---|--:|--:|--:|\n")
    total = sum(found.values(), Counter[str]())
    for name, counts in (*found.items(), ("**all**", total)):
        row = (f"{count:,}" for count in (counts.total(), counts["warn"], counts["skipped"]))
        sys.stdout.write(f"| {name} | {' | '.join(row)} |\n")
    sys.stdout.write(f"\nA cap was advised in {advised} of the {total['warn']} warnings.\n\n")
    sys.stdout.write("| ten users decide, users a variant | tables | mean share rejected, % | ")
    sys.stdout.write("warned | cap advised |\n|--:|--:|--:|--:|--:|\n")
    off: list[str] = []
    for units in SIZES:
        ones = [judged(*heavy(units, seed)) for seed in range(max(1, options.tables // 25))]
        rates = [rate for _, rate, _ in ones if rate is not None]
        off += [status for status, rate, _ in ones if rate is not None and rate >= 0.1]
        warned, caps = sum(one[0] == "warn" for one in ones), sum(one[2] for one in ones)
        mean = f"{100 * float(np.mean(rates)):.1f}" if rates else ""
        sys.stdout.write(f"| {units:,} | {len(ones)} | {mean} | {warned} | {caps} |\n")
    sys.stdout.write(
        f"\nOf {len(off)} that reject 10 % or more, {off.count('warn')} are warned of.\n"
    )


if __name__ == "__main__":
    main()
