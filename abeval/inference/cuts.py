"""Cuts: the effect in each part of the traffic, and what the mix of the parts did to the whole.

`judge.py` hands it the analysis and puts its rows into the result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from abeval.aggregates.cuts import CUT, MIX, WITHIN, influence_step
from abeval.aggregates.sums import SLICE, ByStretch
from abeval.inference.compare import Analysis
from abeval.inference.comparison import (
    MIN_UNITS,
    Arms,
    Comparison,
    Reason,
    Rule,
    adjusted_p_values,
    reason_of,
    refused,
)
from abeval.inference.means_and_ratios import compare_within, pair_of
from abeval.metrics.definition import Metric, no_cuts, splits_by_cut
from abeval.results.effects import CutRow, CutSplit, NoCut
from abeval.stats import composition
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Refusal


def cut_rows(analysis: Analysis) -> tuple[CutRow, ...]:
    """The effect of every metric that has cuts in every cell, Holm over the cells of a cut."""
    return tuple(
        row
        for cut in analysis.experiment.cuts
        for metric, variant in analysis.rows
        if no_cuts(metric) is None
        for row in _rows(analysis, cut, metric, variant)
    )


def _rows(analysis: Analysis, cut: str, metric: Metric, variant: str) -> Iterator[CutRow]:
    experiment, arms = analysis.experiment, Arms(analysis.experiment.control, variant)
    rule = Rule(experiment.alpha, experiment.inference.relative)
    cells = analysis.aggregates.cells(metric.name, CUT + cut)
    compared = {(cut, cell): _compare(analysis, metric, (cut, cell), arms, rule) for cell in cells}
    p_values = adjusted_p_values(compared)
    shares = _shares(analysis, cut, metric, arms)
    for cell, (share_control, share) in zip(cells, shares, strict=True):
        comparison = compared[cut, cell]
        yield CutRow(
            metric=metric.name,
            variant=variant,
            cut=cut,
            cell=cell,
            share_control=share_control,
            share=share,
            **comparison.numbers._asdict(),
            p_adjusted=p_values.get((cut, cell)),
            reason=comparison.reason,
        )


def _compare(
    analysis: Analysis, metric: Metric, place: tuple[str, str], arms: Arms, rule: Rule
) -> Comparison:
    """Two variants in one cell; a mean is over all units, those without an impression there too."""
    moments = analysis.moments(metric, CUT + place[0], place[1])
    units = [sum(one[name].n for one in moments if name in one) for name in arms]
    if min(units) < MIN_UNITS:
        return refused(units[0], units[1], "too_few_units")
    if metric.kind == "mean":
        moments = _over_all_units(moments, analysis.moments(metric))
    comparison = compare_within(metric, moments, arms, rule)
    return replace(comparison, units_control=units[0], units=units[1])


def _over_all_units(cell: ByStretch, whole: ByStretch) -> ByStretch:
    """Moments of a mean in a cell, with 0 for every unit that has no impression there."""
    return [
        {name: filled(one, of_all[name].n) for name, one in of_cell.items()}
        for of_cell, of_all in zip(cell, whole, strict=True)
    ]


def filled(moments: Moments, units: int) -> Moments:
    """Moments with further units, of value 0 and denominator 1, up to so many units."""
    k = moments.mean.size
    mean = np.array([0.0, 1.0, *[0.0] * (k - 2)])[:k]
    third = None if moments.third is None else np.zeros((k, k, k))
    return moments + Moments(units - moments.n, mean, np.zeros((k, k)), third=third)


def _totals(analysis: Analysis, cut: str, metric: Metric, arms: Arms) -> list[composition.Totals]:
    """Numerators and denominators of both variants in every cell."""
    cells = analysis.aggregates.cells(metric.name, CUT + cut)
    sums = np.zeros((2, 2, len(cells)))
    for k, cell in enumerate(cells):
        for of_stretch in analysis.moments(metric, CUT + cut, cell):
            for arm, name in enumerate(arms):
                if name in of_stretch:
                    sums[arm, :, k] += of_stretch[name].n * of_stretch[name].mean[:2]
    return [composition.Totals(above, below) for above, below in sums]


def _shares(
    analysis: Analysis, cut: str, metric: Metric, arms: Arms
) -> Sequence[tuple[float | None, float | None]]:
    """Each cell's share of the denominators of both variants; None but for ratios of sums."""
    nothing = [(None, None)] * len(analysis.aggregates.cells(metric.name, CUT + cut))
    if not splits_by_cut(metric):
        return nothing
    below = np.array([totals.denominator for totals in _totals(analysis, cut, metric, arms)])
    whole = below.sum(axis=1, keepdims=True)
    if below.size == 0 or np.any(whole <= 0):
        return nothing
    return [(float(c), float(t)) for c, t in (below / whole).T]


def cut_splits(analysis: Analysis) -> tuple[CutSplit, ...]:
    """Every ratio of sums: what changed within the cells of each cut, and what their mix did."""
    return tuple(
        _split(analysis, cut, metric, variant)
        for cut in analysis.experiment.cuts
        for metric, variant in analysis.rows
        if splits_by_cut(metric) and analysis.aggregates.cells(metric.name, CUT + cut)
    )


def _split(analysis: Analysis, cut: str, metric: Metric, variant: str) -> CutSplit:
    arms = Arms(analysis.experiment.control, variant)
    cells = len(analysis.aggregates.cells(metric.name, CUT + cut))
    bare = CutSplit(metric.name, variant, cut, cells)
    if analysis.aggregates.stretches:
        return replace(bare, reason="split_changed")
    control, treatment = _totals(analysis, cut, metric, arms)
    try:
        whole = composition.parts(control, treatment)
    except Refusal as refusal:
        return replace(bare, reason=reason_of(refusal))
    bare = replace(bare, difference=whole.difference, within=whole.within, mix=whole.mix)
    step = influence_step(control, treatment)
    within, why_within = _part(analysis, metric, WITHIN + cut, arms, (whole.within, step))
    mixed, why_mixed = _part(analysis, metric, MIX + cut, arms, (whole.mix, step))
    return replace(
        bare,
        within_low=within and within.low,
        within_high=within and within.high,
        within_p_value=within and within.p_value,
        mix_low=mixed and mixed.low,
        mix_high=mixed and mixed.high,
        mix_p_value=mixed and mixed.p_value,
        reason=why_within or why_mixed,
    )


def _part(
    analysis: Analysis, metric: Metric, slice_name: str, arms: Arms, part: tuple[float, float]
) -> tuple[Effect | None, Reason | None]:
    """A part of the difference with its interval, from its influence on each unit, or why not.

    Args:
        analysis: Its aggregates.
        metric: A ratio of sums.
        slice_name: The slice of the influences.
        arms: The two variants.
        part: The part, and what one counted unit of an influence is worth.
    """
    value, step = part
    units = arms.units(analysis.aggregates)
    moments = analysis.aggregates.of(metric.name, slice_name, arms.treatment, (step, 1.0))
    pair = pair_of(moments, arms)
    if min(units) < MIN_UNITS:
        return None, "too_few_units"
    if pair.control is None or pair.treatment is None:
        return None, "zero_variance"
    control, treatment = filled(pair.control, units[0]), filled(pair.treatment, units[1])
    try:
        return composition.effect(value, control, treatment, analysis.experiment.alpha), None
    except Refusal as refusal:
        return None, reason_of(refusal)


def without_cuts(analysis: Analysis) -> tuple[NoCut, ...]:
    """Metrics without effects by cut, where the experiment has cuts, and why."""
    if not analysis.experiment.cuts:
        return ()
    named = [
        NoCut(metric.name, why)
        for metric in analysis.metrics
        if (why := no_cuts(metric)) is not None
    ]
    if any(str(row[SLICE]).startswith(CUT) for row in analysis.aggregates.moments):
        return tuple(named)
    reason = "there are only sums of units, and a cut needs the rows of the impressions"
    return (*named, *(NoCut(m.name, reason) for m in analysis.metrics if no_cuts(m) is None))
