"""Check what was read: rows set aside, days, crossovers, variant names."""

import json
from collections.abc import Sequence
from datetime import date, timedelta
from functools import partial
from typing import Literal

from abeval.experiment.model import Experiment
from abeval.experiment.problems import find_meant_variant, list_arms, write_join_line
from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import (
    CLICK_COLUMNS,
    Limits,
    RawCheck,
    TrustCheck,
    skip_check,
)
from abeval.logs.checks import USED_BEFORE
from abeval.results import format as fmt
from abeval.results.trust import CheckStatus

# If chance would mix this many ids and they are not mixed, whole ids were randomised.
_PLAIN = 20

_TWO_WEEKS = 14


def _set_aside(analysis: Analysis, log: str, reason: str, what: str) -> RawCheck:
    """Report the share of a log's rows set aside; skipped without the log."""
    rows = [row_count for row_count in analysis.aggregates.row_counts if row_count.log == log]
    read = sum(row_count.rows for row_count in rows)
    if read == 0:
        return skip_check(f"there is no {log} log")
    count = sum(row_count.rows for row_count in rows if row_count.reason == reason)
    return RawCheck(count / read, f"{count:,} of {read:,} {what} set aside ({count / read:.2%})")


def count_period_rows(analysis: Analysis) -> int:
    """Count the rows that were read, but those of before and outside of the period."""
    log, other_days = analysis.experiment.logs.rows_name, (USED_BEFORE, "outside_period")
    counts = analysis.aggregates.row_counts
    return sum(c.rows for c in counts if c.log == log and c.reason not in other_days)


def _report_rows_set_aside(analysis: Analysis, log_key: str, reason: str, what: str) -> RawCheck:
    """Report the share of rows set aside for one reason."""
    log = analysis.experiment.logs.rows_name if log_key == "LOG" else log_key
    name = f"{log}_duplicate" if reason == "duplicate" else f"{log}_set_aside"
    if reason == "duplicate" and "duplicates" not in analysis.aggregates.facts:
        why, remedy = _explain_unknown_duplicates(analysis.experiment)
        return skip_check(f"duplicates were not looked for: {why}", name, remedy)
    finding = _set_aside(analysis, log, reason, what.format("rows" if log == "units" else log))
    unknown = analysis.aggregates.facts.get("unidentified", 0) if reason == "duplicate" else 0
    also = f"; {unknown:,} have no impression_id, so nobody knows whether they are there twice"
    return finding._replace(name=name, calm=finding.calm + also * (unknown > 0))


def _explain_unknown_duplicates(experiment: Experiment) -> tuple[str, str]:
    """Say why duplicates were not looked for, and what to do."""
    if experiment.cleaning.duplicates == "unchecked":
        return 'cleaning.duplicates is "unchecked"', 'make it "drop"'
    if experiment.is_unit_table:
        return "rows have no id, so equal rows may be different people", ""
    return "rows have no id, or no time to the second, that tells equal ones apart", ""


def _declare_set_aside(
    reason: str,
    what: str,
    *,
    remedy: str,
    log: str = "LOG",
    of: Literal["log", "units", "both"] = "log",
) -> TrustCheck:
    """Declare the check of a log's rows that are set aside for one reason."""
    return TrustCheck(
        f"{log}_{reason}",
        partial(_report_rows_set_aside, log_key=log, reason=reason, what=what),
        check="" if reason == "duplicate" else f"{log}_set_aside",
        of=of,
        limits=("rows_warn", "rows_fail"),
        columns=CLICK_COLUMNS if log == "clicks" else (),
        reason="if they differ between variants, so many rows can hide or make an effect of the "
        "size that most experiments look for",
        remedy=remedy,
    )


SET_ASIDE = (
    _declare_set_aside(
        "duplicate",
        "duplicate {}",
        of="both",
        remedy="look for rows sent or loaded twice; [cleaning] duplicate_key says what is equal",
    ),
    _declare_set_aside(
        "null_unit",
        "{} without a unit",
        of="both",
        remedy="look for people who are not signed in, and at the join that adds the id",
    ),
    _declare_set_aside(
        "null_time",
        "{} without a time",
        remedy="look at the format of the times (`ts_format`) and at clients that send none",
    ),
    _declare_set_aside(
        "null_variant",
        "{} without a variant",
        of="both",
        remedy="look for events logged before the assignment, or by services that lack it",
    ),
    _declare_set_aside(
        "repeated_unit",
        "rows of units that have several",
        of="units",
        remedy="make one row of each unit, or analyse the rows as a log of impressions",
    ),
    _declare_set_aside(
        "no_impression",
        "{} without their impression",
        log="clicks",
        remedy=(
            "check for lost impressions, and whether the join key is right; clicks written to the "
            "minute or the day need an id of their impression"
        ),
    ),
    _declare_set_aside(
        "late",
        "{} later than the attribution window",
        log="clicks",
        remedy="look at the clocks and at the attribution window ([logs.clicks])",
    ),
    _declare_set_aside(
        "ambiguous_impression",
        "{} that fit several impressions",
        log="clicks",
        remedy="give clicks the id of their impression",
    ),
)
"""Rows set aside, by log and reason; `LOG` stands for the log of the rows."""


@TrustCheck(
    "missing_days",
    calm="an impression on each of {days}",
    alarm="no impression on {missing} of {days}: {listed}",
    reason=(
        "with more than {share:.0%} of the days missing up to the last one with an impression "
        "([trust] missing_days), times are probably misread"
    ),
    remedy=(
        "look for files that are missing or late, and whether the times of the log are read as "
        "they are meant"
    ),
)
def missing_days(analysis: Analysis) -> RawCheck:
    """Find days without impressions, up to the last day that has any."""
    experiment, days = analysis.experiment, [day_rows.day for day_rows in analysis.aggregates.days]
    if not days:
        why = "the log has no timestamps, so days cannot be checked"
        return skip_check(why, remedy="map its time as `ts`, if it has one")
    planned = list_expected_days(experiment, days)
    expected = [day for day in planned if day <= days[-1]]
    missing = [day for day in expected if day not in set(days)]
    # A weekday without rows in each of several weeks is one on which nobody is served.
    if len(expected) > _TWO_WEEKS:
        served = {date.fromisoformat(day).weekday() for day in days}
        missing = [day for day in missing if date.fromisoformat(day).weekday() in served]
    so_far = f" so far (of {len(planned)})" if planned[-1] > days[-1] else ""
    text = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
    days_of, share = f"{len(expected)} days{so_far}", experiment.trust.missing_days
    return RawCheck(
        float(len(missing)),
        limits=Limits(0.0, share * len(expected), beyond=True),
        slots={"days": days_of, "missing": len(missing), "listed": text, "share": share},
    )


def list_expected_days(experiment: Experiment, days: Sequence[str]) -> list[str]:
    """List the days of the period; without one, those that the log spans."""
    first, last = date.fromisoformat(days[0]), date.fromisoformat(days[-1])
    if experiment.period is not None:
        start, end = experiment.period.bounds
        first, last = start.date(), (end - timedelta(microseconds=1)).date()
    return [str(first + timedelta(days=i)) for i in range((last - first).days + 1)]


@TrustCheck(
    "impressions_outside_period",
    absent="no [period], so every day counts; or rows of other days were not read",
    calm="{count:,} of {read:,} impressions outside the period set aside ({share:.2%})",
    reason=(
        "a log may be longer than its experiment, but twice as long is rare: times or the period "
        "may be misread"
    ),
    remedy=(
        "are the times read as they are meant, and [period] right? If the log is that much "
        "longer, set [trust] outside_period = 1"
    ),
)
def outside_period(analysis: Analysis) -> RawCheck | None:
    """Report the share of impressions outside all periods."""
    experiment = analysis.experiment
    if experiment.period is None or analysis.aggregates.facts.get("limited"):
        return None
    what = "impressions outside the period"
    finding = _set_aside(analysis, "impressions", "outside_period", what)
    return finding._replace(limits=Limits(None, experiment.trust.outside_period, beyond=True))


@TrustCheck(
    "crossover",
    of="both",
    limits=("crossover_warn", "crossover_fail"),
    absent="sums do not say which units were in several variants",
    calm="{crossovers:,} of {units:,} units were seen in more than one variant; {done}",
    reason=(
        "each such unit has seen both variants, so that the effect is shrunk by about this share"
    ),
    remedy=(
        "look for ids that people share or lose (devices, cookies), for variants dealt out anew "
        "while the experiment ran, and compare [cleaning] crossover"
    ),
    states={
        "slots": {
            "limits": (1.0, 1.0),
            "calm": (
                "{mixed:,} of {slots:,} slots show both variants of their cluster outside of the "
                "burn-in{named}"
            ),
            "reason": (
                "a cluster has one variant in a slot; a slot with both is set aside, but the "
                "schedule is not as planned"
            ),
            "remedy": (
                "look whether slots begin when [period] does, in the time zone of the file, and "
                "how fast variants switch: a longer `burn_in` covers a delay"
            ),
        },
    },
)
def crossover(analysis: Analysis) -> RawCheck | None:
    """Report the share of crossover units, and how they were handled."""
    experiment, facts = analysis.experiment, analysis.aggregates.facts
    if (found := analysis.aggregates.mixed_slots) is not None:
        such_as = f", such as {fmt.join_items(found.examples)}" if found.examples else ""
        counts = {"mixed": found.mixed, "slots": found.slots, "named": such_as}
        return RawCheck(float(found.mixed), slots=counts, state="slots")
    if "crossovers" not in facts:
        return None
    policy = experiment.cleaning.crossover
    units, crossovers, tied, out = (facts[k] for k in ("units", "crossovers", "tied", "tied_out"))
    done = {
        "first": "they stay with the first variant seen",
        "exclude": "they are excluded",
        "as_assigned": "they are analysed as assigned",
    }[policy]
    if tied and policy != "exclude":
        how = {0: "placed by hash", tied: "excluded"}.get(out, f"placed by hash, {out:,} excluded")
        done += f", but {tied:,} have no first one (its time is equal or missing) and are {how}"
    weights = {variant.weight for variant in experiment.variants.values()}
    if crossovers and (policy == "exclude" or out) and len(weights) > 1:
        done += "; excluding them biases an uneven split"
    slots = {"crossovers": crossovers, "units": units, "done": done}
    return RawCheck(crossovers / units if units else 0.0, slots=slots)


@TrustCheck(
    "placeholder_ids",
    limits=("rows_warn", "rows_fail"),
    calm=(
        "{rows:,} of {read:,} impressions ({share:.1%}) are of {listed}: one id for many, which is "
        "analysed as one single {unit}"
    ),
    reason="rows of many units in one variant can hide or make an effect",
    remedy=(
        "leave them out ([logs.impressions] where = {where}), or name as `unit` an id that these "
        "rows have too, such as that of a cookie"
    ),
)
def placeholder_ids(analysis: Analysis) -> list[RawCheck]:
    """Report the share of rows whose id, such as `anonymous`, stands for nobody."""
    unit, counts = analysis.experiment.unit, analysis.aggregates.placeholders
    if not counts:
        return []
    rows, read = sum(counts.values()), count_period_rows(analysis)
    slots: dict[str, object] = {"rows": rows, "read": read, "share": rows / read, "unit": unit}
    column = analysis.experiment.logs.rows.columns.get("unit_id", unit)
    ids = [f"'{name}'" for name in counts]
    slots["listed"] = fmt.join_items([f"{column} = {name}" for name in ids])
    name = column if column.isidentifier() else f'"{column}"'
    # Texts of TOML and of JSON are written alike.
    slots["where"] = json.dumps(f"{name} not in ({', '.join(ids)})", ensure_ascii=False)
    return [RawCheck(rows / read, slots=slots)]


@TrustCheck(
    "coarser_unit",
    of="both",
    calm=(
        "{mixed:,} of {several:,} {column} with more than one {unit} are in several variants (by "
        "chance {expected:,})"
    ),
    alarm=(
        "{mixed:,} of {several:,} {column} with more than one {unit} are in several variants, "
        "where chance makes {expected:,}: {column} was randomised, it seems, so intervals by "
        "{unit} are too narrow"
    ),
    reason="an id that was randomised has one variant",
    remedy='say what was randomised: unit = "{column}"',
)
def coarser_unit(analysis: Analysis) -> list[RawCheck]:
    """Find coarser ids that seem to be the real unit of randomisation."""
    findings = list[RawCheck]()
    for ids in analysis.aggregates.coarser_ids:
        is_one = ids.expected >= _PLAIN and 10 * ids.mixed <= ids.expected
        slots = {"unit": analysis.experiment.unit, **ids._asdict()}
        name, share = f"coarser_unit:{ids.column}", ids.mixed / ids.several
        # Of a table nobody said that its rows are the units.
        found: CheckStatus = "fail" if analysis.experiment.is_unit_table else "warn"
        least = found if is_one else "pass"
        findings.append(
            RawCheck(share, limits=Limits(None, None), least=least, name=name, slots=slots)
        )
        if is_one:
            # The coarsest comes first: finer ones have one variant each because it has.
            break
    return findings


@TrustCheck(
    "assignment",
    of="both",
    limits=("assignment_warn", "assignment_fail"),
    absent="sums do not say which unit was in which variant",
    calm="{changed:,} of {units:,} units are in another variant than [assignment] gives",
    alarm=(
        "{changed:,} of {units:,} units are in another variant than [assignment] gives "
        "({share:.2%}): `abeval audit` says which units, and since when"
    ),
    reason="a right rule gives every unit's variant; overrides and testers are a few in a thousand",
)
def assignment(analysis: Analysis) -> RawCheck | None:
    """Compare logged variants with those of the assignment rule."""
    experiment, facts = analysis.experiment, analysis.aggregates.facts
    if experiment.assignment_rule is None:
        which = "one rule in [assignment] for all units" if experiment.schedule else "[assignment]"
        asks = not experiment.is_unit_table and experiment.design is None
        remedy = "write the rule that assigned units as [assignment]" if asks else ""
        return skip_check(f"no {which}, so logged variants cannot be computed again", remedy=remedy)
    if "assigned" not in facts:
        return None
    units, changed = facts["assigned"], facts["reassigned"]
    if units == 0:
        return skip_check("the log names no variants: they are computed by [assignment]")
    share = changed / units
    return RawCheck(share, slots={"changed": changed, "units": units, "share": share})


@TrustCheck(
    "variant_spelling",
    of="both",
    limits=(0.0, "rows_fail"),
    calm=(
        "{lost:,} of {read:,} {log} set aside ({share:.2%}), because their variant differs from "
        "one of the file in capitals or spaces: {listed}"
    ),
    reason="another spelling of a variant is hardly another variant",
    remedy="if they are the same variants, write {lines}",
)
def variant_spelling(analysis: Analysis) -> list[RawCheck]:
    """Report rows of variants that the file spells differently."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    meant = {
        name: (variant, rows)
        for name, rows in aggregates.other_variants.items()
        if (variant := find_meant_variant(name, experiment.variants)) is not None and rows
    }
    if not meant:
        return []
    log = experiment.logs.rows_name
    read = sum(row_count.rows for row_count in aggregates.row_counts if row_count.log == log)
    lost = sum(rows for _, rows in meant.values())
    text = fmt.join_items([f"{name!r} ({rows:,})" for name, (_, rows) in meant.items()])
    joined = list_arms(experiment.variants)
    for name, (variant, _) in meant.items():
        joined[variant].append(name)
    lines = [
        write_join_line(variant, joined[variant])
        for variant in dict.fromkeys(o for o, _ in meant.values())
    ]
    slots = {"lost": lost, "read": read, "share": lost / read, "log": log, "listed": text}
    return [RawCheck(lost / read, slots={**slots, "lines": fmt.join_items(lines)})]
