"""Checks of units: seen in one variant only, and in the one that the rule of assignment gives."""

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.trust.finding import Limits, Words, graded, skipped
from abeval.results import Check


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
