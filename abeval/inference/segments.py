"""Break effects down by segment (of units) and by cut (of traffic).

Cells of a segment are tested for one common effect, against each other, and for Simpson's paradox.
A unit can be in several cells of a cut, and a treatment can shift traffic between them. A
difference is therefore split into changes within cells and changes of their mix.
"""

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from abeval.aggregates.cuts import CUT, MIX, WITHIN, compute_influence_step
from abeval.aggregates.sums import OUTSIDE, SEGMENT, MomentsByPeriod, pool_moments
from abeval.inference import comparison
from abeval.inference import means_and_ratios as means
from abeval.inference.compare import Analysis
from abeval.inference.comparison import (
    Arms,
    Comparison,
    Rule,
    refuse_comparison,
    translate_refusal,
)
from abeval.metrics.definition import Metric, explain_no_cuts, splits_by_cut
from abeval.results.effects import CutRow, CutSplit, NoCut, SegmentContrast, SegmentTest
from abeval.results.trust import Untested
from abeval.stats import composition, effects, heterogeneity, multiplicity, skewed
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Estimate, Refusal

MOST_SKEWED = 0.2
"""Skewness of a mean in a cell of a variant up to which lifts are compared between cells.

Measured by `benchmarks.calibration.programme`.
"""


class _SegmentCells(NamedTuple):
    """The cells of a segment in control and a variant, for one metric.

    Attributes:
        large: Cell → moments by split period and variant, with `MIN_UNITS` or more in both
            variants.
        small: The other cells that have units.
    """

    segment: str
    metric: Metric
    arms: Arms
    large: dict[str, MomentsByPeriod]
    small: dict[str, MomentsByPeriod]

    def estimates(self, moments: MomentsByPeriod) -> tuple[Estimate, Estimate]:
        """Return the values of control and of the variant over some of the cells.

        Raises:
            Refusal: The variants share no split period, or a denominator is zero.
        """
        control, treatment = means.pool_pair(moments, self.arms)
        if control is None or treatment is None:
            raise Refusal("too_few_units", "a variant has no units there")
        return means.estimate(self.metric, control), means.estimate(self.metric, treatment)

    def varies(self, moments: MomentsByPeriod) -> bool:
        """Tell whether the values of a cell vary in either variant."""
        values = comparison.none_if_refused(lambda: self.estimates(moments))
        return values is not None and sum(value.variance for value in values) > 0


def _list_segment_cells(analysis: Analysis, names: Iterable[str]) -> Iterator[_SegmentCells]:
    """Yield the cells of some segments."""
    rows = [(m, v) for m, v in analysis.rows if m.role != "diagnostic" and m.is_mean_or_ratio]
    for segment in names:
        for metric, variant in rows:
            arms = Arms(analysis.experiment.control, variant)
            cells = _SegmentCells(segment, metric, arms, {}, {})
            for cell in analysis.aggregates.cells(metric.name, SEGMENT + segment):
                moments = analysis.moments(metric, SEGMENT + segment, cell)
                units = [0 if arm is None else arm.n for arm in means.pool_pair(moments, arms)]
                if min(units) >= comparison.MIN_UNITS:
                    cells.large[cell] = moments
                elif any(name in variants for variants in moments for name in arms):
                    cells.small[cell] = moments
            yield cells


def test_segment_effects(analysis: Analysis) -> tuple[SegmentTest, ...]:
    """Test in every segment whether its cells share one effect (Holm)."""
    alpha = analysis.experiment.alpha
    segments = _list_segment_cells(analysis, analysis.experiment.segment_names)
    tests = [test for cells in segments if (test := _test(cells, alpha)) is not None]
    adjusted = multiplicity.adjust([test.p_value for test in tests], "holm")
    reversals = multiplicity.adjust([test.reversal_p_value for test in tests], "holm")
    return tuple(
        replace(test, p_adjusted=float(p), reversed=bool(reversal <= alpha))
        for test, p, reversal in zip(tests, adjusted, reversals, strict=True)
    )


def _test(cells: _SegmentCells, alpha: float) -> SegmentTest | None:
    """Test one segment; None if fewer than two cells have an effect."""
    compared = _compare_cells(cells, [*cells.large.values()], alpha)
    if len(compared) < 2:
        return None
    try:
        numbers = [(cell.effect.difference, cell.effect.se, cell.df) for cell in compared]
        same = heterogeneity.cochran(*zip(*numbers, strict=True))
        same_lift = _test_same_lift(cells, compared)
        # The mix is that of all units: small cells count as one.
        small = [means.pool_cells([*cells.small.values()])] if cells.small else []
        all_cells = [*compared, *_compare_cells(cells, small, alpha)]
        shift = _mix(cells, all_cells)
    except Refusal:
        return None
    test = same_lift or same
    return SegmentTest(
        metric=cells.metric.name,
        variant=cells.arms.treatment,
        segment=cells.segment,
        cells=len(compared),
        cells_left_out=len(cells.large) + len(cells.small) - len(compared),
        scale="difference" if same_lift is None else "lift",
        q=test.q,
        p_value=test.p_value,
        i_squared=test.i_squared,
        p_adjusted=test.p_value,
        p_value_difference=same.p_value,
        within=shift.within,
        mix=shift.mix,
        mix_p_value=shift.mix_p_value,
        reversal_p_value=_test_reversal(cells, all_cells, shift),
        reversed=False,
    )


class _ComparedCell(NamedTuple):
    """A cell with an effect, and whether its error is pooled over both variants."""

    moments: MomentsByPeriod
    effect: Effect
    df: float
    is_pooled: bool


def _compare_cells(
    cells: _SegmentCells, candidates: Sequence[MomentsByPeriod], alpha: float
) -> list[_ComparedCell]:
    """Compare the cells in which values vary and a test applies."""
    compared = []
    for moments in candidates:
        result = means.compare_within(cells.metric, moments, cells.arms, Rule(alpha))
        if result.effect is not None and cells.varies(moments):
            is_pooled = result.permuted is not None or result.rare is not None
            # A pooled error rests on the units of both variants.
            df = result.units_control + result.units - 2 if is_pooled else result.effect.df
            compared.append(_ComparedCell(moments, result.effect, df, is_pooled))
    return compared


def _test_same_lift(
    cells: _SegmentCells, compared: Sequence[_ComparedCell]
) -> heterogeneity.Heterogeneity | None:
    """Test whether all cells share one lift; None if a lift is undefined."""
    try:
        pairs = [cells.estimates(cell.moments) for cell in compared]
        total = cells.estimates(means.pool_cells([cell.moments for cell in compared]))
        if min(arm.value for pair in pairs for arm in pair) < 0:
            return None
        alike = [
            heterogeneity.pool_variances(*pair) if cell.is_pooled else pair
            for pair, cell in zip(pairs, compared, strict=True)
        ]
        bounded = effects.fieller(*total).bounded
        return heterogeneity.lifts(*zip(*alike, strict=True)) if bounded else None
    except Refusal:
        return None


def _test_reversal(
    cells: _SegmentCells, compared: Sequence[_ComparedCell], shift: composition.MixShift
) -> float:
    """Return the p-value of Simpson's paradox: opposite signs within and overall."""
    # Cells are disjoint, so their errors are independent.
    ses = [share * cell.effect.se for share, cell in zip(shift.shares, compared, strict=True)]
    try:
        total = cells.estimates(means.pool_cells([cell.moments for cell in compared]))
        within = effects.effect_from_difference(0.0, shift.within, shift.within, math.hypot(*ses))
        return composition.reversal(within, effects.compare(*total))
    except Refusal:
        return 1.0


def _mix(cells: _SegmentCells, compared: Sequence[_ComparedCell]) -> composition.MixShift:
    """Split the overall difference into effects within cells and a mix shift."""
    chosen = [cell.moments for cell in compared]
    total = means.pool_cells(chosen)
    indices = means.find_usable_periods(total, cells.arms) if len(total) > 1 else [0]
    shares = means.weigh_split_periods(total, indices)
    totals, units = [], []
    for name in cells.arms:
        n = [total[index][name].n for index in indices]
        scale = [1.0]
        if len(indices) > 1:
            # So many units as would know the mix as well, each split period weighed alike in both.
            effective = 1 / sum(share**2 / size for share, size in zip(shares, n, strict=True))
            scale = [effective * share / size for share, size in zip(shares, n, strict=True)]
        counts = np.zeros((2, len(chosen)))
        for cell, moments in enumerate(chosen):
            for factor, index in zip(scale, indices, strict=True):
                if name in moments[index]:
                    arm = moments[index][name]
                    counts[:, cell] += factor * arm.n * float(arm.mean[1]), factor * arm.n
        totals.append(counts[0])
        units.append(counts[1])
    values = (
        [cell.effect.control for cell in compared],
        [cell.effect.treatment for cell in compared],
    )
    return composition.mix_shift(*values, *totals, *units)


def contrast_segments(analysis: Analysis, moved: Container[str]) -> Iterator[SegmentContrast]:
    """Compare the effect in each cell with that in all other cells.

    Segments that the treatment `moved` are left out.
    """
    names = (name for name in analysis.experiment.segment_names if name not in moved)
    for cells in _list_segment_cells(analysis, names):
        yield from _contrast_cells(cells, analysis.experiment.alpha)


def find_interactions(
    analysis: Analysis, others: Sequence[str]
) -> tuple[tuple[SegmentContrast, ...], tuple[Untested, ...]]:
    """Compare the effect among units of each variant of other experiments.

    Holm's correction covers all contrasts. Units are labelled by their variants of the `others`
    (`collect_prepared`). Of two variants, one contrast says all. Also returns what is too skewed
    for its units.
    """
    contrasts, untested = list[SegmentContrast](), list[Untested]()
    for cells in _list_segment_cells(analysis, others):
        cells.large.pop(OUTSIDE, None)
        untested += _refuse_skewed(cells)
        found = [*_contrast_cells(cells, analysis.experiment.alpha)]
        contrasts += found[-1:] if len(found) == 2 else found
    adjusted = multiplicity.adjust([contrast.p_value for contrast in contrasts], "holm")
    pairs = zip(contrasts, adjusted.tolist(), strict=True)
    tested = tuple(replace(contrast, p_adjusted=p_value) for contrast, p_value in pairs)
    return tested, tuple(untested)


def _refuse_skewed(cells: _SegmentCells) -> Iterator[Untested]:
    """Take out cells with too few units in a variant for the skewness of the metric.

    The skewness is that of the units of all cells: a small cell does not show its own.
    """
    every = pool_moments([of_period for moments in cells.large.values() for of_period in moments])
    if len(every) < 2 or any(arm.third is None for arm in every.values()):
        return
    control, treatment = (every[name] for name in cells.arms)
    is_ratio = cells.metric.kind != "mean"
    (stratum,) = skewed.strata([control], [treatment], [1.0], is_ratio).strata
    units, square, cube = map(sum, zip(stratum.control, stratum.treatment, strict=True))
    needed = math.ceil(cube**2 * units / square**3 / MOST_SKEWED**2) if square > 0 else 0
    for cell, moments in [*cells.large.items()]:
        smaller = min(arm.n for arm in pool_moments(moments).values())
        if smaller < needed:
            del cells.large[cell]
            yield Untested(
                metric=cells.metric.name,
                variant=cells.arms.treatment,
                segment=cells.segment,
                cell=cell,
                units=smaller,
                units_needed=needed,
            )


def _contrast_cells(cells: _SegmentCells, alpha: float) -> Iterator[SegmentContrast]:
    """Compare each large cell with the other large cells."""
    large = {cell: moments for cell, moments in cells.large.items() if cells.varies(moments)}
    if len(large) < 2:
        return
    contrasts: list[tuple[Effect, Effect | None]] = []
    try:
        for cell, cell_moments in large.items():
            rest = means.pool_cells([moments for name, moments in large.items() if name != cell])
            both = cells.estimates(cell_moments), cells.estimates(rest)
            lift = heterogeneity.lift_against_rest(*both, alpha)
            contrasts.append((heterogeneity.against_rest(*both, alpha), lift))
    except Refusal:
        return
    p_values = [(lift or difference).p_value for difference, lift in contrasts]
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
            lift=lift and math.expm1(lift.difference),
            lift_low=lift and math.expm1(lift.low),
            lift_high=lift and math.expm1(lift.high),
            p_value=p_values[i],
            p_adjusted=float(p_adjusted[i]),
        )


def cut_rows(analysis: Analysis) -> Iterator[CutRow]:
    """Yield every metric's effect in each cell of a cut (Holm over cells)."""
    for cut in analysis.experiment.cuts:
        for metric, variant in analysis.rows:
            if explain_no_cuts(metric) is None:
                yield from _cut_rows(analysis, cut, metric, variant)


def _cut_rows(analysis: Analysis, cut: str, metric: Metric, variant: str) -> Iterator[CutRow]:
    arms = Arms(analysis.experiment.control, variant)
    cells = analysis.aggregates.cells(metric.name, CUT + cut)
    compared = {(cut, cell): _compare_in(analysis, metric, CUT + cut, cell, arms) for cell in cells}
    p_values, shares = comparison.adjust_p_values(compared), np.full((2, len(cells)), None)
    if splits_by_cut(metric):
        below = np.array(
            [totals.denominator for totals in _sum_cell_totals(analysis, cut, metric, arms)]
        )
        total = below.sum(axis=1, keepdims=True)
        shares = below / total if below.size and np.all(total > 0) else shares
    for (key, result), of_cell in zip(compared.items(), shares.T.tolist(), strict=True):
        yield CutRow(
            **vars(result.numbers),
            metric=metric.name,
            variant=variant,
            cut=cut,
            cell=key[1],
            share_control=of_cell[0],
            share=of_cell[1],
            p_adjusted=p_values.get(key),
            reason=result.reason,
        )


def _compare_in(
    analysis: Analysis, metric: Metric, slice_name: str, cell: str, arms: Arms
) -> Comparison:
    """Compare two variants in one cell; means count all units.

    Units without an impression in the cell count as 0.
    """
    moments = analysis.moments(metric, slice_name, cell)
    units = [
        sum(by_variant[name].n for by_variant in moments if name in by_variant) for name in arms
    ]
    if min(units) < comparison.MIN_UNITS:
        return refuse_comparison(units[0], units[1], "too_few_units")
    if metric.kind == "mean":
        all_units = analysis.moments(metric)
        moments = [
            {name: _fill_units(by_variant, of_all[name].n) for name, by_variant in of_cell.items()}
            for of_cell, of_all in zip(moments, all_units, strict=True)
        ]
    rule = Rule(analysis.experiment.alpha, analysis.experiment.inference.relative)
    comparison_result = means.compare_within(metric, moments, arms, rule)
    return comparison_result._replace(units_control=units[0], units=units[1])


def _fill_units(moments: Moments, units: int) -> Moments:
    """Add units with value 0 and denominator 1, up to a number of units."""
    k = moments.mean.size
    mean = np.array([0.0, 1.0, *[0.0] * (k - 2)])[:k]
    third = None if moments.third is None else np.zeros((k, k, k))
    return moments + Moments(units - moments.n, mean, np.zeros((k, k)), third=third)


def _sum_cell_totals(
    analysis: Analysis, cut: str, metric: Metric, arms: Arms
) -> list[composition.Totals]:
    """Return numerators and denominators of both variants in every cell."""
    cells = analysis.aggregates.cells(metric.name, CUT + cut)
    sums = np.zeros((2, 2, len(cells)))
    for k, cell in enumerate(cells):
        for by_variant in analysis.moments(metric, CUT + cut, cell):
            for arm, name in enumerate(arms):
                if name in by_variant:
                    sums[arm, :, k] += by_variant[name].n * by_variant[name].mean[:2]
    return [composition.Totals(above, below) for above, below in sums]


def cut_splits(analysis: Analysis) -> Iterator[CutSplit]:
    """Split each ratio's difference into changes within cells and of their mix."""
    for cut in analysis.experiment.cuts:
        for metric, variant in analysis.rows:
            if splits_by_cut(metric) and analysis.aggregates.cells(metric.name, CUT + cut):
                yield _split_by_cut(analysis, cut, metric, variant)


def _split_by_cut(analysis: Analysis, cut: str, metric: Metric, variant: str) -> CutSplit:
    arms = Arms(analysis.experiment.control, variant)
    cells = len(analysis.aggregates.cells(metric.name, CUT + cut))
    bare = CutSplit(metric.name, variant, cut, cells)
    if analysis.aggregates.split_periods:
        return replace(bare, reason="split_changed")
    control, treatment = _sum_cell_totals(analysis, cut, metric, arms)
    try:
        shift = composition.parts(control, treatment)
    except Refusal as refusal:
        return replace(bare, reason=translate_refusal(refusal))
    step, why = compute_influence_step(control, treatment), None
    fields: dict[str, Any] = {}
    for name, kind, value in (("within", WITHIN, shift.within), ("mix", MIX, shift.mix)):
        fields[name] = value
        moments = analysis.aggregates.find_moments(metric.name, kind + cut, variant, (step, 1.0))
        try:
            effect = _part(analysis, value, moments, arms)
        except Refusal as refusal:
            why = why or translate_refusal(refusal)
        else:
            fields[f"{name}_low"], fields[f"{name}_high"] = effect.low, effect.high
            fields[f"{name}_p_value"] = effect.p_value
    return replace(bare, difference=shift.difference, **fields, reason=why)


def _part(analysis: Analysis, value: float, moments: MomentsByPeriod, arms: Arms) -> Effect:
    """Test one part of the difference, from its influence on units."""
    units, pair = arms.units(analysis.aggregates), means.pool_pair(moments, arms)
    if min(units) < comparison.MIN_UNITS:
        raise Refusal("too_few_units", "a variant has too few units")
    if pair.control is None or pair.treatment is None:
        raise Refusal("zero_variance", "no unit of a variant has any influence")
    both = _fill_units(pair.control, units[0]), _fill_units(pair.treatment, units[1])
    return composition.effect(value, *both, analysis.experiment.alpha)


def list_metrics_without_cuts(analysis: Analysis) -> Iterator[NoCut]:
    """List metrics that have no effects by cut, and why."""
    if not analysis.experiment.cuts:
        return
    reasons = {metric.name: explain_no_cuts(metric) for metric in analysis.metrics}
    yield from (NoCut(name, why) for name, why in reasons.items() if why is not None)
    if not any(row.slice.startswith(CUT) for row in analysis.aggregates.moments):
        reason = "there are only sums of units, and a cut needs the rows of the impressions"
        yield from (NoCut(name, reason) for name, why in reasons.items() if why is None)
