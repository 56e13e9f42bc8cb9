"""Units that were seen in several variants, under each policy side by side.

`inference/trust/checks.py` lists the check; `[cleaning] crossover` chooses a policy.
"""

from collections.abc import Mapping
from typing import NamedTuple

from abeval.aggregates.aggregates import Aggregates
from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import Limits, Words, graded, skipped
from abeval.results import Check

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
