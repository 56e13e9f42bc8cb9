"""Audit an assignment against its rule and against other experiments."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, chisquare, fisher_exact
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from abeval.aggregates.collect import FindVariants
from abeval.assignment.draws import Rule
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.logs.accounting import count_expected_variants
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from abeval.results.trust import AuditDay, AuditResult, Independence, Reassigned

_SINCE_LEVEL = 0.001
"""Level of the test for a change of the mismatch rate, Bonferroni over the days."""

_MIN_EXPECTED = 5.0
"""Least expected units per cell for a chi-square test."""


def audit(run: Run, others: Mapping[str, "Rule | pd.Series[str]"]) -> AuditResult:
    """Audit logged variants by the rule, and this experiment by others.

    `others` are the rules of other experiments, or the variant of each unit by unit id, by name.

    Raises:
        ExperimentError: There is nothing to audit by.
        LogError: A log cannot be read.
    """
    experiment = run.experiment
    rule = experiment.assignment_rule
    if rule is None and not others:
        add = "add [assignment] with a `salt` or the `scheme` of a platform"
        hint = f"{add}, or name other experiments with --against NAME=FILE.csv"
        raise ExperimentError("there is nothing to audit by", hint)
    prepared = prepare(run, [])
    run.step("audit")
    matrix = Counter[tuple[str, str | None]]()
    units_by_day, wrong = Counter[str | None](), Counter[str | None]()
    for day, logged, expected, count in count_expected_variants(prepared):
        matrix[logged, expected] += count
        units_by_day[day] += count
        wrong[day] += count * (logged != expected)
    ordered = sorted(units_by_day, key=_order_none_last)
    days = tuple(AuditDay(day, units_by_day[day], wrong[day]) for day in ordered)
    total, mismatches = units_by_day.total(), wrong.total()
    low, high = proportion_confint(mismatches, total, method="beta") if total else (None, None)
    units, assignment = _read_unit_variants(run), experiment.assignment
    scheme = None if assignment is None else assignment.scheme
    return AuditResult(
        experiment=experiment.name,
        scheme=scheme.platform if scheme else "abeval" if assignment else None,
        units=total,
        mismatches=mismatches,
        rate=mismatches / total if total else None,
        low=None if low is None else float(low),
        high=None if high is None else float(high),
        since=_find_mismatch_start(days),
        matrix=tuple(
            Reassigned(*pair, matrix[pair])
            for pair in sorted(matrix, key=lambda pair: (pair[0], _order_none_last(pair[1])))
        ),
        days=days,
        pairs=_check_pairs(experiment, units, others),
        uniformity=None if rule is None else _check_last_draw(rule, units),
    )


def _order_none_last(name: str | None) -> tuple[bool, str]:
    return name is None, name or ""


def _read_unit_variants(run: Run) -> "pd.Series[str]":
    """Return the variant of each analysed unit, by its id."""
    rows = run.engine.frame(
        "select cast(n.logged_id as varchar) as id, u.variant from units u "
        "join unit_names n on u.unit_id = n.unit_id"
    )
    return pd.Series(rows["variant"].to_numpy(dtype=object), rows["id"].to_numpy(dtype=object))


def find_variants(others: Mapping[str, "Rule | pd.Series[str]"]) -> dict[str, FindVariants]:
    """Make of each other experiment a function from ids of units to variants."""
    return {
        name: other.variants if isinstance(other, Rule) else partial(_look_up, other)
        for name, other in others.items()
    }


def _look_up(variants: "pd.Series[str]", ids: Sequence[str]) -> list[str | None]:
    return [*variants.reindex(pd.Index(ids))]


def _check_pairs(
    experiment: Experiment, units: "pd.Series[str]", others: Mapping[str, "Rule | pd.Series[str]"]
) -> tuple[Independence, ...]:
    """Test every pair of experiments for independence."""
    ids, own_rule = units.index, experiment.assignment_rule
    rules = {name: other for name, other in others.items() if isinstance(other, Rule)}
    if own_rule is None or not rules or len(rules) < len(others):
        variants = {
            name: pd.Series(other.variants(ids), ids) if isinstance(other, Rule) else other
            for name, other in others.items()
        }
        return check_independence({experiment.name: units, **variants}) if variants else ()
    # A hash can be even within two halves and not within tenths: tenths show more.
    tenths = {}
    for name, rule in {experiment.name: own_rule, **rules}.items():
        draw = rule.stages[-1].draw
        numbers = pd.Series([draw.number(unit) for unit in ids], ids)
        tenths[name] = pd.qcut(numbers.rank(method="first"), 10).astype(str)
    return check_independence(tenths)


def _find_mismatch_start(days: Sequence[AuditDay]) -> str | None:
    """Find the day from which mismatches are more frequent; None without one.

    Fisher's exact test for each day, Bonferroni over the days (Miller and Siegmund 1982 give the
    less strict law of the maximum).
    """
    if len(days) < 2:
        return None
    table = np.array([[day.mismatches, day.units - day.mismatches] for day in days])
    totals = table.sum(axis=0)
    before = table.cumsum(axis=0)[:-1]
    tables = (np.stack([totals - part, part]) for part in before)
    p_values = [float(fisher_exact(pair, alternative="greater").pvalue) for pair in tables]
    best = int(np.argmin(p_values))
    return days[best + 1].day if p_values[best] * len(p_values) < _SINCE_LEVEL else None


def _check_last_draw(rule: Rule, units: "pd.Series[str]") -> float | None:
    """Test the last draw of a rule for uniformity, if it covers all numbers."""
    draw, ranges = rule.stages[-1]
    size = max(r.stop for r in ranges)
    covered = sum(r.stop - r.start for r in ranges)
    # An experiment on a part of the traffic has only a part of the numbers.
    if not np.isfinite(size) or covered < size or (draw.modulus or 0) < 100:
        return None
    numbers = np.array([draw.number(unit) for unit in units.index], dtype=np.float64)
    return check_uniformity(numbers, size)


def check_uniformity(numbers: NDArray[np.float64], size: float, bins: int = 100) -> float | None:
    """Test whether numbers up to `size` are uniform; None for too few numbers.

    Pearson's chi-square test over bins of equal width.

    >>> check_uniformity(np.arange(10_000.0), 10_000)
    1.0
    """
    if len(numbers) < bins * _MIN_EXPECTED:
        return None
    counts, _ = np.histogram(numbers, bins=bins, range=(0, size))
    return float(chisquare(counts).pvalue)


def check_independence(assignments: Mapping[str, "pd.Series[str]"]) -> tuple[Independence, ...]:
    """Test every pair of experiments for independence; Holm over the pairs.

    >>> units = [str(i) for i in range(400)]
    >>> halves = pd.Series(["a", "b"] * 200, units)
    >>> pair, = check_independence({"one": halves, "same": halves})
    >>> pair.units, round(pair.cramers_v, 3)
    (400, 1.0)
    """
    rows = [
        _check_pair(first, second, assignments) for first, second in combinations(assignments, 2)
    ]
    tested = [row.p_value for row in rows if row.p_value is not None]
    adjusted = map(float, multipletests(tested, method="holm")[1] if tested else ())
    return tuple(r if r.p_value is None else replace(r, p_adjusted=next(adjusted)) for r in rows)


def _check_pair(
    first: str, second: str, assignments: Mapping[str, "pd.Series[str]"]
) -> Independence:
    both = pd.concat([assignments[first], assignments[second]], axis=1, join="inner").dropna()
    table = pd.crosstab(both.iloc[:, 0], both.iloc[:, 1])
    unknown = Independence(first, second, len(both), None, None, None)
    if min(table.shape) < 2:
        return unknown
    test = chi2_contingency(table, correction=False)
    # Small expected counts make the chi-square approximation too liberal.
    if test.expected_freq.min() < _MIN_EXPECTED:
        return unknown
    strength = float(np.sqrt(test.statistic / len(both) / (min(table.shape) - 1)))
    return Independence(first, second, len(both), float(test.pvalue), None, strength)
