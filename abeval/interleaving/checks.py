"""Check that lists were drafted by the rule, and that the log is sound."""

from functools import partial

import numpy as np

from abeval.experiment.model import Experiment
from abeval.experiment.sections import Interleaving
from abeval.inference.compare import Analysis
from abeval.inference.trust.audits import read_audit
from abeval.inference.trust.checks import CHECKS
from abeval.inference.trust.finding import RawCheck, TrustCheck, apply_thresholds
from abeval.interleaving.log import InterleavedLog
from abeval.results import format as fmt
from abeval.results.trust import Check
from abeval.stats.interleaving import check_symmetry
from abeval.stats.records import Floats

# Checks of the log that compare no variants: every unit sees all rankers.
_LOG_CHECKS = (
    *("late_data", "missing_days", "impressions_outside_period", "LOG_duplicate"),
    *("LOG_null_unit", "LOG_null_time", "clicks_no_impression", "clicks_late"),
)

# Why draft checks are skipped, and why the row checks have their limits.
_NO_DRAFT = "a balanced list gives places by rank, not by a draft"
_OTHER_LISTS = "a share from which on lists are others than those drafted"

# What lists of a method do not have: drafted places, a first ranker, or teams.
_WITHOUT = {
    "balanced": ("draft:slots", "draft:positions", "no_team"),
    "probabilistic": ("draft:lengths", "no_team"),
    "optimized": ("draft:lengths", "no_team"),
}


def run_checks(
    experiment: Experiment, settings: Interleaving, log: InterleavedLog
) -> tuple[Check, ...]:
    """Run every check, first the checks of the draft."""
    analysis, without = Analysis(experiment, [], log.aggregates), _WITHOUT.get(settings.method, ())
    checks = [
        check(lambda _: None) if check.name in without else check
        for check in (*_declare_draft_checks(log), *_declare_row_checks(log))
    ]
    checks += [check for check in CHECKS if check.name in _LOG_CHECKS]
    findings = [finding for check in checks for finding in check.findings(analysis)]
    return apply_thresholds(findings, experiment.trust)


def _declare_draft_checks(log: InterleavedLog) -> tuple[TrustCheck, ...]:
    """Declare the checks that lists were drafted by the rule."""
    counts, drafted = log.counts, log.drafted
    # The mean length of a list is what those begun by either ranker should have.
    firsts, lengths = drafted["first"], drafted["length"]
    longer = lengths - firsts * (lengths.sum() / max(firsts.sum(), 1))
    return (
        TrustCheck(
            "draft_rule",
            lambda _: _share(counts["wrong"], counts["again"]) if counts["again"] else None,
            limits=("assignment_warn", "assignment_fail"),
            absent=(
                "only a team draft, with its `salt`, the logged `team` and text or whole numbers "
                "as request ids, can be drafted again from what was shown"
            ),
            calm="{count:,} of {of:,} lists are not what salt and request draft",
            reason="a right rule gives every list; a few in a thousand are testers and retries",
            remedy=(
                "look at the salt, the rankers' names and the request ids of the service, and for "
                "lists that were sorted or filtered after the draft"
            ),
        ),
        TrustCheck(
            "draft:first_places",
            lambda _: _test_fairness(log, firsts),
            calm="first places: {shares} (p {p} by unit, if the draft is fair)",
            remedy="look at how the service draws who drafts first",
        ),
        TrustCheck(
            "draft:slots",
            lambda _: _test_fairness(log, drafted["slots"]),
            absent=_NO_DRAFT,
            calm="places in lists: {shares} (p {p} by unit, if the draft is fair)",
            remedy="look for items that were added or dropped after the draft",
        ),
        TrustCheck(
            "draft:positions",
            lambda _: _test_fairness(log, drafted["places"]),
            absent=_NO_DRAFT,
            calm="sums of positions: {shares} (p {p} by unit, if the draft is fair)",
            remedy="look for items that were moved after the draft",
        ),
        TrustCheck(
            "draft:lengths",
            lambda _: _test_fairness(log, lengths, longer),
            absent="no ranker begins such a list",
            calm=(
                "items of the lists that it begins: {shares} (p {p} by unit, if lists are cut "
                "alike)"
            ),
            remedy="look for lists that are cut where one ranker has no more items",
        ),
    )


def _declare_row_checks(log: InterleavedLog) -> tuple[TrustCheck, ...]:
    """Declare the checks of the rows of lists."""
    counts = log.counts
    check_rows = partial(TrustCheck, limits=("rows_warn", "rows_fail"), reason=_OTHER_LISTS)
    return (
        TrustCheck(
            "items_twice",
            lambda _: _share(counts["repeats"], counts["lists"]),
            limits=("assignment_warn", "assignment_fail"),
            calm="{count:,} of {of:,} lists show an item twice",
            reason="an item that was shown is not drafted again",
            remedy="look for lists logged twice under one request id",
        ),
        check_rows(
            "list_places",
            lambda _: _share(counts["holes"], counts["lists"]),
            calm="{count:,} of {of:,} lists do not have the positions 1, 2, … once each",
            remedy="look for impressions that are lost, or logged only when seen",
        ),
        check_rows(
            "no_team",
            lambda _: _share(counts["teamless"], counts["shown"]),
            absent="lists of this method have items without a team",
            calm=(
                "{count:,} of {of:,} impressions have no team that is a ranker, and count for none"
            ),
            remedy="look for items added after the draft, such as ads, and for names of rankers",
        ),
        check_rows(
            "no_request",
            lambda _: _share(counts["requestless"], counts["shown"]),
            calm="{count:,} of {of:,} impressions have no request_id, and are left out",
            remedy="look for lists that are served without a request id",
        ),
        TrustCheck(
            "bots",
            lambda _: _measure_machine_shares(log),
            limits=("rows_fail",),
            absent="without times, units cannot be checked one by one",
            calm="units that no person can be make {shares}",
            reason=(
                "machines click on both rankers alike, which dilutes a preference and makes none: "
                "no list compares variants, so this never fails"
            ),
            remedy="look for crawlers, monitors, test accounts and shared ids; leave them out",
        ),
    )


def _share(count: int, total: int) -> RawCheck:
    return RawCheck(count / max(total, 1), slots={"count": count, "of": total})


def _test_fairness(log: InterleavedLog, sums: Floats, centred: Floats | None = None) -> RawCheck:
    """Test by unit whether rankers get equal sums (Bonferroni over rankers)."""
    tested = sums if centred is None else centred
    nets = tested - tested.mean(axis=1, keepdims=True)
    # Without the rounding of a third, equal sums have a net of 0.
    nets[np.abs(nets) < 1e-9 * np.abs(tested).max(initial=0)] = 0
    # The nets of two rankers are opposite: one test says it all.
    several = nets.T if len(nets.T) > 2 else nets.T[1:]
    p_value = min(1.0, len(several) * min(map(check_symmetry, several)))
    shares = sums.sum(axis=0) / max(sums.sum(), 1)
    texts = [f"{n} {share:.2%}" for n, share in zip(log.rankers, shares.tolist(), strict=True)]
    return RawCheck(
        p_value, slots={"shares": fmt.join_items(texts), "p": fmt.format_p_value(p_value)}
    )


def _measure_machine_shares(log: InterleavedLog) -> RawCheck | None:
    """Report the share of impressions and clicks by units that act like machines."""
    cells = read_audit(log.aggregates, "machine")
    rows = {name: [*cell.values()] for name, cell in cells.items() if name != "gap"}
    shares = {
        name: sum(row.y for row in same) / max(sum(row.x for row in same), 1)
        for name, same in rows.items()
    }
    text = fmt.join_items([f"{share:.2%} of {name}" for name, share in shares.items()])
    return RawCheck(max(shares.values()), slots={"shares": text}) if shares else None
