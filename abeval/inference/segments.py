"""Segments: do they share one effect, does their mix explain it, does the split hold in each?

`judge.py` hands it the analysis and puts its rows into the result; `trust.py` turns the split in
each segment into a check.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from abeval.aggregates.aggregates import SEGMENT, Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Comparison, Rule
from abeval.inference.means_and_ratios import compare_moments, estimate
from abeval.metrics.definition import Metric
from abeval.results import SegmentContrast, SegmentTest
from abeval.stats import heterogeneity, multiplicity, relative, simpson, srm_segments
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
        variant: The variant compared with control.
        control: Cell → control's moments.
        treatment: Cell → the variant's moments.
    """

    segment: str
    metric: Metric
    variant: str
    control: Mapping[str, Moments]
    treatment: Mapping[str, Moments]


def _shared_cells(analysis: Analysis) -> Iterator[SharedCells]:
    """Shared cells of every segment, for goals and guardrails that are means or ratios."""
    for segment in analysis.experiment.segments:
        for metric, variant in analysis.rows:
            if metric.role != "diagnostic" and metric.is_mean_or_ratio:
                yield _shared_cells_of(analysis, segment, metric, variant)


def _shared_cells_of(analysis: Analysis, segment: str, metric: Metric, variant: str) -> SharedCells:
    slice_name, names = SEGMENT + segment, (analysis.experiment.control, variant)
    by_cell = {
        cell: analysis.moments(metric, slice_name, cell)
        for cell in analysis.aggregates.cells(metric.name, slice_name)
    }
    shared = {cell: moments for cell, moments in by_cell.items() if moments.keys() >= set(names)}
    control, treatment = (
        {cell: moments[name] for cell, moments in shared.items()} for name in names
    )
    return SharedCells(segment, metric, variant, control, treatment)


def segment_tests(analysis: Analysis) -> tuple[SegmentTest, ...]:
    """Goals and guardrails in every segment: one effect or several, Holm over all of them."""
    alpha = analysis.experiment.alpha
    tests = [test for cells in _shared_cells(analysis) if (test := _test(cells, alpha)) is not None]
    adjusted = multiplicity.adjust([test.p_value for test in tests], "holm")
    reversals = multiplicity.adjust([test.reversal_p_value for test in tests], "holm")
    return tuple(
        replace(test, p_adjusted=float(p), reversed=bool(reversal <= alpha))
        for test, p, reversal in zip(tests, adjusted, reversals, strict=True)
    )


def _test(cells: SharedCells, alpha: float) -> SegmentTest | None:
    """None where fewer than two cells have an effect to compare."""
    comparisons = {
        cell: compare_moments(cells.metric, control, cells.treatment[cell], Rule(alpha))
        for cell, control in cells.control.items()
    }
    effects = {cell: c.effect for cell, c in comparisons.items() if c.effect is not None}
    if len(effects) < 2:
        return None
    try:
        same = heterogeneity.cochran(
            [e.difference for e in effects.values()], [e.se for e in effects.values()]
        )
        same_lift = _same_lift(cells, list(effects))
        mix = _mix(cells, {cell: comparisons[cell] for cell in effects})
    except Refusal:
        return None
    test = same_lift or same
    return SegmentTest(
        metric=cells.metric.name,
        variant=cells.variant,
        segment=cells.segment,
        cells=len(effects),
        scale="difference" if same_lift is None else "lift",
        q=test.q,
        p_value=test.p_value,
        p_adjusted=test.p_value,
        i_squared=test.i_squared,
        p_value_difference=same.p_value,
        within=mix.within,
        mix=mix.mix,
        mix_p_value=mix.mix_p_value,
        reversal_p_value=_reversal(cells, effects, mix),
        reversed=False,
    )


def _same_lift(cells: SharedCells, names: Sequence[str]) -> heterogeneity.LiftHeterogeneity | None:
    """Whether the lift is one; None where lifts of some cell, or of all together, say nothing."""
    control, treatment = (
        [estimate(cells.metric, moments[cell]) for cell in names]
        for moments in (cells.control, cells.treatment)
    )
    if min(one.value for one in (*control, *treatment)) < 0:
        return None
    whole = [
        estimate(cells.metric, _sum([moments[cell] for cell in names]))
        for moments in (cells.control, cells.treatment)
    ]
    try:
        bounded = relative.fieller(whole[0], whole[1]).bounded
        return heterogeneity.lifts(control, treatment) if bounded else None
    except Refusal:
        return None


def _reversal(cells: SharedCells, effects: Mapping[str, Effect], mix: simpson.MixShift) -> float:
    """P-value of a difference within cells and one of all units that point opposite ways."""
    ses = [share * effect.se for share, effect in zip(mix.shares, effects.values(), strict=True)]
    control, treatment = (
        estimate(cells.metric, _sum([moments[cell] for cell in effects]))
        for moments in (cells.control, cells.treatment)
    )
    try:
        within = from_difference(0.0, mix.within, mix.within, math.hypot(*ses))
        return simpson.reversal(within, compare_estimates(control, treatment))
    except Refusal:
        return 1.0


def _sum(parts: Sequence[Moments]) -> Moments:
    return sum(parts[1:], parts[0])


def _mix(cells: SharedCells, comparisons: Mapping[str, Comparison]) -> simpson.MixShift:
    """The overall difference as effects within cells and a shift of their mix."""
    control, treatment = (
        [moments[cell] for cell in comparisons] for moments in (cells.control, cells.treatment)
    )
    return simpson.mix_shift(
        [one.control or 0.0 for one in comparisons.values()],
        [one.treatment or 0.0 for one in comparisons.values()],
        _denominators(control),
        _denominators(treatment),
        [moments.n for moments in control],
        [moments.n for moments in treatment],
    )


def _denominators(cells: Sequence[Moments]) -> list[float]:
    """The total of the denominator in each cell: the cell's weight in the overall value."""
    return [moments.n * float(moments.mean[1]) for moments in cells]


def segment_contrasts(analysis: Analysis) -> tuple[SegmentContrast, ...]:
    """The effect on goals and guardrails in each cell of a segment against all its others."""
    alpha = analysis.experiment.alpha
    return tuple(row for cells in _shared_cells(analysis) for row in _contrasts(cells, alpha))


def _contrasts(cells: SharedCells, alpha: float) -> Iterator[SegmentContrast]:
    control, treatment = list(cells.control.values()), list(cells.treatment.values())
    value = partial(estimate, cells.metric)
    try:
        differences = heterogeneity.segments_against_rest(control, treatment, value, alpha)
        lifts = heterogeneity.lifts_against_rest(control, treatment, value, alpha)
    except Refusal:
        return
    p_values = [
        difference.p_value if lift is None else lift.p_value
        for difference, lift in zip(differences, lifts, strict=True)
    ]
    p_adjusted = multiplicity.adjust(p_values, "holm")
    for i, (cell, difference, lift) in enumerate(
        zip(cells.control, differences, lifts, strict=True)
    ):
        yield SegmentContrast(
            metric=cells.metric.name,
            variant=cells.variant,
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


def segment_srm(
    experiment: Experiment, aggregates: Aggregates, name: str
) -> srm_segments.SegmentedSRM | None:
    """The split in each cell of a segment; None where there is nothing to test."""
    counts = _segment_counts(experiment, aggregates, name)
    weights = [variant.weight for variant in experiment.variants.values()]
    if not counts:
        return None
    try:
        return srm_segments.by_segment(list(counts), list(counts.values()), weights)
    except Refusal:
        return None


def _segment_counts(
    experiment: Experiment, aggregates: Aggregates, name: str
) -> Mapping[str, Sequence[int]]:
    """Cell → analysed units of each variant, in the order of the file."""
    rows = aggregates.moments
    rows = rows[rows["slice"] == SEGMENT + name]
    if rows.empty:
        return {}
    rows = rows[rows["metric"] == rows["metric"].iloc[0]]
    counts: dict[str, dict[str, int]] = {}
    for cell, variant, units in zip(rows["cell"], rows["variant"], rows["units"], strict=True):
        counts.setdefault(str(cell), {})[str(variant)] = int(units)
    return {
        cell: [units.get(variant, 0) for variant in experiment.variants]
        for cell, units in sorted(counts.items())
    }
