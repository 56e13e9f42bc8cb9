"""List the trust checks: those of abeval, then those added from outside."""

from functools import cache

from abeval.errors import ExperimentError
from abeval.inference.trust import (
    breaks,
    groups,
    hours,
    influence,
    rows,
    shares,
    split,
    untriggered,
)
from abeval.inference.trust.finding import TrustCheck
from abeval.plugins import load_entry_points

CHECKS: tuple[TrustCheck, ...] = (
    hours.clock,
    hours.short_days,
    hours.missing_hours,
    breaks.breaks,
    breaks.missing_outcomes,
    hours.late_data,
    shares.audits,
    *shares.BY_VARIANT,
    shares.serving,
    shares.SILENT_UNITS,
    influence.bots,
    influence.influence_check,
    split.split_check,
    split.srm_check,
    split.check_segment_splits,
    hours.slot_hours,
    hours.carry_over,
    rows.crossover,
    rows.placeholder_ids,
    rows.coarser_unit,
    rows.assignment,
    groups.pre_period,
    groups.denominators,
    groups.missing_values,
    untriggered.untriggered,
    groups.aa_check,
    rows.before_exposure,
    rows.near_exposure,
    rows.outcome_duplicates,
    rows.outcome_states,
    rows.missing_days,
    shares.LACKING_COLUMNS,
    rows.outside_period,
    *rows.SET_ASIDE,
    rows.variant_spelling,
)
"""Every check of abeval, in the order of how much it can spoil."""

ENTRY_POINTS = "abeval.checks"
"""The entry points by which installed packages add their checks."""

# Names up to the colon: tests of one such name share a part of the budget of false alarms.
_NAMES = {name.partition(":")[0] for check in CHECKS for name in (check.name, check.check) if name}

_added: dict[str, TrustCheck] = {}


def add_check(check: TrustCheck) -> TrustCheck:
    """Add a check to those of abeval, for every analysis of this process.

    It takes the place of a check of the same name that was added before.

    Raises:
        ExperimentError: abeval has a check of this name.
    """
    _check_name(check)
    _added[check.name] = check
    return check


def list_added_checks() -> tuple[TrustCheck, ...]:
    """List the checks of installed packages, and those that this process added."""
    return tuple(({check.name: check for check in load_installed_checks()} | _added).values())


@cache
def load_installed_checks() -> tuple[TrustCheck, ...]:
    """Load the checks of installed packages.

    Raises:
        ExperimentError: A check cannot be loaded, or is no `TrustCheck` with a name of its own.
    """
    where = "the trust check {name} = {value} of an installed package"
    problem = f"{where} cannot be loaded: {{error}}"
    checks = []
    for point, check in load_entry_points(
        ENTRY_POINTS, lambda check: check, problem, "mend the package, or remove it"
    ):
        if not isinstance(check, TrustCheck):
            what = f"{where.format(name=point.name, value=point.value)} is a {type(check).__name__}"
            raise ExperimentError(what, "declare it with @abeval.TrustCheck (CONTRIBUTING.md)")
        _check_name(check)
        checks.append(check)
    return tuple(checks)


def _check_name(check: TrustCheck) -> None:
    for name in (check.name, check.check):
        if name.partition(":")[0] in _NAMES:
            what = f"abeval has a trust check {name.partition(':')[0]!r} itself"
            raise ExperimentError(what, "choose another name")
