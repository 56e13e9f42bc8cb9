"""Distributions of values of impressions and of units' AUCs, from the aggregates.

`judge.py` puts them into the result; `aggregates/spreads.py` says which values there are.
"""

from collections.abc import Iterator, Sequence
from typing import cast

from abeval.aggregates.aggregates import UnitsByAuc
from abeval.aggregates.wanted import COMPARED, CURVE, at_level, spread_metrics, title_of
from abeval.inference.compare import Analysis, compare
from abeval.inference.comparison import Arms
from abeval.metrics.definition import Metric, scales
from abeval.results.effects import AucBin, Fate, QuantileEffect, Spread, UnitAucs, WithoutAuc

_BINS = 20
_JUDGED = "judged"


def spreads(analysis: Analysis) -> tuple[Spread, ...]:
    """The distribution of each value in each variant that has it."""
    return tuple(
        one
        for spread in _collected(analysis)
        for variant in analysis.experiment.variants
        if (one := _spread(analysis, spread, variant)) is not None
    )


def quantile_effects(analysis: Analysis) -> tuple[QuantileEffect, ...]:
    """The quantiles of each value, compared with control's, by the method of quantile metrics."""
    control = analysis.experiment.control
    return tuple(
        _effect(analysis, spread, Arms(control, variant), level)
        for spread in _collected(analysis)
        for variant in analysis.experiment.treatments
        for level in COMPARED
    )


def _collected(analysis: Analysis) -> Iterator[Metric]:
    """The values whose quantiles were collected: not from sums."""
    for spread in spread_metrics(analysis.metrics):
        if analysis.aggregates.quantiles.get(at_level(spread, COMPARED[0]).name):
            yield spread


def _spread(analysis: Analysis, spread: Metric, variant: str) -> Spread | None:
    quantiles = analysis.aggregates.quantiles
    own = [quantiles[at_level(spread, level).name].get(variant) for level in CURVE]
    known = [one for one in own if one is not None]
    if not known:
        return None
    scale = scales(spread)[0]
    values = tuple(one.value * scale for one in known)
    return Spread(title_of(spread), spread.unit, variant, known[0].events, CURVE, values)


def _effect(analysis: Analysis, spread: Metric, arms: Arms, level: float) -> QuantileEffect:
    comparison = compare(analysis, at_level(spread, level), arms)
    numbers = comparison.numbers
    return QuantileEffect(
        value=title_of(spread),
        variant=arms.treatment,
        level=level,
        control=numbers.control,
        treatment=numbers.treatment,
        difference=numbers.difference,
        difference_low=numbers.difference_low,
        difference_high=numbers.difference_high,
        lift=numbers.lift,
        lift_low=numbers.lift_low,
        lift_high=numbers.lift_high,
        p_value=numbers.p_value,
        reason=comparison.reason,
    )


def unit_aucs(analysis: Analysis) -> tuple[UnitAucs, ...]:
    """Units by their own AUC, and those without one, of each variant; none without GAUC."""
    by_variant: dict[str, list[UnitsByAuc]] = {}
    for one in analysis.aggregates.unit_aucs:
        by_variant.setdefault(one.variant, []).append(one)
    least = analysis.experiment.privacy.min_units or 1
    return tuple(
        _unit_aucs(variant, by_variant[variant], least)
        for variant in analysis.experiment.variants
        if variant in by_variant
    )


def _unit_aucs(variant: str, rows: Sequence[UnitsByAuc], least: int) -> UnitAucs:
    judged = [row for row in rows if row.fate == _JUDGED]
    bins = [AucBin(r.bin / _BINS, (r.bin + 1) / _BINS, r.units, r.impressions) for r in judged]
    return UnitAucs(
        variant=variant,
        units=sum(one.units for one in bins),
        impressions=sum(one.impressions for one in bins),
        bins=joined_bins(bins, least),
        without=tuple(
            WithoutAuc(cast(Fate, row.fate), row.units, row.impressions, row.left_out_clicks)
            for row in rows
            if row.fate != _JUDGED
        ),
    )


def joined_bins(bins: Sequence[AucBin], least: int) -> tuple[AucBin, ...]:
    """Bins of at least so many units: smaller ones are joined with the next, the last with its own.

    Example:
        >>> [b.units for b in joined_bins([AucBin(0, 0.1, 2, 9), AucBin(0.1, 0.2, 9, 9)], 5)]
        [11]
    """
    joined: list[AucBin] = []
    for one in bins:
        if joined and joined[-1].units < least:
            joined[-1] = _together(joined[-1], one)
        else:
            joined.append(one)
    if len(joined) > 1 and joined[-1].units < least:
        joined[-2:] = [_together(*joined[-2:])]
    return tuple(joined)


def _together(first: AucBin, second: AucBin) -> AucBin:
    units, impressions = first.units + second.units, first.impressions + second.impressions
    return AucBin(first.low, second.high, units, impressions)
