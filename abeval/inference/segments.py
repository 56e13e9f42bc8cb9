"""Segments: do they share one effect, does their mix explain it?

`judge.py` hands it the analysis and puts its rows into the result.
"""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from abeval.aggregates.sums import SEGMENT, ByStretch
from abeval.inference.compare import Analysis
from abeval.inference.comparison import MIN_UNITS, Arms, Rule
from abeval.inference.means_and_ratios import (
    cell_sizes,
    compare_within,
    estimate,
    pair_of,
    together,
)
from abeval.metrics.definition import Metric
from abeval.results import SegmentContrast, SegmentTest
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
        within=mix.within,
        mix=mix.mix,
        mix_p_value=mix.mix_p_value,
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
    ses = [share * one.effect.se for share, one in zip(mix.shares, parts, strict=True)]
    try:
        whole = _estimates(cells, together([one.moments for one in parts]))
        within = from_difference(0.0, mix.within, mix.within, math.hypot(*ses))
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
