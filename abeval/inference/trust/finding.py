"""Turn what checks find into checks: shares against limits, tests by one budget of false alarms."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from abeval.experiment.sections import TrustOptions
from abeval.metrics.definition import Metric
from abeval.metrics.row_text import reading
from abeval.results import Check, CheckStatus
from abeval.stats import multiplicity

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


SRM = "srm"
SRM_PART = 0.25
"""The split as a whole is tested at a quarter of the budgets: .01 and .001, as is customary."""


class Part(NamedTuple):
    """What a family of tests may spend: p-values below warn, or fail."""

    warn: float
    fail: float
    reason: str


def decided(findings: Sequence[Finding], options: TrustOptions) -> tuple[Check, ...]:
    """Every finding as a check, in the order of the findings.

    Example:
        >>> from abeval.inference.trust.finding import Words
        >>> tests = [Significance("srm", 0.002, Words("even", "uneven")),
        ...          Significance("hours", 0.002, Words("alike", "differ"))]
        >>> [(check.status, check.threshold) for check in decided(tests, TrustOptions())]
        [('warn', 0.001), ('fail', 0.003)]
    """
    tests = [finding for finding in findings if isinstance(finding, Significance)]
    spend = parts([test.group for test in tests], options)
    adjusted = _adjusted(tests)
    return tuple(
        _check(one, adjusted[one.name], spend[one.group]) if isinstance(one, Significance) else one
        for one in findings
    )


def parts(families: Sequence[str], options: TrustOptions) -> dict[str, Part]:
    """The part of the budgets of each family that has a test."""
    others = sorted({family for family in families if family != SRM})
    shares = {SRM: SRM_PART} | {name: (1 - SRM_PART) / len(others) for name in others}
    return {name: _part(share, options) for name, share in shares.items()}


def _part(share: float, options: TrustOptions) -> Part:
    reason = (
        f"{share:.1%} of [trust] alpha_fail = {options.alpha_fail:g} and of alpha_warn = "
        f"{options.alpha_warn:g}, the chance of a false alarm over all checks together"
    )
    return Part(_rounded(options.alpha_warn * share), _rounded(options.alpha_fail * share), reason)


def _rounded(alpha: float) -> float:
    """Without the last digits of floating point, which nobody should have to read."""
    return float(f"{alpha:.6g}")


def _adjusted(tests: Sequence[Significance]) -> dict[str, float]:
    """P-values by name of the test, Holm within each family."""
    families: dict[str, list[Significance]] = {}
    for test in tests:
        families.setdefault(test.group, []).append(test)
    adjusted: Mapping[str, float] = {
        test.name: float(p)
        for family in families.values()
        for test, p in zip(
            family, multiplicity.adjust([test.p_value for test in family]), strict=True
        )
    }
    return dict(adjusted)


def _check(test: Significance, p_value: float, part: Part) -> Check:
    status = _status(test, p_value, part)
    return Check(
        name=test.name,
        status=status,
        value=p_value,
        threshold=part.fail if test.worst == "fail" else None,
        message=test.words.calm if status == "pass" else test.words.alarm,
        warn_threshold=part.warn,
        threshold_reason=part.reason,
        remedy=test.words.remedy,
        metrics=test.metrics,
        is_test=True,
    )


def _status(test: Significance, p_value: float, part: Part) -> CheckStatus:
    if p_value <= part.fail and test.worst == "fail":
        return "fail"
    return "warn" if p_value <= part.warn else test.least
