"""Check exposures and outcome logs.

The checks look for units without an exposure, rows from before an exposure, duplicate rows, and
rows for each state of an order. Units that were not exposed must not differ between variants, and
rows from before an exposure should be no matter of clocks.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import replace

from abeval.aggregates.sums import NEVER_EXPOSED, UNEXPOSED, MomentsByPeriod, pool_moments
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Comparison, Key, adjust_p_values
from abeval.inference.trust.finding import RawCheck, TrustCheck, find_smallest, reads_log
from abeval.inference.trust.groups import compare_treatments, define_share
from abeval.inference.trust.rows import count_period_rows
from abeval.logs.checks import USED
from abeval.metrics.definition import list_row_values
from abeval.results import format as fmt
from abeval.stats.moments import Moments

_SHARE = "share of units not exposed"


@TrustCheck(
    "untriggered",
    absent=(
        "the logs show no unit that was never exposed, or not the variant of at least 99 % of them"
    ),
    calm="{units:,} units that were never exposed show no difference between variants",
    alarm="units that were never exposed differ between variants: {listed}",
    remedy=(
        "look at what decides an exposure: it must be the same in every variant, and the treatment "
        "must not reach other units; until then analyze without [logs.exposures]"
    ),
)
def untriggered(analysis: Analysis) -> RawCheck | None:
    """Test whether never exposed units are as many, and alike, in all variants.

    Source: Deng & Hu (2015); Fabijan et al. (2019), Diagnosing sample ratio mismatch.
    """
    comparisons, units = _compare_never_exposed(analysis)
    p_values = adjust_p_values(comparisons)
    if not p_values:
        return None
    # A metric without a value among these units has no p-value.
    listed = [
        f"{name} of {variant} {comparisons[name, variant].treatment:.4g} against "
        f"{comparisons[name, variant].control:.4g} (p = {p_values[name, variant]:.2g})"
        for name, variant in find_smallest(p_values)
    ]
    slots = {"units": units, "listed": fmt.join_items(listed)}
    return RawCheck(min(p_values.values()), slots=slots)


def _compare_never_exposed(analysis: Analysis) -> tuple[dict[Key, Comparison], int]:
    """Compare the metrics of never exposed units, and their share of all units."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    comparisons, units = dict[Key, Comparison](), 0
    for metric in analysis.metrics:
        if NEVER_EXPOSED not in aggregates.cells(metric.name, UNEXPOSED):
            continue
        never = analysis.moments(metric, UNEXPOSED, NEVER_EXPOSED)
        plain = replace(metric, covariates=(), test=None)
        comparisons |= compare_treatments(experiment, plain, never)
        if not units:
            shares = _count_shares(analysis, never)
            comparisons |= compare_treatments(experiment, define_share(metric, _SHARE), shares)
            units = sum(of_variant.n for of_variant in pool_moments(never).values())
    return comparisons, units


def _count_shares(analysis: Analysis, never: MomentsByPeriod) -> MomentsByPeriod:
    """Make moments of being never exposed, by split period and variant.

    The moments are over the assigned units. Units that come late are exposed less often, and after
    a ramp more of them are treatment's.
    """
    aggregates, shares = analysis.aggregates, list[dict[str, Moments]]()
    exposed = [split_period.units for split_period in aggregates.split_periods]
    for by_variant, units in zip(never, exposed or [aggregates.units], strict=True):
        counts = {
            name: (by_variant[name].n if name in by_variant else 0, units.get(name, 0))
            for name in analysis.experiment.variants
        }
        shares.append({name: _share(*both) for name, both in counts.items() if any(both)})
    return shares


def _share(never: int, exposed: int) -> Moments:
    n = never + exposed
    return Moments.from_sums(n, [never, n], [[never, never], [never, n]], (1.0, 1.0))


@TrustCheck(
    "before_exposure",
    limits=("rows_warn", "rows_fail"),
    calm="{early:,} of {rows:,} rows of {log} come before the exposure of their unit ({share:.1%})",
    alarm=(
        "{early:,} of {rows:,} rows of {log} come before the exposure of their unit "
        "({share:.1%}), nearly all of them by up to {hours:g} hours: times {hours:g} hours later "
        "would mend that"
    ),
    states={
        "days": {
            "alarm": (
                "{early:,} of {rows:,} rows of {log} come before the exposure of their unit "
                "({share:.1%}): all their times are at {at}:00 UTC, so they are days of a zone, "
                "which begin before the exposures of the day"
            ),
            "reason": "times at one hour of the day are days",
            "remedy": (
                'write them as days: [logs.events.{log}] query = "select * replace '
                '(cast(ts {shift} hours as date) as ts) from log"'
            ),
        },
    },
    reason="rows before an exposure fill whole hours, as if from a clock in another zone",
    remedy=(
        "say in which zone times are that have none: `ts_zone` of [logs.events.{log}]{such} if "
        "they are local and {hours:g} hours behind UTC, or of the exposures"
    ),
)
def before_exposure(analysis: Analysis) -> list[RawCheck]:
    """Report outcome rows before exposure that a clock shift would explain."""
    findings = []
    for log, counts, metrics in _list_outcomes(analysis):
        early, used = counts.get("before_exposure", 0), counts.get(USED, 0)
        if not early + used:
            continue
        clock, share = analysis.aggregates.clocks.get(log), early / (early + used)
        hours = 0.0 if clock is None else clock.hours_behind
        such = f', such as "Etc/GMT+{hours:g}",' if hours % 1 == 0 else ""
        slots = {"log": log, "early": early, "rows": early + used, "share": share}
        slots |= {"hours": hours, "such": such}
        name, state = f"before_exposure:{log}", ""
        if clock is not None and (at := clock.of_day) is not None:
            # Of zones east of Greenwich a day begins in the evening before.
            shift = f"+ interval {24 - at}" if at >= 10 else f"- interval {at}"
            slots |= {"at": at, "shift": shift}
            hours, state = 24, "days"
        value = share if hours else 0.0
        findings.append(RawCheck(value, metrics=metrics, name=name, slots=slots, state=state))
    return findings


def _list_outcomes(analysis: Analysis) -> Iterator[tuple[str, dict[str, int], tuple[str, ...]]]:
    """List each outcome log, its rows by reason, and the metrics that read the log."""
    for log in analysis.experiment.logs.events:
        counts = {c.reason: c.rows for c in analysis.aggregates.row_counts if c.log == log}
        yield log, counts, tuple(m.name for m in analysis.metrics if reads_log(m, log))


@TrustCheck(
    "before_exposure:impressions",
    limits=("rows_warn",),
    calm="{near:,} of {rows:,} impressions are just before their unit's exposure ({share:.1%})",
    alarm=(
        "{near:,} of {rows:,} impressions are set aside ({share:.1%}) because they are just before "
        "their unit's exposure (by {distance} seconds in the median), nearer to it than any after "
        "it{grain}"
    ),
    reason="an exposure has the time of what is shown then; five minutes or less count as just",
    remedy=(
        "if the exposure is of these impressions, its clock, grain or queue is late: write such as "
        '[logs.exposures] query = "select * replace (ts - interval {back} seconds as ts) from '
        'log"; if it is logged at a click, log it when the list is shown: a treatment changes '
        "who clicks"
    ),
)
def near_exposure(analysis: Analysis) -> list[RawCheck]:
    """Report set-aside impressions that are just before their unit's exposure."""
    near_rows = analysis.aggregates.near_rows
    if near_rows is None:
        return []
    rows, near = count_period_rows(analysis), near_rows.rows
    seconds, grain = near_rows.ms / 1_000, near_rows.grain
    back = grain or max(1, math.ceil(2 * seconds))
    distance = f"{seconds:.1f}" if seconds < 10 else f"{seconds:.0f}"
    written = f"; exposures are written to {_GRAINS[grain]}" if grain else ""
    slots = {"near": near, "rows": rows, "share": near / rows, "back": back}
    return [RawCheck(near / rows, slots={**slots, "distance": distance, "grain": written})]


_GRAINS = {1: "the second", 60: "the minute", 3_600: "the hour"}


@TrustCheck(
    "outcome_duplicates",
    limits=("rows_warn", 1.0),
    calm="{copies:,} of {rows:,} rows of {log} are equal to another, and count once ({share:.1%})",
    reason=(
        "rows that were sent twice should count once, but two equal orders, or lines of one order, "
        "should count twice"
    ),
    remedy=(
        'if rows of {log} may be equal, [cleaning] duplicates = "keep", or give them a column that '
        "tells them apart, such as the line of an order"
    ),
)
def outcome_duplicates(analysis: Analysis) -> list[RawCheck]:
    """Report the share of rows of outcome logs that repeat another."""
    findings = []
    for log, counts, metrics in _list_outcomes(analysis):
        copies, rows = counts.get("duplicate", 0), sum(counts.values())
        if rows:
            slots = {"log": log, "copies": copies, "rows": rows, "share": copies / rows}
            name = f"outcome_duplicates:{log}"
            findings.append(RawCheck(copies / rows, metrics=metrics, name=name, slots=slots))
    return findings


@TrustCheck(
    "outcome_states",
    limits=("rows_warn",),
    calm=(
        "{several:,} of {rows:,} rows of {log} ({share:.1%}) are of orders with several values of "
        "{state}, and each row counts"
    ),
    reason="of states of one order, one should count; its lines have one state",
    remedy=(
        "if rows are states, count one: [logs.events.{log}] where = \"{state} = '…'\", or this "
        "`where` in the metrics"
    ),
)
def outcome_states(analysis: Analysis) -> list[RawCheck]:
    """Report outcome logs with a row for each state of an order.

    Each finding names the metrics that count all these rows.
    """
    findings = list[RawCheck]()
    for log, state, several, rows in analysis.aggregates.order_states:
        # What names the state, in a `where` or a step of a funnel, counts those that it means.
        metrics = tuple(
            metric.name
            for metric in analysis.metrics
            if (read := [value.expression for value in list_row_values(metric) if value.log == log])
            and not all(re.search(rf"(?i)\b{re.escape(state)}\b", text) for text in read)
        )
        if metrics:
            share, name = several / rows, f"outcome_states:{log}"
            slots = {"log": log, "state": state, "several": several, "rows": rows, "share": share}
            findings.append(RawCheck(share, metrics=metrics, name=name, slots=slots))
    return findings
