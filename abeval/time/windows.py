"""Daily, cumulative and rolling effects of one metric in one variant.

`time/analysis.py` calls it with a `Course` on the calendar and one of days since entry; the rows go
into the `TimeResult`. `time/cut.py` takes the spans of its windows from it.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from abeval.inference.comparison import Comparison, Rule
from abeval.results.windows import WindowRow
from abeval.time.day_sums import Span

Kind = Literal["daily", "cumulative", "rolling"]


def spans(days: int, widths: Sequence[int]) -> dict[Kind, list[Span]]:
    """Every window on an axis of so many days.

    Example:
        >>> spans(3, [2])["rolling"]
        [(0, 1), (1, 2)]
    """
    return {
        "daily": [(day, day) for day in range(days)],
        "cumulative": [(0, day) for day in range(days)],
        "rolling": [
            (last - width + 1, last)
            for width in dict.fromkeys(width for width in widths if width > 1)
            for last in range(width - 1, days)
        ],
    }


class Window(NamedTuple):
    """The effect in one window.

    Attributes:
        kind: Its kind.
        span: Its days.
        comparison: The effect, or why there is none.
    """

    kind: Kind
    span: Span
    comparison: Comparison


def windows_of(course: Course, rule: Rule, widths: Sequence[int]) -> tuple[Window, ...]:
    """Every window of a metric on one axis."""
    return tuple(
        Window(kind, span, comparison)
        for kind, own in spans(len(course.axis.labels), widths).items()
        for span, comparison in course.effects(own, rule, entered=kind == "cumulative")
    )


def window_rows(course: Course, windows: Sequence[Window]) -> tuple[WindowRow, ...]:
    """The rows of windows."""
    return tuple(row_of(course, *window) for window in windows)


def row_of(
    course: Course, kind: Kind | Literal["recurring"], span: Span, comparison: Comparison
) -> WindowRow:
    """A comparison as the row of its window."""
    first, last = span
    axis = course.axis
    return WindowRow(
        metric=course.metric.name,
        variant=course.variant,
        axis=axis.name,
        kind=kind,
        days=last - first + 1,
        start=axis.labels[first],
        end=axis.labels[last],
        partial=any(axis.partial[first : last + 1]),
        **comparison.numbers._asdict(),
        reason=comparison.reason,
    )
