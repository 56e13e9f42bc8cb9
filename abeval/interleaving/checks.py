"""Check that lists were drafted by the rule, and that the log is sound."""

from functools import partial

import numpy as np

from abeval.experiment.model import Experiment
from abeval.experiment.sections import Interleaving
from abeval.inference.compare import Analysis
from abeval.inference.trust.audits import read_audit
from abeval.inference.trust.checks import ROWS
from abeval.inference.trust.finding import CheckDefinition, Find, RawCheck, apply_thresholds
from abeval.interleaving.log import InterleavedLog
from abeval.packaged import load_toml_next_to
from abeval.results import Check
from abeval.results import format as fmt
from abeval.stats.interleaving import symmetry
from abeval.stats.records import Floats

# Checks of the log that compare no variants: every unit sees all rankers.
_LOG_CHECKS = (
    *("late_data", "missing_days", "impressions_outside_period", "LOG_duplicate"),
    *("LOG_null_unit", "LOG_null_time", "clicks_no_impression", "clicks_late"),
)

_TABLE = load_toml_next_to(__file__, "checks.toml")


def run_checks(
    experiment: Experiment, settings: Interleaving, log: InterleavedLog
) -> tuple[Check, ...]:
    """Run every check, first the checks of the draft."""
    analysis = Analysis(experiment, [], log.aggregates)
    finds = _check_functions(settings, log)
    rows = [CheckDefinition(name, finds[name], **entries) for name, entries in _TABLE.items()]
    rows += [row for row in ROWS if row.name in _LOG_CHECKS]
    findings = [finding for row in rows for finding in row.findings(analysis)]
    return apply_thresholds(findings, experiment.trust)


def _check_functions(settings: Interleaving, log: InterleavedLog) -> dict[str, Find]:
    """Return the function of each check in the table."""
    counts, drafted, fair = log.counts, log.drafted, partial(_fair, log)
    # The mean length of a list is what those begun by either ranker should have.
    firsts, lengths = drafted["first"], drafted["length"]
    longer = lengths - firsts * (lengths.sum() / max(firsts.sum(), 1))
    finds: dict[str, Find] = {
        "draft_rule": lambda _: (
            _share(counts["wrong"], counts["again"]) if counts["again"] else None
        ),
        "draft:first_places": lambda _: fair(firsts),
        "draft:slots": lambda _: fair(drafted["slots"]),
        "draft:positions": lambda _: fair(drafted["places"]),
        "draft:lengths": lambda _: fair(lengths, longer),
        "items_twice": lambda _: _share(counts["repeats"], counts["lists"]),
        "list_places": lambda _: _share(counts["holes"], counts["lists"]),
        "no_team": lambda _: _share(counts["teamless"], counts["shown"]),
        "no_request": lambda _: _share(counts["requestless"], counts["shown"]),
        "bots": lambda _: _bots(log),
    }
    return finds | dict.fromkeys(_WITHOUT.get(settings.method, ()), lambda _: None)


# What lists of a method do not have: drafted places, a first ranker, or teams.
_WITHOUT = {
    "balanced": ("draft:slots", "draft:positions", "no_team"),
    "probabilistic": ("draft:lengths", "no_team"),
    "optimized": ("draft:lengths", "no_team"),
}


def _share(count: int, total: int) -> RawCheck:
    return RawCheck(count / max(total, 1), slots={"count": count, "of": total})


def _fair(log: InterleavedLog, sums: Floats, centred: Floats | None = None) -> RawCheck:
    """Test by unit whether rankers get equal sums (Bonferroni over rankers)."""
    tested = sums if centred is None else centred
    nets = tested - tested.mean(axis=1, keepdims=True)
    # Without the rounding of a third, equal sums have a net of 0.
    nets[np.abs(nets) < 1e-9 * np.abs(tested).max(initial=0)] = 0
    # The nets of two rankers are opposite: one test says it all.
    several = nets.T if len(nets.T) > 2 else nets.T[1:]
    p_value = min(1.0, len(several) * min(map(symmetry, several)))
    shares = sums.sum(axis=0) / max(sums.sum(), 1)
    texts = [f"{n} {share:.2%}" for n, share in zip(log.rankers, shares.tolist(), strict=True)]
    return RawCheck(p_value, slots={"shares": fmt.listing(texts), "p": fmt.p_value(p_value)})


def _bots(log: InterleavedLog) -> RawCheck | None:
    """Report the share of impressions and clicks by units that act like machines."""
    cells = read_audit(log.aggregates, "machine")
    shares = {
        name: sum(row.y for row in by_variant.values())
        / max(sum(row.x for row in by_variant.values()), 1)
        for name, by_variant in cells.items()
        if name != "gap"
    }
    text = fmt.listing([f"{share:.2%} of {name}" for name, share in shares.items()])
    return RawCheck(max(shares.values()), slots={"shares": text}) if shares else None
