"""Segments: do they share one effect, does their mix explain it, does the split hold in each?

`judge.py` hands it the analysis and puts its rows into the result; `trust.py` turns the split in
each segment into a check.
"""

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
from abeval.stats import heterogeneity, multiplicity, simpson, srm_segments
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal


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
    return tuple(replace(t, p_adjusted=float(p)) for t, p in zip(tests, adjusted, strict=True))


def _test(cells: SharedCells, alpha: float) -> SegmentTest | None:
    """None where fewer than two cells have an effect to compare."""
    comparisons = {
        cell: compare_moments(cells.metric, control, cells.treatment[cell], Rule(alpha))
        for cell, control in cells.control.items()
    }
    effects = {cell: c.effect for cell, c in comparisons.items() if c.effect is not None}
    if len(effects) < 2:
        return None
    differences, ses = zip(*((e.difference, e.se) for e in effects.values()), strict=True)
    try:
        same = heterogeneity.cochran(differences, ses)
        mix = _mix(cells, {cell: comparisons[cell] for cell in effects})
    except Refusal:
        return None
    return SegmentTest(
        metric=cells.metric.name,
        variant=cells.variant,
        segment=cells.segment,
        cells=len(effects),
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
    try:
        effects = heterogeneity.segments_against_rest(
            control, treatment, partial(estimate, cells.metric), alpha
        )
    except Refusal:
        return
    p_adjusted = multiplicity.adjust([effect.p_value for effect in effects], "holm")
    for cell, effect, p in zip(cells.control, effects, p_adjusted, strict=True):
        yield SegmentContrast(
            metric=cells.metric.name,
            variant=cells.variant,
            segment=cells.segment,
            cell=cell,
            difference=effect.difference,
            difference_low=effect.low,
            difference_high=effect.high,
            p_value=effect.p_value,
            p_adjusted=float(p),
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
