"""Segments: do they share one effect, does their mix explain it?

`judge.py` hands it the analysis and puts its rows into the result.
"""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from abeval.aggregates.moment_rows import SEGMENT, ByStretch
from abeval.inference.compare import Analysis
from abeval.inference.comparison import MIN_UNITS, Arms, Comparison, Rule
from abeval.inference.means_and_ratios import estimate
from abeval.inference.stretches import cell_sizes, compare_within, pair_of, together
from abeval.metrics.definition import Metric
from abeval.results import SegmentContrast, SegmentTest
from abeval.stats import heterogeneity, multiplicity, relative, simpson
from abeval.stats.effects import compare as compare_estimates
from abeval.stats.effects import from_difference
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Refusal


@dataclass(frozen=True)
class SharedCells:
    """The cells of a segment that control and a variant both have.

    Attributes:
        segment: Its name.
        metric: The metric of the moments.
        arms: Control and the variant.
        cells: Cell → moments by stretch and variant.
    """

    segment: str
    metric: Metric
    arms: Arms
    cells: Mapping[str, ByStretch]


def _shared_cells(analysis: Analysis, moved: Container[str] = ()) -> Iterator[SharedCells]:
    """Shared cells of every segment that did not move, for goals and guardrails of sums."""
    for segment in (name for name in analysis.experiment.segment_names if name not in moved):
        for metric, variant in analysis.rows:
            if metric.role != "diagnostic" and metric.is_mean_or_ratio:
                yield _shared_cells_of(analysis, segment, metric, variant)


def _shared_cells_of(analysis: Analysis, segment: str, metric: Metric, variant: str) -> SharedCells:
    slice_name, arms = SEGMENT + segment, Arms(analysis.experiment.control, variant)
    by_cell = {
        cell: analysis.moments(metric, slice_name, cell)
        for cell in analysis.aggregates.cells(metric.name, slice_name)
    }
    shared = {cell: one for cell, one in by_cell.items() if None not in pair_of(one, arms)}
    return SharedCells(segment, metric, arms, shared)


def segment_tests(analysis: Analysis) -> tuple[SegmentTest, ...]:
    """Goals and guardrails in every segment: one effect or several, Holm over all of them.

    Also of segments that the treatment may have changed: a test says what the mix is worth.
    """
    alpha, shared = analysis.experiment.alpha, _shared_cells(analysis)
    tests = [test for cells in shared if (test := _test(cells, alpha)) is not None]
    adjusted = multiplicity.adjust([test.p_value for test in tests], "holm")
    reversals = multiplicity.adjust([test.reversal_p_value for test in tests], "holm")
    return tuple(
        replace(test, p_adjusted=float(p), reversed=bool(reversal <= alpha))
        for test, p, reversal in zip(tests, adjusted, reversals, strict=True)
    )


def _test(cells: SharedCells, alpha: float) -> SegmentTest | None:
    """None where fewer than two cells have an effect to compare."""
    comparisons = {
        cell: compare_within(cells.metric, moments, cells.arms, Rule(alpha))
        for cell, moments in cells.cells.items()
    }
    known = {cell: c.effect for cell, c in comparisons.items() if c.effect is not None}
    if len(known) < 2:
        return None
    try:
        same = heterogeneity.cochran(
            [e.difference for e in known.values()], [e.se for e in known.values()]
        )
        same_lift = _same_lift(cells, list(known))
        mix = _mix(cells, {cell: comparisons[cell] for cell in known})
    except Refusal:
        return None
    test = same_lift or same
    return SegmentTest(
        metric=cells.metric.name,
        variant=cells.arms.treatment,
        segment=cells.segment,
        cells=len(known),
        scale="difference" if same_lift is None else "lift",
        q=test.q,
        p_value=test.p_value,
        p_adjusted=test.p_value,
        i_squared=test.i_squared,
        p_value_difference=same.p_value,
        within=mix.within,
        mix=mix.mix,
        mix_p_value=mix.mix_p_value,
        reversal_p_value=_reversal(cells, known, mix),
        reversed=False,
    )


def _same_lift(cells: SharedCells, names: Sequence[str]) -> heterogeneity.LiftHeterogeneity | None:
    """Whether the lift is one; None where lifts of some cell, or of all together, say nothing."""
    try:
        pairs = [_arms(cells.cells[cell], cells.arms) for cell in names]
        all_units = _arms(together([cells.cells[cell] for cell in names]), cells.arms)
    except Refusal:
        return None
    control = [estimate(cells.metric, one) for one, _ in pairs]
    treatment = [estimate(cells.metric, one) for _, one in pairs]
    if min(one.value for one in (*control, *treatment)) < 0:
        return None
    whole = [estimate(cells.metric, one) for one in all_units]
    try:
        bounded = relative.fieller(whole[0], whole[1]).bounded
        return heterogeneity.lifts(control, treatment) if bounded else None
    except Refusal:
        return None


def _reversal(cells: SharedCells, effects: Mapping[str, Effect], mix: simpson.MixShift) -> float:
    """P-value of a difference within cells and one of all units that point opposite ways."""
    ses = [share * effect.se for share, effect in zip(mix.shares, effects.values(), strict=True)]
    try:
        whole = _arms(together([cells.cells[cell] for cell in effects]), cells.arms)
        control, treatment = (estimate(cells.metric, one) for one in whole)
        within = from_difference(0.0, mix.within, mix.within, math.hypot(*ses))
        return simpson.reversal(within, compare_estimates(control, treatment))
    except Refusal:
        return 1.0


def _mix(cells: SharedCells, comparisons: Mapping[str, Comparison]) -> simpson.MixShift:
    """The overall difference as effects within cells and a shift of their mix."""
    chosen = [cells.cells[cell] for cell in comparisons]
    control, treatment = cell_sizes(together(chosen), chosen, cells.arms)
    return simpson.mix_shift(
        [one.control or 0.0 for one in comparisons.values()],
        [one.treatment or 0.0 for one in comparisons.values()],
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
    alpha, shared = analysis.experiment.alpha, _shared_cells(analysis, moved)
    return tuple(row for cells in shared for row in _contrasts(cells, alpha))


def _contrasts(cells: SharedCells, alpha: float) -> Iterator[SegmentContrast]:
    """Cells with enough units in both variants, each against all other such cells."""
    large = {
        cell: one
        for cell, one in cells.cells.items()
        if min(0 if arm is None else arm.n for arm in pair_of(one, cells.arms)) >= MIN_UNITS
    }
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
    cells: SharedCells, moments: Sequence[ByStretch], alpha: float
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


def _arms(moments: ByStretch, arms: Arms) -> tuple[Moments, Moments]:
    """Control and the variant over some of the cells.

    Raises:
        Refusal: `too_few_units` where they have no stretch of entry days in common.
    """
    control, treatment = pair_of(moments, arms)
    if control is None or treatment is None:
        raise Refusal("too_few_units", "a variant has no units there")
    return control, treatment
