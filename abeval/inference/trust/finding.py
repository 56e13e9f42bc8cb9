"""Turn findings into checks: numbers by limits, tests by an error budget.

All tests share two error budgets, one for warnings and one for failures. A quarter goes to the
overall split; the families of other tests share the rest equally; within a family p-values are
adjusted (Holm). The chance of any false alarm is therefore at most the budget, however tests depend
on each other. With a fixed level each, every further test would raise it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

from abeval.experiment.sections import TrustOptions
from abeval.inference.compare import Analysis
from abeval.metrics.definition import Metric, list_row_values
from abeval.metrics.row_text import list_dependent_metrics
from abeval.results.record import group_rows
from abeval.results.trust import Check, CheckStatus
from abeval.stats import multiplicity

_ROW_COLUMNS = frozenset({"unit_id", "variant", "ts", "request_id", "impression_id"})
"""Columns that decide which rows exist and whose they are: all metrics need them."""

CLICK_COLUMNS = ("click", "dwell", "dwell_ms")
"""Columns whose metrics read clicks."""

Tested = TypeVar("Tested")

# Tests with a smaller p-value are named in a message.
_NAMED = 0.01

_SRM = "srm"
# The overall split gets a quarter of the budgets: 0.01 and 0.001, as is customary.
_SRM_PART = 0.25


class Limits(NamedTuple):
    """Values at which a check warns and fails; above which if `beyond`."""

    warn: float | None
    fail: float | None
    beyond: bool = False


class RawCheck(NamedTuple):
    """The raw outcome of a check, before thresholds.

    Attributes:
        value: A number, or the p-value of a test; None if the check cannot be made.
        calm: Message if it passes, or why it cannot be made; by default that of its declaration.
        alarm: Message if it does not pass; by default that of its declaration.
        limits: Limits of a number, if not those of its declaration; a test has none.
        metrics: Metrics that are affected; None for all.
        worst: `warn` for a test that may react to a treatment effect.
        name: Name, if not that of the declaration; the part before ":" is a test's family.
        family: Override of the family derived from the name.
        slots: Fields of the message templates.
        state: Name of the state that was found, see `TrustCheck.states`.
    """

    value: float | None
    calm: str = ""
    alarm: str = ""
    limits: Limits | None = None
    metrics: tuple[str, ...] | None = None
    worst: Literal["warn", "fail"] = "fail"
    least: CheckStatus = "pass"
    name: str = ""
    reason: str = ""
    remedy: str = ""
    family: str = ""
    slots: Mapping[str, object] = {}
    state: str = ""

    @property
    def group(self) -> str:
        """Return the test's family, which shares a budget; empty if no test."""
        if self.value is None or self.limits is not None:
            return ""
        return self.family or self.name.partition(":")[0]


def reads_log(metric: Metric, log: str) -> bool:
    """Tell whether a metric is computed from rows of a log since exposure."""
    return any(value.log == log for value in list_row_values(metric))


def find_smallest(p_values: Mapping[Tested, float]) -> list[Tested]:
    """Find the tests with small p-values, or at least the one with the smallest.

    A message names these tests.

    Example:
        >>> find_smallest({"ctr": 0.3, "revenue": 0.04}), find_smallest({"a": 0.001, "b": 0.009})
        (['revenue'], ['a', 'b'])
    """
    limit = max(_NAMED, min(p_values.values()))
    return [test for test, p_value in p_values.items() if p_value <= limit]


def skip_check(why: str, name: str = "", remedy: str = "") -> RawCheck:
    """Build the finding of a check that cannot be made here.

    `remedy` says how to have it made; without one, the check does not apply here.
    """
    return RawCheck(None, why, least="skipped", name=name, remedy=remedy)


_Find = Callable[[Analysis], RawCheck | list[RawCheck] | None]
"""Runs a check: one finding, a list of findings, or None without data."""


@dataclass(frozen=True)
class TrustCheck:
    """A trust check: its function, limits and sentences.

    As a decorator it takes the function that follows. In sentences, {} is a slot of the finding.

    Attributes:
        name: Name of the check, in the JSON too.
        find: Runs the check.
        check: Name of the check that it is a part of: its worst part is told.
        of: Which data it needs: logs, a table with one row a unit ("units"), or "both".
        audit: Whether it needs the audits of a log by variant.
        pairs: Whether it only compares variants: those of too few units are left out.
        limits: From which value on it warns and fails: numbers, or keys of [trust]; none for a
            test.
        difference: By how much shares differ, where that is sure. "fail" has the usual limits;
            "large" warns where "fail" fails, and fails at ten times that; "warn" never fails.
        columns: Columns whose metrics a fault touches; all metrics without any.
        absent: Why it is skipped where the logs do not have what it compares.
        calm: What it says where it passes.
        alarm: What it says where it does not pass; the same as `calm` without one.
        reason: Why it has these limits.
        remedy: What to do where it does not pass.
        states: Other sentences or limits for what the check may find, by `RawCheck.state`.

    Example:
        >>> @TrustCheck("outages", limits=(1.0, 3.0), calm="{hours} hours of outages")
        ... def outages(analysis):
        ...     return RawCheck(2.0, slots={"hours": 2})
        >>> outages.name, outages.limits
        ('outages', (1.0, 3.0))
    """

    name: str
    find: _Find = lambda _: None
    check: str = ""
    of: Literal["log", "units", "both"] = "log"
    audit: bool = False
    pairs: bool = False
    limits: Sequence[float | str] = ()
    difference: Literal["", "fail", "large", "warn"] = ""
    columns: Sequence[str] = ()
    absent: str = ""
    calm: str = ""
    alarm: str = ""
    reason: str = ""
    remedy: str = ""
    states: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __call__(self, find: _Find) -> "TrustCheck":
        """Give the check its function, as a decorator."""
        return replace(self, find=find)

    def run(self, analysis: Analysis) -> RawCheck | list[RawCheck] | None:
        """Run the check: one finding, a list of findings, or None without data."""
        return self.find(analysis)

    def findings(self, analysis: Analysis) -> list[RawCheck]:
        """Run the check, and fill in its name and messages."""
        answer = self.run(analysis)
        several = [skip_check(self.absent)] if answer is None else answer
        several = [several] if isinstance(several, RawCheck) else several
        return [
            replace(self, **self.states.get(finding.state, {}))._fill_messages(analysis, finding)
            for finding in several
        ]

    def _fill_messages(self, analysis: Analysis, finding: RawCheck) -> RawCheck:
        """Fill in the messages, limits and metrics from the declaration."""
        name = finding.name or self.check or self.name
        limits = finding.limits
        metrics = finding.metrics
        if finding.least == "skipped":
            return finding._replace(name=name, limits=None, reason="")
        calm, alarm, reason, remedy = (
            getattr(finding, part) or getattr(self, part).format(**finding.slots)
            for part in ("calm", "alarm", "reason", "remedy")
        )
        if limits is None and self.limits:
            options = analysis.experiment.trust
            warn, *fail = (getattr(options, x) if isinstance(x, str) else x for x in self.limits)
            limits = Limits(warn, fail[0] if fail else None)
        elif limits is None and self.difference:
            kind = "warn" if finding.worst == "warn" else self.difference
            limits, reason = choose_difference_limits(analysis.experiment.trust, kind)
        if metrics is None and self.columns:
            metrics = affected_metrics(analysis.metrics, self.columns)
        filled = finding._replace(calm=calm, alarm=alarm, reason=reason, remedy=remedy)
        return filled._replace(name=name, limits=limits, metrics=metrics)


_LARGE = 10


def choose_difference_limits(options: TrustOptions, kind: str) -> tuple[Limits, str]:
    """Return the limits of a sure difference, and their reason."""
    sure = "the difference of the shares, where units differ for sure (chance of an error 1e-6)"
    warn, fail = options.difference_warn, options.difference_fail
    if kind == "warn":
        why = f"{sure}; it never fails, because the treatment may make one"
        return Limits(fail, None), why
    why = f"{sure}: nothing that a treatment does to people makes one"
    return Limits(*((warn, fail) if kind == "fail" else (fail, min(1.0, _LARGE * fail)))), why


def apply_thresholds(findings: Sequence[RawCheck], options: TrustOptions) -> tuple[Check, ...]:
    """Turn all findings into checks, in their order.

    Example:
        >>> tests = [RawCheck(0.002, "even", name="srm"), RawCheck(0.002, "alike", name="hours")]
        >>> [(check.status, check.threshold) for check in apply_thresholds(tests, TrustOptions())]
        [('warn', 0.001), ('fail', 0.003)]
    """
    families: dict[str, list[int]] = {}
    for index, finding in enumerate(findings):
        if finding.group:
            families.setdefault(finding.group, []).append(index)
    # Only families with a test that ran get a share of the budgets.
    shares = _split_error_budget(families)
    checks = [_check(finding, finding.limits or Limits(None, None)) for finding in findings]
    for family, indices in families.items():
        adjusted = multiplicity.adjust([findings[index].value or 0.0 for index in indices])
        limits, reason = _part(shares[family], options)
        for index, p_value in zip(indices, adjusted, strict=True):
            finding = findings[index]._replace(value=float(p_value), reason=reason)
            checks[index] = _check(finding, limits)
    return tuple(
        _merge_parts(parts) for parts in group_rows(checks, lambda check: check.name).values()
    )


_ORDER: Sequence[CheckStatus] = ("fail", "warn", "pass", "skipped")


def _merge_parts(parts: Sequence[Check]) -> Check:
    """Merge the parts of a check: the worst status, with all messages as bad."""
    worst = min(parts, key=lambda part: (_ORDER.index(part.status), -_compare_to_threshold(part)))
    told = [part for part in parts if part.status in (worst.status, "warn")]
    same = [part.metrics for part in told if part.status == worst.status]
    metrics = (
        None
        if None in same
        else tuple(dict.fromkeys(m for part_metrics in same for m in part_metrics or ()))
    )
    message, remedy = (
        "; ".join(dict.fromkeys(getattr(part, field) for part in told if getattr(part, field)))
        for field in ("message", "remedy")
    )
    return replace(worst, message=message, remedy=remedy, metrics=metrics)


def _split_error_budget(families: Collection[str]) -> dict[str, float]:
    """Return each test family's share of the error budgets."""
    others = {*families} - {_SRM}
    return {_SRM: _SRM_PART} | {name: (1 - _SRM_PART) / len(others) for name in others}


def _part(share: float, options: TrustOptions) -> tuple[Limits, str]:
    """Return the p-value limits for a share of the budgets, and their reason."""
    # Without the last digits of floating point, which nobody should have to read.
    warn, fail = (float(f"{a * share:.6g}") for a in (options.alpha_warn, options.alpha_fail))
    return Limits(warn, fail), (
        f"{share:.1%} of [trust] alpha_fail = {options.alpha_fail:g} and of alpha_warn = "
        f"{options.alpha_warn:g}, the chance of a false alarm over all checks together"
    )


def _check(finding: RawCheck, limits: Limits) -> Check:
    limits = limits if finding.worst == "fail" else limits._replace(fail=None)
    status: CheckStatus = finding.least
    if _reaches(finding, limits.fail, limits.beyond):
        status = "fail"
    elif _reaches(finding, limits.warn, limits.beyond):
        status = "warn"
    return Check(
        name=finding.name,
        status=status,
        value=finding.value,
        threshold=limits.fail,
        message=finding.calm if status == "pass" else finding.alarm or finding.calm,
        warn_threshold=limits.warn,
        threshold_reason=finding.reason,
        remedy=finding.remedy,
        metrics=finding.metrics,
        is_test=bool(finding.group),
    )


def _compare_to_threshold(check: Check) -> float:
    """Return a number relative to the value at which it warns."""
    return (check.value or 0.0) / (check.warn_threshold or 1.0)


def _reaches(finding: RawCheck, limit: float | None, beyond: bool) -> bool:
    if finding.value is None or limit is None:
        return False
    if finding.group:
        return finding.value <= limit
    return finding.value > limit or (finding.value == limit and not beyond)


def affected_metrics(metrics: Sequence[Metric], columns: Collection[str]) -> tuple[str, ...] | None:
    """Return the metrics that read these columns; None if all do.

    Columns have canonical names or those of the log, in lower case.
    """
    return None if _ROW_COLUMNS.intersection(columns) else list_dependent_metrics(metrics, columns)
