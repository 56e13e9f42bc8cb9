"""From findings to checks: one budget of false alarms over all checks that are tests.

Were each check at a level of its own, every further check would raise the rate of false alarms.
Here all tests share two budgets, one of warnings and one of failures: a quarter goes to the split
as a whole, and each other family of tests that could run gets the same part of the rest. Within a
family p-values are adjusted (Holm). So the chance of any false alarm is at most the budget, however
tests depend on each other, and a threshold follows from the number of families alone.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from abeval.experiment.sections import TrustOptions
from abeval.inference.trust.finding import Finding, Significance
from abeval.results import Check, CheckStatus
from abeval.stats import multiplicity

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
