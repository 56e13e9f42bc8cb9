"""Calibration of an analysis whose traffic split changes.

    python -m benchmarks.calibration.split --experiments 1000

Simulated logs, by day of entry: the share of treatment changes, the click rate, the AUC of the
scores and the activity of units move as well. Each is compared as `analyze` does, with and without
`[[assignment.splits]]`, with and without CUPED; what the queries would sum is summed here, and
`tests/calibration/test_split.py` holds the two together. `pooled` ignores stretches.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.moment_rows import MOMENT_COLUMNS, PRODUCTS, THIRDS, VARIABLES
from abeval.experiment.load import parse_experiment
from abeval.experiment.metrics import named_metrics
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Numbers
from abeval.inference.judge import judge
from abeval.inference.trust.family import decided
from abeval.inference.trust.split import srm_check
from abeval.logs.stretches import ENTERED, planned_splits, stretches_of
from abeval.metrics.definition import Metric
from abeval.results.analysis import Result
from abeval.stats.arrays import Floats, Integers

START = date(2026, 1, 5)
BEFORE = date(2026, 1, 1)
METRICS = ("ctr", "clicks_per_user", "gauc")


@dataclass(frozen=True)
class World:
    """A split that changes, and what changes with it.

    Attributes:
        name: In the table.
        shares: Share of each treatment among the units that enter on each day.
        rates: Click rate of the units that enter on each day.
        per_day: Units that enter on a day, on average.
        returns: Whether units come back on later days.
    """

    name: str
    shares: tuple[tuple[float, ...], ...]
    rates: tuple[float, ...]
    per_day: int = 300
    returns: bool = False

    @property
    def variants(self) -> list[str]:
        """Control and the treatments."""
        return ["a", "b", "c", "d"][: len(self.shares) + 1]


TEN, HALF = 0.1, 0.5
WORLDS = (
    World(
        "10 % for two days, then 50 %; CTR 5 %, then 10 %",
        ((TEN,) * 2 + (HALF,) * 5,),
        (0.05,) * 2 + (0.10,) * 5,
    ),
    World(
        "10 %, then 50 %; no drift; units return",
        ((TEN,) * 4 + (HALF,) * 4,),
        (0.1,) * 8,
        returns=True,
    ),
    World(
        "1, 5, 20, 50 % day by day; CTR rises from 5 to 12 %",
        ((0.01, 0.05, 0.2) + (HALF,) * 5,),
        tuple(np.linspace(0.05, 0.12, 8).tolist()),
        1500,
    ),
    World(
        "three variants: b 10 to 30 %, c from day 4 on; CTR 5 to 10 %",
        ((TEN,) * 3 + (0.3,) * 4, (0.0,) * 3 + (0.3,) * 4),
        (0.05,) * 3 + (0.1,) * 4,
    ),
    World("always 50 %; CTR 5 %, then 10 %", ((HALF,) * 7,), (0.05,) * 2 + (0.10,) * 5),
)


class Units(NamedTuple):
    """Simulated units.

    Attributes:
        day: Day of entry.
        variant: Number of the variant.
        shown: Impressions in the period.
        clicks: Their clicks.
        shown_before: Impressions before the period.
        clicks_before: Their clicks.
        weighted_auc: AUC × impressions × 1e9, where the unit has both classes, else 0.
        judged: Impressions of units with both classes.
    """

    day: Integers
    variant: Integers
    shown: Integers
    clicks: Integers
    shown_before: Integers
    clicks_before: Integers
    weighted_auc: Integers
    judged: Integers


def units_of(world: World, seed: int, lift: float = 0.0) -> Units:
    """Units of one experiment; every treatment has this lift of the click rate and the AUC."""
    rng = np.random.default_rng([seed, len(world.name)])
    day = np.repeat(np.arange(len(world.rates)), rng.poisson(world.per_day, len(world.rates)))
    cuts = np.cumsum(np.array(world.shares), axis=0).T[day]
    variant = (rng.random(len(day))[:, None] < cuts[:, ::-1]).sum(axis=1)
    variant = np.where(variant > 0, len(world.shares) + 1 - variant, 0)
    taste = rng.gamma(4.0, 0.25, len(day))
    visits: Floats | Integers = np.ones(len(day))
    if world.returns:
        # Units that came early have had more days, and those that come often came early.
        visits = 1 + rng.binomial(len(world.rates) - 1 - day, np.minimum(taste / 3, 1))
    shown = visits.astype(int) * 2 + rng.poisson(6 * visits)
    rate = np.array(world.rates)[day] * (0.5 + 0.5 * taste)
    treated = np.where(variant > 0, 1 + lift, 1.0)
    clicks = rng.binomial(shown, np.minimum(rate * treated, 1))
    before = np.where(rng.random(len(day)) < 0.7, rng.poisson(10 * taste), 0)
    clicks_before = rng.binomial(before, np.minimum(rate, 1))
    auc = (0.55 + 0.07 * (rate / rate.mean() > 1)) * treated
    return Units(day, variant, shown, clicks, before, clicks_before, *_auc(rng, shown, clicks, auc))


def _auc(
    rng: np.random.Generator, shown: Integers, clicks: Integers, auc: Floats
) -> tuple[Integers, Integers]:
    """Each unit's AUC × impressions × 1e9 and impressions, over scores of such an AUC."""
    from scipy import special

    unit = np.repeat(np.arange(len(shown)), shown)
    place = np.arange(len(unit)) - np.repeat(np.cumsum(shown) - shown, shown)
    click = place < clicks[unit]
    score = rng.normal(size=len(unit)) + click * (np.sqrt(2) * special.ndtri(auc))[unit]
    order = np.lexsort((score, unit))
    rank = np.empty(len(unit))
    rank[order] = place + 1
    ranks = np.bincount(unit[click], rank[click], len(shown))
    both = (clicks > 0) & (clicks < shown)
    pairs = np.where(both, clicks * (shown - clicks), 1)
    value = np.where(both, (ranks - clicks * (clicks + 1) / 2) / pairs, 0)
    return np.rint(1e9 * shown * value).astype(np.int64), np.where(both, shown, 0)


def experiment_of(world: World, scheduled: bool, adjust: str = "none") -> Experiment:
    """The experiment file of a world; unscheduled weights are those of all days together."""
    split = np.array([1 - np.sum(world.shares, axis=0), *world.shares])
    weights = split[:, :1] if scheduled else split.mean(axis=1, keepdims=True)
    entries: dict[str, Any] = {
        "name": "split",
        "unit": "user_id",
        "control": "a",
        "variants": {
            v: {"weight": float(w[0])} for v, w in zip(world.variants, weights, strict=True)
        },
        "models": {"m": {"score": "score"}},
        "period": {"start": START, "end": START + timedelta(days=len(world.rates))},
        "pre_period": {"start": BEFORE, "end": START},
        "logs": {"impressions": {}},
        "cleaning": {"duplicates": "unchecked"},
        "trust": {"aa_runs": 0},
        "inference": {"adjust": adjust, "family": "none"},
        "metrics": [{"name": name, "role": "goal"} for name in METRICS],
    }
    for variant in entries["variants"].values():
        variant["model"] = "m"
    if scheduled:
        days = [
            i for i in range(1, split.shape[1]) if not np.allclose(split[:, i], split[:, i - 1])
        ]
        entries["assignment"] = {
            "splits": [
                {
                    "from": START + timedelta(days=i),
                    "weights": dict(zip(world.variants, split[:, i].tolist(), strict=True)),
                }
                for i in days
            ]
        }
    return parse_experiment(entries)


def aggregates_of(world: World, units: Units, experiment: Experiment) -> Aggregates:
    """What the queries would sum of the log of these units."""
    starts = [plan.start for plan in planned_splits(experiment)[1:]]
    dates = [START + timedelta(days=i) for i in range(len(world.rates))]
    planned = [sum(s is not None and s.date() <= day for s in starts) for day in dates]
    shape = len(dates), len(world.variants)
    counts = np.bincount(units.day * shape[1] + units.variant, minlength=shape[0] * shape[1])
    rows = [
        (planned[day], str(dates[day]), 12, world.variants[v], int(n))
        for (day, v), n in np.ndenumerate(counts.reshape(shape))
        if n
    ]
    entered = pd.DataFrame(rows, columns=list(ENTERED))
    stretches = stretches_of(experiment, entered)
    begins = [stretch.start for stretch in stretches[1:]]
    stretch = np.array([sum(start <= str(day) for start in begins) for day in dates])[units.day]
    moments = pd.DataFrame(list(_rows(world, units, stretch)), columns=list(MOMENT_COLUMNS))
    return replace(_bare(world, units, moments), entered=entered, stretches=stretches)


def _bare(world: World, units: Units, moments: pd.DataFrame) -> Aggregates:
    """Aggregates that do not know when units entered."""
    dates = [START + timedelta(days=i) for i in range(len(world.rates))]
    sizes = np.bincount(units.variant, minlength=len(world.variants))
    n = len(units.day)
    return Aggregates(
        moments=moments,
        reach=pd.DataFrame(),
        group_units=pd.DataFrame(),
        catalogue_size=None,
        units=pd.DataFrame({"variant": world.variants, "units": sizes, "crossovers": 0}),
        accounts=pd.DataFrame(
            [("impressions", "used", int(units.shown.sum()))], columns=["log", "reason", "rows"]
        ),
        days=_days(dates, units),
        refused={},
        facts={
            "clicks": 1,
            "scored": 1,
            "units": n,
            "crossovers": 0,
            "tied": 0,
            "tied_out": 0,
            "duplicates": 0,
        },
        caps={},
    )


def _days(dates: Sequence[date], units: Units) -> pd.DataFrame:
    new = np.bincount(units.day, minlength=len(dates))
    noon = [int(datetime(d.year, d.month, d.day, 12).timestamp() * 1000) for d in dates]
    return pd.DataFrame(
        {"day": [str(d) for d in dates], "units": new, "new_units": new, "impressions": new,
         "first_ms": noon, "last_ms": noon}
    )  # fmt: skip


def _rows(world: World, units: Units, stretch: Integers) -> Iterator[tuple[Any, ...]]:
    """Rows of moments of every metric, by variant and stretch."""
    one, none = np.ones_like(units.shown), np.zeros_like(units.shown)
    new = (units.shown_before == 0).astype(np.int64)
    values = {
        "ctr": (units.clicks, units.shown, units.clicks_before, units.shown_before),
        "clicks_per_user": (units.clicks, one, units.clicks_before, one),
        "gauc": (units.weighted_auc, units.judged, none, none),
    }
    for metric in METRICS:
        columns = dict(zip(VARIABLES, (*values[metric], new), strict=True))
        for v, variant in enumerate(world.variants):
            for k in np.unique(stretch):
                rows = (units.variant == v) & (stretch == k)
                # Products of weighted AUCs do not fit 64 bits.
                kind = object if metric == "gauc" else np.int64
                own = {name: column[rows].astype(kind) for name, column in columns.items()}
                if rows.any():
                    sums = [str(int(own[name].sum())) for name in VARIABLES]
                    products = [str(int((own[a] * own[b]).sum())) for a, b in PRODUCTS]
                    labels = metric, "whole", "", variant, int(k), int(rows.sum())
                    thirds = [
                        str(int((own[a] * own[b] * own[c]).astype(object).sum()))
                        for a, b, c in THIRDS
                    ]
                    yield (*labels, *sums, *products, *thirds)


def result_of(world: World, units: Units, scheduled: bool, adjust: str = "none") -> Result:
    """What the analysis says of an experiment."""
    experiment = experiment_of(world, scheduled, adjust)
    return judge(experiment, named_metrics(experiment), aggregates_of(world, units, experiment))


def pooled_result(world: World, units: Units) -> Result:
    """What it would say if it ignored that the split changed."""
    experiment = experiment_of(world, scheduled=False)
    rows = list(_rows(world, units, np.zeros_like(units.day)))
    moments = pd.DataFrame(rows, columns=list(MOMENT_COLUMNS))
    return judge(experiment, named_metrics(experiment), _bare(world, units, moments))


class Tally(NamedTuple):
    """Rows of results, as shares.

    Attributes:
        rejected: p below .05 without an effect.
        covered: The lift's interval has the true lift of 10 %.
        failed: Analyses whose SRM check failed.
        experiments: Number of experiments, without and with the effect.
    """

    rejected: Mapping[tuple[str, str], float]
    covered: Mapping[tuple[str, str], float]
    failed: float
    experiments: int


WAYS = ("pooled", "found", "scheduled", "found, CUPED", "scheduled, CUPED")


def tally(
    world: World, experiments: int, seed: int = 0, lift: float = 0.1, ways: Sequence[str] = WAYS
) -> Tally:
    """Rejections without an effect, and coverage of a true lift, of every metric and way."""
    counts: dict[str, dict[tuple[str, str], list[bool]]] = {"rejected": {}, "covered": {}}
    failed = []
    for i in range(experiments):
        for what, size in (("rejected", 0.0), ("covered", lift)):
            for way, analysis in _analyses(world, units_of(world, seed + i, size), ways):
                if way != "pooled":
                    found = srm_check(analysis.experiment, analysis.aggregates)
                    (check,) = decided([found], analysis.experiment.trust)
                    failed.append(check.status == "fail")
                for (metric, variant), comparison in analysis.comparisons.items():
                    row = comparison.numbers
                    said = _rejects(row.p_value) if size == 0 else _covers(row, size)
                    counts[what].setdefault((way, f"{metric} {variant}"), []).append(said)
    shares = {what: {k: float(np.mean(v)) for k, v in of.items()} for what, of in counts.items()}
    return Tally(shares["rejected"], shares["covered"], float(np.mean(failed)), experiments)


def _analyses(world: World, units: Units, ways: Sequence[str]) -> Iterator[tuple[str, Analysis]]:
    """The analysis of the same units in each way, without what only reports need."""
    known: dict[object, Aggregates] = {}
    for way in ways:
        experiment = _experiment(world, way)
        if way == "pooled":
            rows = list(_rows(world, units, np.zeros_like(units.day)))
            moments = pd.DataFrame(rows, columns=list(MOMENT_COLUMNS))
            yield way, Analysis(experiment, _metrics(world), _bare(world, units, moments))
            continue
        key = "scheduled" in way
        if key not in known:
            known[key] = aggregates_of(world, units, experiment)
        yield way, Analysis(experiment, _metrics(world), known[key])


@cache
def _experiment(world: World, way: str) -> Experiment:
    return experiment_of(world, "scheduled" in way, "cuped" if "CUPED" in way else "none")


@cache
def _metrics(world: World) -> Sequence[Metric]:
    return named_metrics(experiment_of(world, scheduled=False))


def _rejects(p_value: float | None) -> bool:
    return p_value is not None and p_value < 0.05


def _covers(row: Numbers, lift: float) -> bool:
    low, high = row.lift_low, row.lift_high
    return low is not None and high is not None and low <= lift <= high


def markdown(world: World, result: Tally) -> str:
    """The table of a world: rejections without an effect / coverage of a lift of 10 %."""
    metrics = list(dict.fromkeys(metric for _, metric in result.rejected))
    lines = [
        f"\n**{world.name}** ({result.experiments:,} experiments each, "
        f"{result.failed:.1%} with a failed check)\n",
        "| rejects / covers, % | " + " | ".join(metrics) + " |",
        "|---|" + "--:|" * len(metrics),
    ]
    for way in dict.fromkeys(way for way, _ in result.rejected):
        cells = [f"{result.rejected[way, m]:.1%} / {result.covered[way, m]:.1%}" for m in metrics]
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run every world and print its table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.split")
    parser.add_argument("--experiments", type=int, default=1000, help="per world, each way")
    parser.add_argument("--world", default="", help="only these, from 0, with commas")
    options = parser.parse_args()
    chosen = [int(one) for one in options.world.split(",") if one] or range(len(WORLDS))
    for world in (WORLDS[one] for one in chosen):
        sys.stdout.write(markdown(world, tally(world, options.experiments)))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
