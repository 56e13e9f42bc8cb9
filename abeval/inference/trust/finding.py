"""What a check found: a share against its limits, a test that its family judges, or nothing.

Every module of checks beside this one makes findings; `family.py` turns them into checks.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from abeval.metrics.definition import Metric
from abeval.metrics.row_text import reading
from abeval.results import Check, CheckStatus

CLICK_COLUMNS = frozenset({"click", "dwell", "dwell_ms"})
"""What the rows of a click log give to impressions."""

ROW_COLUMNS = frozenset({"unit_id", "variant", "ts", "request_id", "impression_id"})
"""What decides which rows there are, and whose: all metrics depend on it."""


class Limits(NamedTuple):
    """From which value on a check warns, from which it fails (None: never), and why there."""

    warn: float
    fail: float | None
    reason: str


class Words(NamedTuple):
    """What a check says.

    Attributes:
        calm: Where it passes.
        alarm: Where it does not.
        remedy: What to do then.
    """

    calm: str
    alarm: str
    remedy: str = ""


@dataclass(frozen=True)
class Significance:
    """A check that is a test: what it says depends on how many others there are.

    Attributes:
        name: Of the check.
        p_value: Of this test alone. Tests of one family are adjusted over it (Holm).
        words: What it says.
        family: What shares one part of the budget of false alarms: by default the name up to ":".
        metrics: Whose rows it touches, None for all.
        worst: `warn` if it never fails, because what it finds may be an effect of the treatment.
        least: `warn` if it is a warning in any case.
    """

    name: str
    p_value: float
    words: Words
    family: str = ""
    metrics: tuple[str, ...] | None = None
    worst: Literal["warn", "fail"] = "fail"
    least: Literal["pass", "warn"] = "pass"

    @property
    def group(self) -> str:
        """The name of its family."""
        return self.family or self.name.partition(":")[0]


Finding = Check | Significance


def skipped(name: str, message: str) -> Check:
    """A check that these logs, or this plan, cannot make."""
    return Check(name, "skipped", None, None, message)


def graded(
    name: str,
    value: float,
    limits: Limits,
    words: Words,
    metrics: tuple[str, ...] | None = None,
) -> Check:
    """A check of a number against its limits, from which on it warns and fails.

    Example:
        >>> limits = Limits(0.02, 0.2, "a fifth of the rows")
        >>> graded("lost", 0.05, limits, Words("few lost", "many lost", "look")).status
        'warn'
    """
    status = status_above(value, limits)
    message = words.calm if status == "pass" else words.alarm
    return Check(
        *(name, status, value, limits.fail, message),
        warn_threshold=limits.warn,
        threshold_reason=limits.reason,
        remedy=words.remedy,
        metrics=metrics,
    )


def status_above(value: float, limits: Limits) -> CheckStatus:
    """The status of a number that is bad where it is large."""
    if limits.fail is not None and value >= limits.fail:
        return "fail"
    return "warn" if value >= limits.warn else "pass"


def touched(metrics: Sequence[Metric], columns: Collection[str]) -> tuple[str, ...] | None:
    """The metrics that a fault of these columns touches; None, for all, where rows depend on them.

    Args:
        metrics: Of the scorecard.
        columns: Canonical names, or the log's own, in lower case.
    """
    return None if ROW_COLUMNS.intersection(columns) else reading(metrics, columns)
