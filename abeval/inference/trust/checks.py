"""The list of all checks, and the rows that they make untrusted.

`judge.py` and `pairwise.py` hand it the analysis and put the checks into their results;
`verdict.py` decides by them.
"""

from collections.abc import Sequence

from abeval.inference.compare import Analysis
from abeval.inference.comparison import Reason
from abeval.inference.trust.audits import audit_checks
from abeval.inference.trust.finding import Finding, decided
from abeval.inference.trust.groups import aa_check, before_checks, denominator_checks, doubted
from abeval.inference.trust.hours import hour_checks
from abeval.inference.trust.influence import influence_check, machine_check
from abeval.inference.trust.rows import (
    assignment,
    crossover,
    lacking_checks,
    missing_days,
    outside_period,
    row_checks,
)
from abeval.inference.trust.split import change_checks, segment_checks, srm_check
from abeval.offline.sums import policy_check
from abeval.results import Check
from abeval.results.trust import AAResult
from abeval.simulate.world import NAME as AA
from abeval.simulate.world import spelling_checks


def trust_checks(analysis: Analysis, aa: AAResult | None = None) -> tuple[Check, ...]:
    """Every check, in the order of how much it can spoil."""
    return decided(_findings(analysis, aa), analysis.experiment.trust)


def _findings(analysis: Analysis, aa: AAResult | None) -> list[Finding]:
    experiment, aggregates = analysis.experiment, analysis.aggregates
    of_log = not experiment.of_units
    whole = srm_check(experiment, aggregates)
    return [
        *(hour_checks(analysis) if of_log else []),
        *audit_checks(analysis),
        *([machine_check(analysis)] if of_log else []),
        influence_check(analysis),
        *change_checks(experiment, aggregates),
        whole,
        *segment_checks(experiment, aggregates, whole),
        crossover(experiment, aggregates),
        policy_check(analysis),
        assignment(experiment, aggregates),
        *before_checks(analysis),
        *denominator_checks(analysis),
        aa_check(analysis, aa),
        *([missing_days(experiment, aggregates)] if of_log else []),
        *lacking_checks(analysis),
        *([outside_period(experiment, aggregates)] if of_log else []),
        *row_checks(analysis),
        *spelling_checks(analysis),
    ]


def untrusted(
    analysis: Analysis, checks: Sequence[Check], aa: AAResult | None
) -> dict[str, Reason]:
    """Metrics whose numbers must not be trusted: those that a failed check, or A/A, touches."""
    names = [metric.name for metric in analysis.metrics]
    replays = next((check for check in checks if check.name == AA), None)
    doubts: dict[str, Reason] = dict.fromkeys(
        doubted(aa, replays, analysis.experiment.trust), "failed_aa"
    )
    failed = [check for check in checks if check.status == "fail"]
    touched = [name for name in names if any(check.touches([name]) for check in failed)]
    return doubts | dict.fromkeys(touched, "failed_trust_check")
