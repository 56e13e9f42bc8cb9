"""Checks of days: an impression on each of them, and most impressions within the periods."""

from collections.abc import Sequence
from datetime import date, timedelta

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.trust.finding import skipped
from abeval.inference.trust.rows import share_of
from abeval.results import Check


def missing_days(experiment: Experiment, aggregates: Aggregates) -> Check:
    """Days without an impression, up to the last with any: later ones may be yet to come."""
    days = [one.day for one in aggregates.days]
    if not days:
        message = "the log has no timestamps, so days cannot be checked"
        return skipped("missing_days", message)
    planned = expected_days(experiment, days)
    expected = [day for day in planned if day <= days[-1]]
    missing = [day for day in expected if day not in set(days)]
    of = f"{len(expected)} days" + (
        f" so far (of {len(planned)})" if planned[-1] > days[-1] else ""
    )
    message = f"an impression on each of {of}"
    if missing:
        listed = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
        message = f"no impression on {len(missing)} of {of}: {listed}"
    most = experiment.trust.missing_days * len(expected)
    return Check(
        name="missing_days",
        status="fail" if len(missing) > most else "warn" if missing else "pass",
        value=float(len(missing)),
        threshold=most,
        message=message,
        warn_threshold=0.0,
        threshold_reason=f"with more than {experiment.trust.missing_days:.0%} of the days missing "
        "up to the last one with an impression ([trust] missing_days), times are probably misread",
        remedy="look for files that are missing or late, and whether the times of the log are "
        "read as they are meant",
    )


def expected_days(experiment: Experiment, days: Sequence[str]) -> list[str]:
    """The days of the period, or those from the first to the last one of the log."""
    first, last = date.fromisoformat(days[0]), date.fromisoformat(days[-1])
    if experiment.period is not None:
        start, end = experiment.period.bounds
        first, last = start.date(), (end - timedelta(microseconds=1)).date()
    return [str(first + timedelta(days=i)) for i in range((last - first).days + 1)]


def outside_period(experiment: Experiment, aggregates: Aggregates) -> Check:
    """The share of the impressions in neither period: most of them, if times are misread."""
    name = "impressions_outside_period"
    if experiment.period is None:
        return skipped(name, "no [period], so every day counts")
    what = "impressions outside the period"
    share, message = share_of(aggregates, "impressions", "outside_period", what)
    if share is None:
        return skipped(name, message)
    most = experiment.trust.outside_period
    return Check(
        name=name,
        status="fail" if share > most else "pass",
        value=share,
        threshold=most,
        message=message,
        threshold_reason="a log may be longer than its experiment, but twice as long is rare: "
        "times or the period may be misread",
        remedy="are the times read as they are meant, and [period] right? If the log is that much "
        "longer, set [trust] outside_period = 1",
    )
