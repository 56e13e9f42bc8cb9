"""Check what was read: rows that are set aside, days, variants of units, files and names."""

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.experiment.problems import arms_of, joined_line, meant_by
from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import (
    CLICK_COLUMNS,
    Limits,
    Significance,
    Words,
    graded,
    skipped,
    touched,
)
from abeval.logs.accounting import other_variants
from abeval.results import Check
from abeval.results import format as fmt
from abeval.stats import means
from abeval.stats.distributions import tail
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

_WHAT = {
    "null_unit": "without a unit",
    "null_time": "without a time",
    "null_variant": "without a variant",
    "no_impression": "without their impression",
    "late": "later than the attribution window",
    "ambiguous_impression": "that fit several impressions",
}

_REMEDIES = {
    "duplicate": "look for events sent or loaded twice; cleaning.duplicate_key says what is equal",
    "null_unit": "look for people who are not signed in, and at the join that adds the id",
    "null_time": "look at the format of the times (`ts_format`) and at clients that send none",
    "null_variant": "look for events logged before the assignment, or by services that lack it",
    "repeated_unit": "make one row of each unit, or analyse the rows as a log of impressions",
    "no_impression": "look for impressions lost on their way, and at the key of the join",
    "late": "look at the clocks and at the attribution window ([logs.clicks])",
    "ambiguous_impression": "give clicks the id of their impression",
}


def row_checks(analysis: Analysis) -> list[Check]:
    """The shares of rows that were left out."""
    log = analysis.experiment.logs.rows_name
    rows = [_duplicates(analysis, log), _share(analysis, log, "null_unit")]
    if analysis.experiment.of_units:
        return [
            *rows,
            _share(analysis, log, "null_variant"),
            _share(analysis, log, "repeated_unit", "rows of units in several rows"),
        ]
    return [
        *rows,
        _share(analysis, log, "null_time"),
        _share(analysis, log, "null_variant"),
        *(
            _share(analysis, "clicks", reason)
            for reason in ("no_impression", "late", "ambiguous_impression")
        ),
    ]


def _duplicates(analysis: Analysis, log: str) -> Check:
    """The share of rows that repeat another, where they were looked for."""
    if "duplicates" in analysis.aggregates.facts:
        return _share(analysis, log, "duplicate", f"duplicate {log}")
    why = "rows have no id, so equal rows may be different people"
    if analysis.experiment.cleaning.duplicates == "unchecked":
        why = 'cleaning.duplicates is "unchecked"'
    return skipped(f"{log}_duplicate", f"duplicates were not looked for: {why}")


def _share(analysis: Analysis, log: str, reason: str, what: str = "") -> Check:
    """The share of a log's rows that was left out for one reason; lost clicks touch few metrics."""
    name, options = f"{log}_{reason}", analysis.experiment.trust
    share, message = share_of(
        analysis.aggregates, log, reason, what or f"{log} {_WHAT.get(reason, reason)}"
    )
    if share is None:
        return skipped(name, message)
    limits = Limits(
        options.rows_warn,
        options.rows_fail,
        "so many rows can hide or make an effect of the size that most experiments look for, if "
        "they are not alike in all variants",
    )
    metrics = touched(analysis.metrics, CLICK_COLUMNS) if log == "clicks" else None
    return graded(name, share, limits, Words(message, message, _REMEDIES[reason]), metrics)


def share_of(aggregates: Aggregates, log: str, reason: str, what: str) -> tuple[float | None, str]:
    """The share of a log's rows left out for a reason, and in words; None without the log."""
    rows = [one for one in aggregates.accounts if one.log == log]
    read = sum(one.rows for one in rows)
    if read == 0:
        return None, f"there is no {log} log"
    count = sum(one.rows for one in rows if one.reason == reason)
    share = count / read
    return share, f"{count:,} of {read:,} {what} set aside ({share:.2%})"


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


def crossover(experiment: Experiment, aggregates: Aggregates) -> Check:
    """The share of units seen in more than one variant, and what became of them."""
    if "crossovers" not in aggregates.facts:
        return skipped("crossover", "sums do not say which units were in several variants")
    units, crossovers = aggregates.facts["units"], aggregates.facts["crossovers"]
    share = crossovers / units if units else 0.0
    policy = {
        "first": "they stay with the first variant seen",
        "exclude": "they are excluded",
        "as_assigned": "they are analysed as assigned",
    }[experiment.cleaning.crossover]
    message = f"{crossovers:,} of {units:,} units were seen in more than one variant; {policy}"
    message += _ties(experiment, aggregates)
    weights = {variant.weight for variant in experiment.variants.values()}
    excluded = experiment.cleaning.crossover == "exclude" or aggregates.facts["tied_out"]
    if crossovers and excluded and len(weights) > 1:
        message += "; excluding them biases an uneven split"
    limits = Limits(
        experiment.trust.crossover_warn,
        experiment.trust.crossover_fail,
        "each such unit has seen both variants, so that the effect is shrunk by about this share",
    )
    remedy = (
        "look for ids that people share or lose (devices, cookies), for variants dealt out anew "
        "while the experiment ran, and compare cleaning.crossover"
    )
    return graded("crossover", share, limits, Words(message, message, remedy))


def _ties(experiment: Experiment, aggregates: Aggregates) -> str:
    """What was done with units whose first variant the log does not tell."""
    tied, out = aggregates.facts["tied"], aggregates.facts["tied_out"]
    if not tied or experiment.cleaning.crossover == "exclude":
        return ""
    done = {0: "placed by hash", tied: "excluded"}.get(out, f"placed by hash, {out:,} excluded")
    return f", but {tied:,} have no first one (its time is equal or missing) and are {done}"


def assignment(experiment: Experiment, aggregates: Aggregates) -> Check:
    """Whether the log's variants are those that the experiment's own rule gives."""
    name = "assignment"
    if experiment.assignment_rule is None:
        which = "one rule in [assignment] for all units" if experiment.schedule else "[assignment]"
        return skipped(name, f"no {which}, so logged variants cannot be computed again")
    if "assigned" not in aggregates.facts:
        return skipped(name, "sums do not say which unit was in which variant")
    units = aggregates.facts["assigned"]
    if units == 0:
        message = "the log names no variants: they are computed by [assignment]"
        return skipped(name, message)
    reassigned = aggregates.facts["reassigned"]
    share = reassigned / units
    message = f"{reassigned:,} of {units:,} units are in another variant than [assignment] gives"
    limits = Limits(
        experiment.trust.assignment_warn,
        experiment.trust.assignment_fail,
        "a right rule gives every unit's variant; overrides and testers are a few in a thousand",
    )
    remedy = "`abeval audit` says which units, and since when"
    words = Words(message, f"{message} ({share:.2%}): {remedy}")
    return graded(name, share, limits, words)


_MOVES = 0.005


class _Policy(NamedTuple):
    """Units by variant, as a policy counts them."""

    name: str
    units: Mapping[str, int]


def policy_check(analysis: Analysis) -> Check:
    """Whether the choice of a policy moves the split between the variants."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    name = "crossover_policies"
    if "crossovers" not in aggregates.facts:
        return skipped(name, "sums do not say where units were seen")
    if not aggregates.facts["crossovers"]:
        return skipped(name, "no unit was seen in several variants, so all policies are the same")
    if not aggregates.seen_in:
        return skipped(name, "sums do not say where units were seen")
    policies = [
        _Policy(which, {variant: units.get(variant, 0) for variant in experiment.variants})
        for which, units in _counted(aggregates).items()
        if units
    ]
    shares = [one.units[experiment.control] / max(sum(one.units.values()), 1) for one in policies]
    listed = "; ".join(
        f"{one.name}: " + ", ".join(f"{variant} {n:,}" for variant, n in one.units.items())
        for one in policies
    )
    message = f"units under each policy: {listed}"
    words = Words(
        message,
        f"{message}; the policies do not split alike",
        "prefer the policy whose split is the planned one, and look for why units change variant",
    )
    reason = "the share of control under one policy against that under another"
    limits = Limits(_MOVES, None, reason)
    return graded(name, max(shares) - min(shares), limits, words)


def _counted(aggregates: Aggregates) -> dict[str, dict[str, int]]:
    """Policy → variant → units."""
    counted: dict[str, dict[str, int]] = {"first": {}, "exclude": {}, "as_assigned": {}}
    for low, high, first, expected, units in aggregates.seen_in:
        single = low == high
        for policy, variant in (
            ("first", low if single else first),
            ("exclude", low if single else None),
            ("as_assigned", expected),
        ):
            if variant is not None:
                own = counted[policy]
                own[variant] = own.get(variant, 0) + units
    return counted


def lacking_checks(analysis: Analysis) -> list[Significance]:
    """Do files that lack a column have another share of the impressions in some variant?"""
    experiment = analysis.experiment
    checks = []
    for column, moments in analysis.aggregates.lacking().items():
        by_variant = {name: moments.get(name) for name in experiment.variants}
        control = by_variant[experiment.control]
        p_values = [same_share(control, by_variant[variant]) for variant in experiment.treatments]
        p_value = min(1.0, len(p_values) * min(p_values))
        shares = ", ".join(f"{name} {_shown_share(m)}" for name, m in by_variant.items())
        message = (
            f"some files lack the column {column!r}, with so many of the impressions: {shares} "
            f"(p = {p_value:.2g} if that is alike in all variants); the notes name the files"
        )
        remedy = "complete the files, or leave their days out of [period]"
        checks.append(
            Significance(
                f"lacking_column:{column}",
                p_value,
                Words(message, message, remedy),
                metrics=touched(analysis.metrics, _canonical(analysis, column)),
                least="warn",
            )
        )
    return checks


def _canonical(analysis: Analysis, column: str) -> set[str]:
    """The names that metrics have for a column of the log: its own, and the canonical one."""
    experiment = analysis.experiment
    own = {"unit_id": experiment.unit, **experiment.logs.rows.columns}
    lower = column.lower()
    return {lower} | {name for name, text in own.items() if text.lower() == lower}


def _shown_share(moments: Moments | None) -> str:
    if moments is None or not moments.mean[1]:
        return "no impressions"
    return f"{moments.mean[0] / moments.mean[1]:.1%}"


def same_share(control: Moments | None, treatment: Moments | None) -> float:
    """Two-sided p-value of equal shares, clustered by unit; 0 for shares that differ for sure."""
    if control is None or treatment is None:
        return 1.0
    try:
        first, second = means.estimate(control), means.estimate(treatment)
    except Refusal:
        return 1.0
    difference, variance = second.value - first.value, first.variance + second.variance
    if variance == 0:
        return 1.0 if difference == 0 else 0.0
    return tail(difference / math.sqrt(variance)).p_value


NAME = "variant_spelling"


def spelling_checks(analysis: Analysis) -> list[Check]:
    """One check where rows name a variant in another spelling, none where no row does."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    meant = {
        name: (own, rows)
        for name, rows in other_variants(aggregates.facts).items()
        if (own := meant_by(name, experiment.variants)) is not None and rows
    }
    if not meant:
        return []
    log = experiment.logs.rows_name
    read = sum(one.rows for one in aggregates.accounts if one.log == log)
    lost = sum(rows for _, rows in meant.values())
    listed = fmt.listing([f"{name!r} ({rows:,})" for name, (_, rows) in meant.items()])
    message = (
        f"{lost:,} of {read:,} {log} set aside ({lost / read:.2%}), because their variant differs "
        f"from one of the file in capitals or spaces: {listed}"
    )
    joined = arms_of(experiment.variants)
    for name, (own, _) in meant.items():
        joined[own].append(name)
    lines = [joined_line(own, joined[own]) for own in dict.fromkeys(o for o, _ in meant.values())]
    words = Words(message, message, f"if they are the same variants, write {fmt.listing(lines)}")
    reason = "another spelling of a variant is hardly another variant"
    return [graded(NAME, lost / read, Limits(0.0, experiment.trust.rows_fail, reason), words)]
