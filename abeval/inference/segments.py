"""Segments: do they share one effect, does their mix explain it?

`judge.py` hands it the analysis and puts its rows into the result.
"""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from abeval.aggregates.cuts import CUT, MIX, WITHIN, influence_step
from abeval.aggregates.sums import SEGMENT, SLICE, ByStretch
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
from abeval.inference.means_and_ratios import (
    cell_sizes,
    compare_within,
    estimate,
    pair_of,
    together,
)
from abeval.metrics.definition import Metric, no_cuts, splits_by_cut
from abeval.results import SegmentContrast, SegmentTest
from abeval.results.effects import CutRow, CutSplit, NoCut
from abeval.stats import composition, effects, heterogeneity, multiplicity
from abeval.stats.effects import compare as compare_estimates
from abeval.stats.effects import from_difference
from abeval.stats.heterogeneity import pooled
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Estimate, Refusal


@dataclass(frozen=True)
class Cells:
    """The cells of a segment in control and a variant.

    Attributes:
        segment: Its name.
        metric: The metric of the moments.
        arms: Control and the variant.
        large: Cell → moments by stretch and variant, where both have `MIN_UNITS` or more.
        small: The other cells with units in either.
    """

    segment: str
    metric: Metric
    arms: Arms
    large: Mapping[str, ByStretch]
    small: Mapping[str, ByStretch]


def _every_segment(analysis: Analysis, moved: Container[str] = ()) -> Iterator[Cells]:
    """Cells of every segment that did not move, for goals and guardrails of sums."""
    for segment in (name for name in analysis.experiment.segment_names if name not in moved):
        for metric, variant in analysis.rows:
            if metric.role != "diagnostic" and metric.is_mean_or_ratio:
                yield _cells_of(analysis, segment, metric, variant)


def _cells_of(analysis: Analysis, segment: str, metric: Metric, variant: str) -> Cells:
    slice_name, arms = SEGMENT + segment, Arms(analysis.experiment.control, variant)
    large: dict[str, ByStretch] = {}
    small: dict[str, ByStretch] = {}
    for cell in analysis.aggregates.cells(metric.name, slice_name):
        one = analysis.moments(metric, slice_name, cell)
        units = [0 if arm is None else arm.n for arm in pair_of(one, arms)]
        if min(units) >= MIN_UNITS:
            large[cell] = one
        elif any(name in variants for variants in one for name in arms):
            small[cell] = one
    return Cells(segment, metric, arms, large, small)


def segment_tests(analysis: Analysis) -> tuple[SegmentTest, ...]:
    """Goals and guardrails in every segment: one effect or several, Holm over all of them.

    Also of segments that the treatment may have changed: a test says what the mix is worth.
    """
    alpha, segments = analysis.experiment.alpha, _every_segment(analysis)
    tests = [test for cells in segments if (test := _test(cells, alpha)) is not None]
    adjusted = multiplicity.adjust([test.p_value for test in tests], "holm")
    reversals = multiplicity.adjust([test.reversal_p_value for test in tests], "holm")
    return tuple(
        replace(test, p_adjusted=float(p), reversed=bool(reversal <= alpha))
        for test, p, reversal in zip(tests, adjusted, reversals, strict=True)
    )


def _test(cells: Cells, alpha: float) -> SegmentTest | None:
    """None where fewer than two cells have an effect to compare."""
    known = _with_effect(cells, cells.large, alpha)
    if len(known) < 2:
        return None
    try:
        same = heterogeneity.cochran(
            [one.effect.difference for one in known.values()],
            [one.effect.se for one in known.values()],
            [one.df for one in known.values()],
        )
        same_lift = _same_lift(cells, known)
        # The mix is that of all units: small cells count as one.
        small = together(list(cells.small.values())) if cells.small else None
        rest = {} if small is None else _with_effect(cells, {"": small}, alpha)
        parts = [*known.values(), *rest.values()]
        mix = _mix(cells, parts)
    except Refusal:
        return None
    test = same_lift or same
    return SegmentTest(
        metric=cells.metric.name,
        variant=cells.arms.treatment,
        segment=cells.segment,
        cells=len(known),
        cells_left_out=len(cells.large) + len(cells.small) - len(known),
        scale="difference" if same_lift is None else "lift",
        q=test.q,
        p_value=test.p_value,
        p_adjusted=test.p_value,
        i_squared=test.i_squared,
        p_value_difference=same.p_value,
        within=composition.within,
        mix=composition.mix,
        mix_p_value=composition.mix_p_value,
        reversal_p_value=_reversal(cells, parts, mix),
        reversed=False,
    )


class _Compared(NamedTuple):
    """A cell with an effect.

    Attributes:
        moments: By stretch and variant.
        effect: The difference.
        df: Degrees of freedom of its standard error.
        is_pooled: Whether it is one of values that spread alike in both variants.
    """

    moments: ByStretch
    effect: Effect
    df: float
    is_pooled: bool


def _with_effect(cells: Cells, of: Mapping[str, ByStretch], alpha: float) -> dict[str, _Compared]:
    """The cells whose values vary and which a test of the scorecard holds for."""
    named = {}
    for cell, moments in of.items():
        one = compare_within(cells.metric, moments, cells.arms, Rule(alpha))
        if one.effect is not None and _varies(cells, moments):
            is_pooled = one.permuted is not None or one.rare is not None
            df = one.units_control + one.units - 2 if is_pooled else one.effect.df
            named[cell] = _Compared(moments, one.effect, df, is_pooled)
    return named


def _same_lift(
    cells: Cells, known: Mapping[str, _Compared]
) -> heterogeneity.LiftHeterogeneity | None:
    """Whether the lift is one; None where lifts of some cell, or of all together, say nothing."""
    try:
        pairs = [_estimates(cells, one.moments) for one in known.values()]
        whole = _estimates(cells, together([one.moments for one in known.values()]))
        if min(arm.value for pair in pairs for arm in pair) < 0:
            return None
        alike = [
            pooled(*pair) if one.is_pooled else pair
            for pair, one in zip(pairs, known.values(), strict=True)
        ]
        bounded = effects.fieller(*whole).bounded
        return heterogeneity.lifts(*zip(*alike, strict=True)) if bounded else None
    except Refusal:
        return None


def _reversal(cells: Cells, parts: Sequence[_Compared], mix: composition.MixShift) -> float:
    """P-value of a difference within cells and one of all units that point opposite ways."""
    ses = [share * one.effect.se for share, one in zip(composition.shares, parts, strict=True)]
    try:
        whole = _estimates(cells, together([one.moments for one in parts]))
        within = from_difference(0.0, composition.within, composition.within, math.hypot(*ses))
        return composition.reversal(within, compare_estimates(*whole))
    except Refusal:
        return 1.0


def _mix(cells: Cells, parts: Sequence[_Compared]) -> composition.MixShift:
    """The overall difference as effects within cells and a shift of their mix."""
    chosen = [one.moments for one in parts]
    control, treatment = cell_sizes(together(chosen), chosen, cells.arms)
    return composition.mix_shift(
        [one.effect.control for one in parts],
        [one.effect.treatment for one in parts],
        [size.denominator for size in control],
        [size.denominator for size in treatment],
        [size.units for size in control],
        [size.units for size in treatment],
    )


def segment_contrasts(
    analysis: Analysis, moved: Container[str] = ()
) -> tuple[SegmentContrast, ...]:
    """The effect on goals and guardrails in each cell of a segment against all its others.

    Args:
        analysis: Its metrics and segments.
        moved: Segments that the treatment may have changed, which are left out: the units of a cell
            are other people in each variant.
    """
    alpha, segments = analysis.experiment.alpha, _every_segment(analysis, moved)
    return tuple(row for cells in segments for row in _contrasts(cells, alpha))


def _contrasts(cells: Cells, alpha: float) -> Iterator[SegmentContrast]:
    """Cells with enough units in both variants, whose values vary, each against all others."""
    large = {cell: one for cell, one in cells.large.items() if _varies(cells, one)}
    try:
        contrasts = _against_rest(cells, list(large.values()), alpha)
    except Refusal:
        return
    p_values = [
        difference.p_value if lift is None else lift.p_value for difference, lift in contrasts
    ]
    p_adjusted = multiplicity.adjust(p_values, "holm")
    for i, (cell, (difference, lift)) in enumerate(zip(large, contrasts, strict=True)):
        yield SegmentContrast(
            metric=cells.metric.name,
            variant=cells.arms.treatment,
            segment=cells.segment,
            cell=cell,
            scale="difference" if lift is None else "lift",
            difference=difference.difference,
            difference_low=difference.low,
            difference_high=difference.high,
            lift=None if lift is None else math.expm1(lift.difference),
            lift_low=None if lift is None else math.expm1(lift.low),
            lift_high=None if lift is None else math.expm1(lift.high),
            p_value=p_values[i],
            p_adjusted=float(p_adjusted[i]),
        )


def _against_rest(
    cells: Cells, moments: Sequence[ByStretch], alpha: float
) -> list[tuple[Effect, Effect | None]]:
    """The difference and, where there is one, the lift of each cell against the other cells.

    Raises:
        Refusal: There is no other cell, or a cell cannot be estimated.
    """
    inside = [_arms(one, cells.arms) for one in moments]
    outside = [
        _arms(together([*moments[:i], *moments[i + 1 :]]), cells.arms)
        for i in range(len(moments) if len(moments) > 1 else 0)
    ]
    control, treatment = [c for c, _ in inside], [t for _, t in inside]
    value = partial(estimate, cells.metric)
    differences = heterogeneity.segments_against_rest(control, treatment, value, alpha, outside)
    lifts = heterogeneity.lifts_against_rest(control, treatment, value, alpha, outside)
    return list(zip(differences, lifts, strict=True))


def _varies(cells: Cells, moments: ByStretch) -> bool:
    """Whether the values of a cell vary in either variant."""
    try:
        return sum(one.variance for one in _estimates(cells, moments)) > 0
    except Refusal:
        return False


def _estimates(cells: Cells, moments: ByStretch) -> tuple[Estimate, Estimate]:
    """The values of control and the variant over some of the cells.

    Raises:
        Refusal: As `_arms`; `zero_denominator`.
    """
    control, treatment = _arms(moments, cells.arms)
    return estimate(cells.metric, control), estimate(cells.metric, treatment)


def _arms(moments: ByStretch, arms: Arms) -> tuple[Moments, Moments]:
    """Control and the variant over some of the cells.

    Raises:
        Refusal: `too_few_units` where they have no stretch of entry days in common.
    """
    control, treatment = pair_of(moments, arms)
    if control is None or treatment is None:
        raise Refusal("too_few_units", "a variant has no units there")
    return control, treatment


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
