"""Audits the assignment of an experiment.

`api/` calls it (`abeval audit`) with a `Run` and the assignments of other experiments.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import fisher_exact
from statsmodels.stats.proportion import proportion_confint

from abeval.assignment.draws import Rule
from abeval.assignment.randomness import Independence, independence, uniformity
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.logs.accounting import expected_variants
from abeval.logs.prepare import Prepared, prepare
from abeval.logs.run import Run
from abeval.results.trust import AuditDay, AuditResult, Reassigned

SINCE_LEVEL = 0.001
"""A change of the mismatch rate is named if its p-value, times the days tried, is below this."""


def audit(run: Run, others: Mapping[str, "Rule | pd.Series[str]"]) -> AuditResult:
    """Compare logged variants with the rule, and this experiment with others.

    Args:
        run: The experiment, its logs and an engine.
        others: Name of another experiment → its rule, or the variant of each unit by unit id.

    Raises:
        ExperimentError: There is nothing to audit by.
        LogError: A log cannot be read.
    """
    experiment = run.experiment
    rule = experiment.assignment_rule
    if rule is None and not others:
        raise ExperimentError(
            "there is nothing to audit by",
            "add [assignment] with a `salt` or the `scheme` of a platform, or name other "
            "experiments with --against NAME=FILE.csv",
        )
    prepared = prepare(run, [])
    run.step("audit")
    cells = _cells(prepared)
    units = _units(run)
    pairs = _pairs(experiment, units, others)
    days = _days(cells)
    total, mismatches = sum(day.units for day in days), sum(day.mismatches for day in days)
    low, high = _interval(mismatches, total)
    return AuditResult(
        experiment=experiment.name,
        scheme=_scheme(experiment),
        units=total,
        mismatches=mismatches,
        rate=mismatches / total if total else None,
        low=low,
        high=high,
        since=_since(days),
        matrix=_matrix(cells),
        days=days,
        pairs=pairs,
        uniformity=None if rule is None else _uniformity(rule, units),
    )


def _cells(prepared: Prepared) -> pd.DataFrame:
    """`day, logged, expected, units` of the units that the log shows in a variant."""
    rows = expected_variants(prepared) if prepared.has_rule else []
    return pd.DataFrame(rows, columns=["day", "logged", "expected", "units"])


def _scheme(experiment: Experiment) -> str | None:
    own = experiment.assignment
    if own is None:
        return None
    return "abeval" if own.scheme is None else own.scheme.platform


def _units(run: Run) -> "pd.Series[str]":
    """The variant of each analysed unit, by its id."""
    rows = run.engine.frame(
        "select cast(n.logged_id as varchar) as id, u.variant from units u "
        "join unit_names n on u.unit_id = n.unit_id"
    )
    return pd.Series(rows["variant"].to_numpy(dtype=object), rows["id"].to_numpy(dtype=object))


def _pairs(
    experiment: Experiment, units: "pd.Series[str]", others: Mapping[str, "Rule | pd.Series[str]"]
) -> tuple[Independence, ...]:
    """Every pair; by tenths of the last draw where all have a rule, which shows more than variants.

    A hash can be even within two halves and not within tenths.
    """
    rules = {name: other for name, other in others.items() if isinstance(other, Rule)}
    own = experiment.assignment_rule
    if own is not None and rules and len(rules) == len(others):
        return independence(
            {name: _tenths(rule, units) for name, rule in {experiment.name: own, **rules}.items()}
        )
    variants = {
        name: _variants(other, units) if isinstance(other, Rule) else other
        for name, other in others.items()
    }
    return independence({experiment.name: units, **variants}) if variants else ()


def _tenths(rule: Rule, units: "pd.Series[str]") -> "pd.Series[str]":
    draw = rule.stages[-1].draw
    numbers = pd.Series([draw.number(unit) for unit in units.index], units.index)
    return pd.qcut(numbers.rank(method="first"), 10).astype(str)


def _variants(rule: Rule, units: "pd.Series[str]") -> "pd.Series[str]":
    return pd.Series(rule.variants(units.index), units.index)


def _differs(cells: pd.DataFrame) -> "pd.Series[bool]":
    return cells["logged"] != cells["expected"].fillna("")


def _interval(mismatches: int, units: int) -> tuple[float, float] | tuple[None, None]:
    if units == 0:
        return None, None
    low, high = proportion_confint(mismatches, units, method="beta")
    return float(low), float(high)


def _matrix(cells: pd.DataFrame) -> tuple[Reassigned, ...]:
    sums = cells.groupby(["logged", "expected"], dropna=False)["units"].sum().reset_index()
    return tuple(
        Reassigned(str(logged), None if pd.isna(expected) else str(expected), int(units))
        for logged, expected, units in sums.itertuples(index=False, name=None)
    )


def _days(cells: pd.DataFrame) -> tuple[AuditDay, ...]:
    marked = cells.assign(mismatches=cells["units"].where(_differs(cells), 0))
    sums = marked.groupby("day", dropna=False)[["units", "mismatches"]].sum()
    return tuple(
        AuditDay(None if pd.isna(day) else str(day), int(units), int(mismatches))
        for day, units, mismatches in sums.itertuples(name=None)
    )


def _since(days: tuple[AuditDay, ...]) -> str | None:
    """The day at which the units before it and those from it on differ most.

    Fisher's exact test for each day, Bonferroni over the days (Miller and Siegmund 1982 give the
    less strict law of the maximum).
    """
    counts = [[day.mismatches, day.units - day.mismatches] for day in days]
    table = np.array(counts, dtype=np.int64)
    if len(days) < 2:
        return None
    whole = table.sum(axis=0)
    before = table.cumsum(axis=0)[:-1]
    p_values = [
        float(fisher_exact(np.stack([whole - part, part]), alternative="greater").pvalue)
        for part in before
    ]
    best = int(np.argmin(p_values))
    return days[best + 1].day if p_values[best] * len(p_values) < SINCE_LEVEL else None


def _uniformity(rule: Rule, units: "pd.Series[str]") -> float | None:
    """Of the last draw, where its ranges cover all numbers; a part of traffic is not even."""
    draw, ranges = rule.stages[-1]
    size = max(r.stop for r in ranges)
    covered = sum(r.stop - r.start for r in ranges)
    if not np.isfinite(size) or covered < size or (draw.modulus or 0) < 100:
        return None
    numbers = np.array([draw.number(unit) for unit in units.index], dtype=np.float64)
    return uniformity(numbers, size)
