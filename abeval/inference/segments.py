"""Segments: do they share one effect, does their mix explain it, does the split hold in each?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from abeval.aggregates.aggregates import SEGMENT, Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.comparison import Comparison, Rule, compare_moments, scales
from abeval.metrics.definition import Metric
from abeval.results import SegmentContrast, SegmentTest
from abeval.stats import heterogeneity, means, multiplicity, ratios, simpson, srm_segments
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

Cells = Mapping[str, Mapping[str, Moments]]


def segment_tests(
    experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates
) -> tuple[SegmentTest, ...]:
    """Goals and guardrails in every segment: one effect or several, Holm over all of them."""
    judged = [m for m in metrics if m.role != "diagnostic" and m.kind in ("mean", "ratio")]
    tests = [
        test
        for name in experiment.segments
        for metric in judged
        for variant in experiment.treatments
        if (test := _test(experiment, metric, variant, name, aggregates)) is not None
    ]
    if not tests:
        return ()
    adjusted = multiplicity.adjust([test.p_value for test in tests], "holm")
    return tuple(replace(t, p_adjusted=float(p)) for t, p in zip(tests, adjusted, strict=True))


def _test(
    experiment: Experiment, metric: Metric, variant: str, name: str, aggregates: Aggregates
) -> SegmentTest | None:
    """None where fewer than two segments have an effect to compare."""
    control = experiment.control
    both = _in_both(control, metric, variant, name, aggregates)
    found = {
        cell: compare_moments(metric, arms[control], arms[variant], Rule(experiment.alpha))
        for cell, arms in both.items()
    }
    found = {cell: comparison for cell, comparison in found.items() if comparison.effect}
    if len(found) < 2:
        return None
    effects = [comparison.effect for comparison in found.values() if comparison.effect]
    try:
        same = heterogeneity.cochran([e.difference for e in effects], [e.se for e in effects])
        mix = _mix(found, {cell: both[cell] for cell in found}, control, variant)
    except Refusal:
        return None
    return SegmentTest(
        metric=metric.name,
        variant=variant,
        segment=name,
        cells=len(found),
        q=same.q,
        p_value=same.p_value,
        p_adjusted=same.p_value,
        i_squared=same.i_squared,
        within=mix.within,
        mix=mix.mix,
        mix_p_value=mix.mix_p_value,
        reversed=mix.reversed,
    )


def segment_contrasts(
    experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates
) -> tuple[SegmentContrast, ...]:
    """The effect on goals and guardrails in each cell of a segment against all its others."""
    return tuple(
        contrast
        for name in experiment.segments
        for metric in metrics
        if metric.role != "diagnostic" and metric.kind in ("mean", "ratio")
        for variant in experiment.treatments
        for contrast in _contrasts(experiment, metric, variant, name, aggregates)
    )


def _contrasts(
    experiment: Experiment, metric: Metric, variant: str, name: str, aggregates: Aggregates
) -> Iterator[SegmentContrast]:
    cells = _in_both(experiment.control, metric, variant, name, aggregates)
    control, treatment = (
        [arms[v] for arms in cells.values()] for v in (experiment.control, variant)
    )
    estimate = means.estimate if metric.kind == "mean" else ratios.estimate
    try:
        found = heterogeneity.segments_against_rest(control, treatment, estimate, experiment.alpha)
    except Refusal:
        return
    p_adjusted = multiplicity.adjust([effect.p_value for effect in found], "holm")
    for cell, effect, p in zip(cells, found, p_adjusted, strict=True):
        yield SegmentContrast(
            metric=metric.name,
            variant=variant,
            segment=name,
            cell=cell,
            difference=effect.difference,
            difference_low=effect.low,
            difference_high=effect.high,
            p_value=effect.p_value,
            p_adjusted=float(p),
        )


def _in_both(
    control: str, metric: Metric, variant: str, name: str, aggregates: Aggregates
) -> dict[str, dict[str, Moments]]:
    """Cells that both variants have, with the moments of each."""
    return {
        cell: arms
        for cell in aggregates.cells(metric.name, SEGMENT + name)
        if {control, variant}
        <= set(arms := aggregates.of(metric.name, SEGMENT + name, cell, scales(metric)))
    }


def _mix(
    found: Mapping[str, Comparison], cells: Cells, control: str, variant: str
) -> simpson.MixShift:
    """The overall difference as effects within segments and a shift of their mix."""
    arms = {name: [moments[name] for moments in cells.values()] for name in (control, variant)}
    weights = {name: [m.n * float(m.mean[1]) for m in parts] for name, parts in arms.items()}
    return simpson.mix_shift(
        [c.control or 0.0 for c in found.values()],
        [c.treatment or 0.0 for c in found.values()],
        weights[control],
        weights[variant],
        [m.n for m in arms[control]],
        [m.n for m in arms[variant]],
    )


def segment_counts(
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


def segment_srm(
    experiment: Experiment, aggregates: Aggregates, name: str
) -> srm_segments.SegmentedSRM | None:
    """The split in each cell of a segment; None where there is nothing to test."""
    counts = segment_counts(experiment, aggregates, name)
    weights = [variant.weight for variant in experiment.variants.values()]
    if not counts:
        return None
    try:
        return srm_segments.by_segment(list(counts), list(counts.values()), weights)
    except Refusal:
        return None
