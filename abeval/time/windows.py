"""Daily, cumulative and rolling effects of one metric in one variant."""

from collections.abc import Iterator, Sequence
from typing import Literal

from abeval.inference.comparison import Comparison, Rule, compare_moments, refused
from abeval.inference.scorecard import numbers_of
from abeval.metrics.definition import Metric
from abeval.results.windows import WindowRow
from abeval.stats.records import Refusal
from abeval.time.axes import Axis
from abeval.time.day_sums import Span

Kind = Literal["daily", "cumulative", "rolling"]


def spans(days: int, widths: Sequence[int]) -> Iterator[tuple[Kind, Span]]:
    """Every window on an axis of so many days.

    Example:
        >>> [span for kind, span in spans(3, [2]) if kind == "rolling"]
        [(0, 1), (1, 2)]
    """
    for day in range(days):
        yield "daily", (day, day)
    for day in range(days):
        yield "cumulative", (0, day)
    for width in dict.fromkeys(w for w in widths if 1 < w <= days):
        for last in range(width - 1, days):
            yield "rolling", (last - width + 1, last)


def effect_of(
    metric: Metric, axis: Axis, variant: str, span: Span, rule: Rule, entered: bool
) -> Comparison:
    """The effect of a metric in one window, or why there is none."""
    try:
        control, treatment = axis.window(variant, span, entered)
    except Refusal:
        return refused(0, 0, "no_units")
    return compare_moments(metric, control, treatment, rule)


def window_rows(
    metric: Metric, axis: Axis, variant: str, rule: Rule, widths: Sequence[int]
) -> tuple[WindowRow, ...]:
    """Every window of a metric on one axis."""
    return tuple(
        row_of(
            metric,
            axis,
            variant,
            kind,
            span,
            effect_of(metric, axis, variant, span, rule, kind == "cumulative"),
        )
        for kind, span in spans(len(axis.labels), widths)
    )


def row_of(
    metric: Metric, axis: Axis, variant: str, kind: Kind, span: Span, found: Comparison
) -> WindowRow:
    """A comparison as the row of its window."""
    first, last = span
    return WindowRow(
        metric=metric.name,
        variant=variant,
        axis=axis.name,
        kind=kind,
        days=last - first + 1,
        start=axis.labels[first],
        end=axis.labels[last],
        partial=any(axis.partial[first : last + 1]),
        **numbers_of(found)._asdict(),
        reason=found.reason,
    )
