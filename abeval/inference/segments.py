"""Segments: do they share one effect, does their mix explain it?

`judge.py` hands it the analysis and puts its rows into the result.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from abeval.aggregates.aggregates import SEGMENT, ByStretch
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Arms, Comparison, Rule
from abeval.inference.means_and_ratios import estimate
from abeval.inference.stretches import cell_sizes, compare_within, pair_of, together
from abeval.metrics.definition import Metric
from abeval.results import SegmentContrast, SegmentTest
from abeval.stats import heterogeneity, multiplicity, simpson
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal


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


def _shared_cells(analysis: Analysis) -> Iterator[SharedCells]:
    """Shared cells of every segment, for goals and guardrails that are means or ratios."""
    for segment in analysis.experiment.segments:
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
    """Goals and guardrails in every segment: one effect or several, Holm over all of them."""
    alpha = analysis.experiment.alpha
    tests = [test for cells in _shared_cells(analysis) if (test := _test(cells, alpha)) is not None]
    adjusted = multiplicity.adjust([test.p_value for test in tests], "holm")
    return tuple(replace(t, p_adjusted=float(p)) for t, p in zip(tests, adjusted, strict=True))


def _test(cells: SharedCells, alpha: float) -> SegmentTest | None:
    """None where fewer than two cells have an effect to compare."""
    comparisons = {
        cell: compare_within(cells.metric, moments, cells.arms, Rule(alpha))
        for cell, moments in cells.cells.items()
    }
    known = {cell: c.effect for cell, c in comparisons.items() if c.effect is not None}
    if len(known) < 2:
        return None
    differences, ses = zip(*((e.difference, e.se) for e in known.values()), strict=True)
    try:
        same = heterogeneity.cochran(differences, ses)
        mix = _mix(cells, {cell: comparisons[cell] for cell in known})
    except Refusal:
        return None
    return SegmentTest(
        metric=cells.metric.name,
        variant=cells.arms.treatment,
        segment=cells.segment,
        cells=len(known),
        q=same.q,
        p_value=same.p_value,
        p_adjusted=same.p_value,
        i_squared=same.i_squared,
        within=mix.within,
        mix=mix.mix,
        mix_p_value=mix.mix_p_value,
        reversed=mix.reversed,
    )


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


def segment_contrasts(analysis: Analysis) -> tuple[SegmentContrast, ...]:
    """The effect on goals and guardrails in each cell of a segment against all its others."""
    alpha = analysis.experiment.alpha
    return tuple(row for cells in _shared_cells(analysis) for row in _contrasts(cells, alpha))


def _contrasts(cells: SharedCells, alpha: float) -> Iterator[SegmentContrast]:
    moments = list(cells.cells.values())
    try:
        inside = [_arms(one, cells.arms) for one in moments]
        outside = [
            _arms(together([*moments[:i], *moments[i + 1 :]]), cells.arms)
            for i in range(len(moments) if len(moments) > 1 else 0)
        ]
        contrasts = heterogeneity.segments_against_rest(
            [control for control, _ in inside],
            [treatment for _, treatment in inside],
            partial(estimate, cells.metric),
            alpha,
            outside,
        )
    except Refusal:
        return
    p_adjusted = multiplicity.adjust([effect.p_value for effect in contrasts], "holm")
    for cell, effect, p in zip(cells.cells, contrasts, p_adjusted, strict=True):
        yield SegmentContrast(
            metric=cells.metric.name,
            variant=cells.arms.treatment,
            segment=cells.segment,
            cell=cell,
            difference=effect.difference,
            difference_low=effect.low,
            difference_high=effect.high,
            p_value=effect.p_value,
            p_adjusted=float(p),
        )


def _arms(moments: ByStretch, arms: Arms) -> tuple[Moments, Moments]:
    """Control and the variant over some of the cells.

    Raises:
        Refusal: `too_few_units` where they have no stretch of entry days in common.
    """
    control, treatment = pair_of(moments, arms)
    if control is None or treatment is None:
        raise Refusal("too_few_units", "a variant has no units there")
    return control, treatment
