"""Check what was read: rows that are set aside, days, variants of units, files and names."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, timedelta

from abeval.experiment.model import Experiment
from abeval.experiment.problems import arms_of, joined_line, meant_by
from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import CLICK_COLUMNS, Finding, Limits, skipped, touched
from abeval.logs.accounting import other_variants
from abeval.results import format as fmt
from abeval.stats import means
from abeval.stats.distributions import two_sided
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

_POLICIES_DIFFER = 0.005

_WHAT = {
    "duplicate": "duplicate {}",
    "null_unit": "{} without a unit",
    "null_time": "{} without a time",
    "null_variant": "{} without a variant",
    "repeated_unit": "rows of units in several rows",
    "no_impression": "{} without their impression",
    "late": "{} later than the attribution window",
    "ambiguous_impression": "{} that fit several impressions",
}

_REMEDIES = {
    "duplicate": "look for rows sent or loaded twice; [cleaning] duplicate_key says what is equal",
    "null_unit": "look for people who are not signed in, and at the join that adds the id",
    "null_time": "look at the format of the times (`ts_format`) and at clients that send none",
    "null_variant": "look for events logged before the assignment, or by services that lack it",
    "repeated_unit": "make one row of each unit, or analyse the rows as a log of impressions",
    "no_impression": "check for lost impressions, and whether the join key is right",
    "late": "look at the clocks and at the attribution window ([logs.clicks])",
    "ambiguous_impression": "give clicks the id of their impression",
}


def _set_aside(analysis: Analysis, log: str, reason: str, what: str) -> Finding:
    """Return the share of a log's rows left out, and say it in words; skipped without the log."""
    rows = [one for one in analysis.aggregates.accounts if one.log == log]
    read = sum(one.rows for one in rows)
    if read == 0:
        return skipped(f"there is no {log} log")
    count = sum(one.rows for one in rows if one.reason == reason)
    return Finding(count / read, f"{count:,} of {read:,} {what} set aside ({count / read:.2%})")


def left_out(reason: str, log: str = "") -> Callable[[Analysis], Finding]:
    """Return the check of a log's rows that are left out for one reason.

    The log is `clicks`, whose rows touch few metrics; without it the rows of units or impressions.
    """

    def find(analysis: Analysis) -> Finding:
        options = analysis.experiment.trust
        of = log or analysis.experiment.logs.rows_name
        rows = "rows" if of == "units" else of
        found = _set_aside(analysis, of, reason, _WHAT[reason].format(rows))
        found = found._replace(name=f"{of}_{reason}")
        if found.value is None:
            return found
        return found._replace(
            limits=Limits(options.rows_warn, options.rows_fail),
            metrics=touched(analysis.metrics, CLICK_COLUMNS) if log == "clicks" else None,
            reason="so many rows can hide or make an effect of the size that most experiments look "
            "for, if they are not alike in all variants",
            remedy=_REMEDIES[reason],
        )

    return find


def duplicates(analysis: Analysis) -> Finding:
    """Tell the share of rows that repeat another, where they were looked for."""
    if "duplicates" in analysis.aggregates.facts:
        found = left_out("duplicate")(analysis)
        unknown = analysis.aggregates.facts.get("unidentified", 0)
        also = f"; {unknown:,} have no impression_id, so nobody knows whether these are twice there"
        return found._replace(calm=f"{found.calm}{also}") if unknown else found
    why, remedy = "rows have no id, so equal rows may be different people", ""
    if analysis.experiment.cleaning.duplicates == "unchecked":
        why, remedy = 'cleaning.duplicates is "unchecked"', 'make it "drop"'
    name = f"{analysis.experiment.logs.rows_name}_duplicate"
    return skipped(f"duplicates were not looked for: {why}", name, remedy)


def missing_days(analysis: Analysis) -> Finding:
    """Find days without an impression, up to the last with any: later ones may be yet to come."""
    experiment, days = analysis.experiment, [one.day for one in analysis.aggregates.days]
    if not days:
        why = "the log has no timestamps, so days cannot be checked"
        return skipped(why, remedy="map its time as `ts`, if it has one")
    planned = expected_days(experiment, days)
    expected = [day for day in planned if day <= days[-1]]
    missing = [day for day in expected if day not in set(days)]
    so_far = f" so far (of {len(planned)})" if planned[-1] > days[-1] else ""
    of = f"{len(expected)} days{so_far}"
    listed = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
    share = experiment.trust.missing_days
    return Finding(
        float(len(missing)),
        f"an impression on each of {of}",
        f"no impression on {len(missing)} of {of}: {listed}",
        Limits(0.0, share * len(expected), beyond=True),
        reason=f"with more than {share:.0%} of the days missing up to the last one with an "
        "impression ([trust] missing_days), times are probably misread",
        remedy="look for files that are missing or late, and whether the times of the log are "
        "read as they are meant",
    )


def expected_days(experiment: Experiment, days: Sequence[str]) -> list[str]:
    """Return the days of the period, or those from the first to the last one of the log."""
    first, last = date.fromisoformat(days[0]), date.fromisoformat(days[-1])
    if experiment.period is not None:
        start, end = experiment.period.bounds
        first, last = start.date(), (end - timedelta(microseconds=1)).date()
    return [str(first + timedelta(days=i)) for i in range((last - first).days + 1)]


def outside_period(analysis: Analysis) -> Finding:
    """Tell the share of impressions in neither period: most of them, if times are misread."""
    experiment = analysis.experiment
    if experiment.period is None:
        return skipped("no [period], so every day counts")
    what = "impressions outside the period"
    found = _set_aside(analysis, "impressions", "outside_period", what)
    if found.value is None:
        return found
    return found._replace(
        limits=Limits(None, experiment.trust.outside_period, beyond=True),
        reason="a log may be longer than its experiment, but twice as long is rare: times or the "
        "period may be misread",
        remedy="are the times read as they are meant, and [period] right? If the log is that much "
        "longer, set [trust] outside_period = 1",
    )


def crossover(analysis: Analysis) -> Finding:
    """Tell the share of units seen in more than one variant, and what became of them."""
    experiment, facts = analysis.experiment, analysis.aggregates.facts
    if "crossovers" not in facts:
        return skipped("sums do not say which units were in several variants")
    options, policy = experiment.trust, experiment.cleaning.crossover
    units, crossovers, tied, out = (facts[k] for k in ("units", "crossovers", "tied", "tied_out"))
    done = {
        "first": "they stay with the first variant seen",
        "exclude": "they are excluded",
        "as_assigned": "they are analysed as assigned",
    }
    message = f"{crossovers:,} of {units:,} units were seen in more than one variant; "
    message += done[policy]
    if tied and policy != "exclude":
        how = {0: "placed by hash", tied: "excluded"}.get(out, f"placed by hash, {out:,} excluded")
        message += f", but {tied:,} have no first one (its time is equal or missing) and are {how}"
    weights = {variant.weight for variant in experiment.variants.values()}
    if crossovers and (policy == "exclude" or out) and len(weights) > 1:
        message += "; excluding them biases an uneven split"
    return Finding(
        crossovers / units if units else 0.0,
        message,
        limits=Limits(options.crossover_warn, options.crossover_fail),
        reason="each such unit has seen both variants, so that the effect is shrunk by about this "
        "share",
        remedy="look for ids that people share or lose (devices, cookies), for variants dealt out "
        "anew while the experiment ran, and compare [cleaning] crossover",
    )


def crossover_policies(analysis: Analysis) -> Finding:
    """Compare how units of several variants split under each policy of `[cleaning] crossover`."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    if aggregates.facts.get("crossovers") == 0:
        return skipped("no unit was seen in several variants, so all policies are the same")
    if "crossovers" not in aggregates.facts or not aggregates.seen_in:
        return skipped("sums do not say where units were seen")
    policies = {name: Counter[str]() for name in ("first", "exclude", "as_assigned")}
    for low, high, first, expected, units in aggregates.seen_in:
        variants = (low, low, expected) if low == high else (first, None, expected)
        for counted, variant in zip(policies.values(), variants, strict=True):
            if variant is not None:
                counted[variant] += units
    split = {
        name: {variant: counted[variant] for variant in experiment.variants}
        for name, counted in policies.items()
        if counted
    }
    shares = [units[experiment.control] / max(sum(units.values()), 1) for units in split.values()]
    listed = (
        f"{name}: " + ", ".join(f"{variant} {n:,}" for variant, n in units.items())
        for name, units in split.items()
    )
    message = f"units under each policy: {'; '.join(listed)}"
    return Finding(
        max(shares) - min(shares),
        message,
        f"{message}; the policies do not split alike",
        Limits(_POLICIES_DIFFER, None),
        reason="the share of control under one policy against that under another",
        remedy="prefer the policy whose split is the planned one, and look for why units change "
        "variant",
    )


def assignment(analysis: Analysis) -> Finding:
    """Compare the log's variants with those that the experiment's own rule gives."""
    experiment, facts = analysis.experiment, analysis.aggregates.facts
    if experiment.assignment_rule is None:
        which = "one rule in [assignment] for all units" if experiment.schedule else "[assignment]"
        remedy = "" if experiment.of_units else "write the rule that assigned units as [assignment]"
        return skipped(f"no {which}, so logged variants cannot be computed again", remedy=remedy)
    if "assigned" not in facts:
        return skipped("sums do not say which unit was in which variant")
    units, reassigned = facts["assigned"], facts["reassigned"]
    if units == 0:
        return skipped("the log names no variants: they are computed by [assignment]")
    share, options = reassigned / units, experiment.trust
    message = f"{reassigned:,} of {units:,} units are in another variant than [assignment] gives"
    return Finding(
        share,
        message,
        f"{message} ({share:.2%}): `abeval audit` says which units, and since when",
        Limits(options.assignment_warn, options.assignment_fail),
        reason="a right rule gives every unit's variant; overrides and testers are a few in a "
        "thousand",
    )


def lacking_columns(analysis: Analysis) -> list[Finding]:
    """Test whether files that lack a column have another share of the impressions somewhere."""
    experiment, found = analysis.experiment, []
    own = {"unit_id": experiment.unit, **experiment.logs.rows.columns}
    for column, moments in analysis.aggregates.lacking().items():
        control = moments.get(experiment.control)
        p_values = [same_share(control, moments.get(name)) for name in experiment.treatments]
        p_value = min(1.0, len(p_values) * min(p_values))
        shares = [
            f"{name} " + (f"{m.mean[0] / m.mean[1]:.1%}" if m and m.mean[1] else "no impressions")
            for name, m in ((name, moments.get(name)) for name in experiment.variants)
        ]
        # Metrics name a column of the log by its own name, or by the canonical one.
        lower = column.lower()
        names = {lower} | {name for name, text in own.items() if text.lower() == lower}
        found.append(
            Finding(
                p_value,
                f"some files lack the column {column!r}, with so many of the impressions: "
                f"{', '.join(shares)} (p = {p_value:.2g} if that is alike in all variants); the "
                "notes name the files",
                metrics=touched(analysis.metrics, names),
                least="warn",
                name=f"lacking_column:{column}",
                remedy="complete the files, or leave their days out of [period]",
            )
        )
    return found


def same_share(control: Moments | None, treatment: Moments | None) -> float:
    """Return the two-sided p-value of equal shares, clustered by unit, 1 where one is not known."""
    if control is None or treatment is None:
        return 1.0
    try:
        first, second = means.estimate_ratio(control), means.estimate_ratio(treatment)
    except Refusal:
        return 1.0
    difference, variance = second.value - first.value, first.variance + second.variance
    if variance == 0:
        return 1.0 if difference == 0 else 0.0
    return two_sided(difference / math.sqrt(variance))


def variant_spelling(analysis: Analysis) -> list[Finding]:
    """Tell the rows of variants that the file spells in another way; nothing without any."""
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
    joined = arms_of(experiment.variants)
    for name, (own, _) in meant.items():
        joined[own].append(name)
    lines = [joined_line(own, joined[own]) for own in dict.fromkeys(o for o, _ in meant.values())]
    return [
        Finding(
            lost / read,
            f"{lost:,} of {read:,} {log} set aside ({lost / read:.2%}), because their variant "
            f"differs from one of the file in capitals or spaces: {listed}",
            limits=Limits(0.0, experiment.trust.rows_fail),
            reason="another spelling of a variant is hardly another variant",
            remedy=f"if they are the same variants, write {fmt.listing(lines)}",
        )
    ]
