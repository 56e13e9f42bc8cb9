"""Say what the launches of a quarter gained together, beside a holdout.

Lifts compound, so all sums here are of log(1 + lift). What everybody else had on a day is every
launch from its first day on, and while an experiment ran, each variant by its share of the units.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggest_name
from abeval.history.measures import Case, Effect, Measure
from abeval.results.analysis import CheckResult
from abeval.results.codes import open_questions
from abeval.results.history import HistoryRow, HoldoutWeek, Launch, Programme
from abeval.results.windows import TimeResult, WindowRow
from abeval.stats import shrinkage
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.records import Floats
from abeval.stats.shrinkage import FEWEST

_AGREES = 0.01
"""Launches and holdout are combined unless a test at this level tells them apart."""

_ADDITIVITY = 0.1
"""Launches that are live together may add up to that much more or less (standard deviation)."""

_WEEK = 7


class LoadedHoldout(Protocol):
    """A loaded experiment whose control is a holdout."""

    @property
    def experiment(self) -> Experiment:
        """Return what its file says."""

    def check(self) -> CheckResult:
        """Check its split and its logs."""

    def windows(self) -> TimeResult:
        """Estimate its effects by window."""

    def replace(self, *, inference: Mapping[str, object]) -> "LoadedHoldout":
        """Return it with another `[inference]`."""


class Holdout(NamedTuple):
    """What was measured of a holdout.

    `windows` are adjusted by values before the period if there are any, `plain` are not. `launches`
    has the first day on which everybody else had a launch, by experiment; empty for all that the
    history says were shipped, each after its test. `failed` names the checks that failed.
    """

    name: str
    windows: TimeResult
    plain: TimeResult
    launches: Mapping[str, str]
    failed: tuple[str, ...] = ()


class Kept(NamedTuple):
    """The shares of the first week's effect that are left in each week.

    `sd` is the standard deviation of the last share. A test measures the mean of its weeks; what is
    left after it is taken to be that of the last.
    """

    weeks: tuple[float, ...] = (1.0,)
    sd: float = 0.0

    def after(self, days: float | None) -> tuple[float, float]:
        """Return the share of a test's effect that is left after the test.

        The second number is the standard deviation of the share.

        Example:
            >>> Kept((1.0, 0.8, 0.6, 0.4)).after(14)[0].__round__(3)
            0.444
        """
        weeks = len(self.weeks) if days is None else max(days / _WEEK, 1.0)
        shares = np.pad(self.weeks, (0, math.ceil(weeks)), mode="edge")
        mean = shares @ np.clip(weeks - np.arange(shares.size), 0.0, 1.0) / weeks
        return float(self.weeks[-1] / mean), float(self.sd / mean)


def measure_holdout(loaded: LoadedHoldout) -> Holdout:
    """Measure everybody else against the holdout, with and without covariates.

    Raises:
        ExperimentError: The experiment has no `[holdout]`, or not two variants.
    """
    experiment = loaded.experiment
    if experiment.holdout is None:
        what = f"{experiment.name!r} has no [holdout]: it does not say that its control got nothing"
        raise ExperimentError(what, "add the table [holdout], with or without `launches`")
    if len(experiment.treatments) != 1:
        what = f"{experiment.name!r} has {len(experiment.variants)} variants"
        raise ExperimentError(what, "a holdout is compared with one variant: everybody else")
    if experiment.questions:
        what = f"{experiment.name!r} is a draft: {open_questions(experiment.questions)}"
        raise ExperimentError(what, "answer and remove them")
    launches = {name: str(day)[:10] for name, day in experiment.holdout.launches.items()}
    windows, inference = loaded.windows(), experiment.inference
    plain = windows
    if inference.adjust != "none":
        entries = inference.model_dump(exclude_unset=True) | {"adjust": "none"}
        plain = loaded.replace(inference=entries).windows()
    return Holdout(experiment.name, windows, plain, launches, loaded.check().failed_checks)


class _Parts(NamedTuple):
    """The effects of a history on one metric, and who had them.

    `effects` and `ses` are of logs, shape (cases,). `tested` and `live` are the shares of everybody
    else who had each on each day, in its test and after its launch, shape (cases, days); `days` are
    the weights of the days. `kept` is what is left of each after its test, and its standard
    deviation, shape (2, cases). `unmeasured` counts launches without an effect on the metric.
    """

    cases: Sequence[Case]
    effects: Floats
    ses: Floats
    tested: Floats
    live: Floats
    days: Floats
    kept: Floats
    unmeasured: int

    def average(self, until: int) -> tuple[Floats, Floats]:
        """Return the mean shares over the first days, in tests and after launches."""
        weight = self.days[:until] / max(self.days[:until].sum(), 1e-300)
        return self.tested[:, :until] @ weight, self.live[:, :until] @ weight

    def expect(self, tested: Floats, live: Floats) -> tuple[float, float]:
        """Expect the sum of logs by the shrunk effects, with its standard deviation."""
        value, sd = self.kept
        total = shrinkage.total(self.effects, self.ses, tested + value * live)
        # All launches share the error of what is left.
        later = shrinkage.total(self.effects, self.ses, sd * live).value
        return total.value, math.hypot(total.sd, later, _ADDITIVITY * total.value)


def describe_programme(
    measure: Measure, rows: Sequence[HistoryRow], holdout: Holdout, kept: Kept, alpha: float
) -> tuple[Programme, Sequence[Launch], Sequence[HoldoutWeek]]:
    """Say what the launches gained of a metric, launch by launch and week by week.

    Args:
        measure: The effects of all experiments of the history on the metric, shipped or not.
        rows: The history's rows, which say when and on how many units each was tested.
        holdout: What was measured of the holdout.
        kept: What is left of effects in later weeks.
        alpha: Error rate of the intervals.

    Raises:
        ExperimentError: A launch is not in the history, or it is not known since when it is live.
    """
    metric, weeks = measure.metric, [*_pair_weeks(measure.metric, holdout)]
    last = weeks[-1][0] if weeks else None
    bare = Programme(metric, holdout.name, 0, basis="none", reason="no_values")
    if last is None:
        return bare, (), ()
    parts = _find_parts(measure, rows, holdout, kept)
    since = parts.live.any(1)
    if len({name for name, _ in parts.cases}) < FEWEST or not since.any():
        return replace(bare, reason="too_few_units"), (), ()
    reach = two_sided_quantile(alpha)
    shrunk = shrinkage.shrink(parts.effects, parts.ses, alpha)
    _, all_live = parts.average(parts.days.size)
    launches = [
        Launch(
            metric=metric,
            experiment=parts.cases[i][0],
            variant=parts.cases[i][1],
            since=holdout.windows.days[int(np.argmax(parts.live[i] > 0))],
            share=float(all_live[i]),
            measured=math.expm1(parts.effects[i]),
            shrunk=math.expm1(shrunk.value[i]),
            low=math.expm1(shrunk.low[i]),
            high=math.expm1(shrunk.high[i]),
        )
        for i in np.flatnonzero(since).tolist()
    ]
    shown = [
        HoldoutWeek(
            metric=metric,
            end=row.end,
            days=row.days,
            **_name_lift("holdout", row),
            **_name_lift("plain", plain),
            **_lift("expected", parts.expect(*parts.average(until)), reach),
        )
        for row, plain in weeks
        for until in [holdout.windows.days.index(row.end) + 1]
    ]
    return _conclude(bare, parts, last, holdout, reach), launches, shown


def _conclude(
    bare: Programme, parts: _Parts, last: WindowRow, holdout: Holdout, reach: float
) -> Programme:
    """Combine launches and holdout over the whole period, if they agree."""
    since = np.where(parts.live.any(1), 1.0, 0.0)
    shares = since, parts.kept[0] * since
    shrunk, worn = (shrinkage.total(parts.effects, parts.ses, share).value for share in shares)
    expected = parts.expect(*parts.average(parts.days.size))
    steps = [float(since @ parts.effects), shrunk, worn, expected[0]]
    kept, kept_sd = parts.kept @ since / since.sum()
    naive, luck, wear_off, not_live = np.diff(np.expm1(steps), prepend=0.0).tolist()
    row = replace(
        bare,
        launches=int(since.sum()),
        unmeasured=parts.unmeasured,
        reason=None,
        naive=naive,
        luck=luck,
        wear_off=wear_off,
        not_live=not_live,
        kept=float(kept),
        kept_sd=float(kept_sd),
        **_lift("together", parts.expect(0 * since, since), reach),
        **_lift("expected", expected, reach),
    )
    measured = _measure_log(last, holdout.windows.alpha)
    if holdout.failed or measured is None:
        # Its logs cannot be trusted, or control is near zero.
        why = "untrusted" if holdout.failed else last.reason or "no_lift"
        return replace(row, **_lift("gained", expected, reach), basis="launches", reason=why)
    combined = shrinkage.combine(expected, measured)
    agrees = combined.p_value >= _AGREES
    apart = measured[0] - expected[0], math.hypot(measured[1], expected[1])
    # The holdout was randomised: where both differ, it holds without what launches assume.
    best = (combined.value, combined.sd) if agrees else measured
    return replace(
        row,
        **_lift("holdout", measured, reach),
        **_lift("unexplained", apart, reach, math.exp(expected[0])),
        **_lift("gained", best, reach),
        p_value=combined.p_value,
        basis="both" if agrees else "holdout",
    )


def _lift(name: str, log: tuple[float, float], reach: float, scale: float = 1.0) -> dict[str, Any]:
    """Return a lift and its interval as fields of a record, from a log and its error."""
    ends = {"": 0.0, "_low": -reach, "_high": reach}
    return {f"{name}{end}": scale * math.expm1(log[0] + z * log[1]) for end, z in ends.items()}


def _name_lift(name: str, row: WindowRow) -> dict[str, Any]:
    """Return the lift of a row and its interval as fields of a record."""
    return {name: row.lift, f"{name}_low": row.lift_low, f"{name}_high": row.lift_high}


def _measure_log(row: WindowRow, alpha: float) -> tuple[float, float] | None:
    """Return the log of a lift with its standard error; None without an interval."""
    if row.lift is None or row.lift_low is None or row.lift_high is None or row.lift_low <= -1:
        return None
    width = math.log1p(row.lift_high) - math.log1p(row.lift_low)
    return math.log1p(row.lift), width / (2 * two_sided_quantile(alpha))


def _pair_weeks(metric: str, holdout: Holdout) -> Iterator[tuple[WindowRow, WindowRow]]:
    """Pair cumulative windows that end with a week or the period: adjusted and plain."""
    adjusted, plain = (
        {row.end: row for row in _select_windows(result, metric, "cumulative")}
        for result in (holdout.windows, holdout.plain)
    )
    for number, day in enumerate(holdout.windows.days, start=1):
        is_shown = number % _WEEK == 0 or day == holdout.windows.days[-1]
        if is_shown and day in adjusted:
            yield adjusted[day], plain.get(day, adjusted[day])


def _select_windows(result: TimeResult, metric: str, kind: str) -> Iterator[WindowRow]:
    for row in result.windows:
        if (row.metric, row.axis, row.kind) == (metric, "calendar", kind):
            yield row


def _find_launched(rows: Sequence[HistoryRow], holdout: Holdout) -> set[str]:
    """Find the experiments that were launched in the period, measured or not."""
    first, last = holdout.windows.days[0], holdout.windows.days[-1]
    shipped = {row.experiment for row in rows if row.shipped}
    if missing := [name for name in holdout.launches if name not in shipped]:
        what = f"[holdout] launches: the history has no experiment {missing[0]!r} that was shipped"
        raise ExperimentError(what + suggest_name(missing[0], shipped), "add it, with --shipped")
    # Without days of their own, experiments are launched at the end of their tests.
    days = holdout.launches or {r.experiment: (r.end or last)[:10] for r in rows if r.shipped}
    return {name for name, day in days.items() if first <= day <= last}


def _find_site_lift(row: HistoryRow, effect: Effect) -> Effect | None:
    """Find the lift of all traffic; None where only that of exposed units is known."""
    if row.site_lift is not None and row.site_se is not None:
        return Effect(row.site_lift, row.site_se, effect.p_value)
    return None if row.triggered else effect


def _count_others(metric: str, holdout: Holdout, in_test: NDArray[np.bool_]) -> int:
    """Count the units of everybody else on the days of a test.

    Units return, so that days do not add up. As many units come in so many days as came in the
    first ones of the period, and at least those of the busiest day.
    """
    length, dates = int(in_test.sum()), {*np.array(holdout.windows.days)[in_test].tolist()}
    daily = [r.units for r in _select_windows(holdout.plain, metric, "daily") if r.end in dates]
    cumulative = _select_windows(holdout.plain, metric, "cumulative")
    entered = [row.units for row in cumulative if row.days <= length]
    return max(*daily, *entered, 0, 0)


def _find_parts(
    measure: Measure, rows: Sequence[HistoryRow], holdout: Holdout, kept: Kept
) -> _Parts:
    """Find the effects of a history, and who of everybody else had them when."""
    days, metric = np.array(holdout.windows.days), measure.metric
    judged = [row for row in rows if (row.source, row.metric) == ("analysis", metric)]
    tests = {(row.experiment, row.variant): row for row in judged}
    launched = _find_launched(rows, holdout)
    lifts = {
        case: lift
        for case, effect in measure.effects.items()
        if (lift := _find_site_lift(tests[case], effect)) is not None and lift.value > -1
    }
    cases = [*lifts]
    effects = np.array([math.log1p(lift.value) for lift in lifts.values()])
    ses = np.array([lift.se / (1 + lift.value) for lift in lifts.values()])
    tested, live = np.zeros((2, len(cases), days.size))
    left = np.zeros((2, len(cases)))
    for i, case in enumerate(cases):
        row = tests[case]
        begin, end = (None if at is None else at[:10] for at in (row.start, row.end))
        length = None if begin is None or end is None else np.datetime64(end) - np.datetime64(begin)
        left[:, i] = kept.after(None if length is None else length / np.timedelta64(1, "D"))
        since = end
        if row.shipped and holdout.launches:
            since = holdout.launches.get(row.experiment)
        elif row.shipped and end is None:
            what = f"[holdout] launches: it is not known since when {row.experiment!r} is live"
            raise ExperimentError(what, f'say so: launches = {{ "{row.experiment}" = 2026-07-01 }}')
        if begin is not None and end is not None:
            treated = (t.units for t in tests.values() if t.experiment == row.experiment)
            units = (row.units_control or 0) + sum(treated)
            in_test = (days >= begin) & (days < end)
            others = _count_others(metric, holdout, in_test)
            tested[i, in_test] = row.units / max(units, others, 1)
        # What was launched before the period, the holdout has too.
        if row.shipped and since is not None and since >= str(days[0]):
            live[i, days >= since] = 1.0
            tested[i, days >= since] = 0.0
    there = {row.end: row.units_control for row in _select_windows(holdout.plain, metric, "daily")}
    weights = np.array([float(there.get(str(day), 0)) for day in days])
    weights = weights if weights.any() else weights + 1.0
    unmeasured = len(launched - {name for name, _ in cases})
    return _Parts(cases, effects, ses, tested, live, weights, left, unmeasured)
