"""Checks of the traffic split: units against weights, overall, by stretch and by segment.

`checks.py` puts them first among its checks, because nothing else can be read where they fail.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.trust.audits import weights_by_stretch
from abeval.inference.trust.finding import Finding, Limits, Significance, Words, graded, skipped
from abeval.inference.trust.split import running, where
from abeval.logs.placing import Stretch, Stretches, entry_stretches, knows_assignment
from abeval.results import Check
from abeval.results import format as fmt
from abeval.stats import multiplicity, srm
from abeval.stats.records import Refusal
from abeval.stats.srm import SRM

LOST = "look for units lost after assignment, redirects, bots, or a filter that acts on one variant"

_ANNOUNCE = (
    "if it was meant to change, write [[assignment.splits]]; if not, look for what lost units of "
    "one variant then"
)

_SETTLE = (
    "map [logs.exposures] (ts: when a unit was assigned), or write how traffic was split. If it "
    "was ramped, one [[assignment.splits]] with `from` and the planned `weights` for each change, "
    "such as from = {change}. If it never changed: [[assignment.splits]] from = {start}, "
    "weights = {{ {weights} }}. If neither is so, look for what lost units of one variant then"
)

_NAMED = 0.01
"""A stretch is named in the message where its p-value is smaller."""

_UNANNOUNCED = Limits(
    1, None, "a change is found where p < 1e-6: at one split, if entries do not move, in 0 of 9,000"
)
_UNEXPLAINED = _UNANNOUNCED._replace(fail=1)


def srm_check(experiment: Experiment, aggregates: Aggregates) -> Finding:
    """Whether units match the weights, in every stretch its own."""
    if experiment.weights == "observed":
        message = "the weights are those of the table, so the split cannot be checked"
        return skipped("srm", message)
    try:
        split = _split(experiment, aggregates)
    except Refusal as refusal:
        return Check("srm", "fail", None, None, f"sample ratio: {refusal}", remedy=LOST)
    calm = f"units match the weights{split.where}: {split.counts}"
    p = "< 1e-300" if split.p_value == 0 else f"= {split.p_value:.2g}"
    alarm = f"units do not match the weights{split.where} ({split.counts}; {split.test} p {p})"
    if empty := [name for name in experiment.variants if aggregates.units_of(name) == 0]:
        alarm = f"no units in {', '.join(empty)}; {alarm}"
    remedy = f"{LOST}{split.remedy}"
    if split.p_value < _NAMED:
        places = split_places(experiment, aggregates)
        words = where(places, running(experiment, aggregates, _NAMED))
        alarm = "; ".join(filter(None, (alarm, words)))
    return Significance("srm", split.p_value, Words(calm, alarm, remedy))


class _Split(NamedTuple):
    """The test of the split whose p-value counts, and what it is of."""

    p_value: float
    test: str
    where: str
    counts: str
    remedy: str = ""


def _split(experiment: Experiment, aggregates: Aggregates) -> _Split:
    stretches = aggregates.stretches
    totals = {name: aggregates.units_of(name) for name in experiment.variants}
    if not stretches:
        planned = weights_by_stretch(experiment, aggregates)[0]
        whole = srm.believable(list(totals.values()), planned)
        return _Split(whole.p_value, _test(whole), "", _listed(totals))
    if experiment.schedule:
        return _as_scheduled(stretches)
    weights = {name: variant.weight for name, variant in experiment.variants.items()}
    return _unannounced(stretches, totals, weights)


def _as_scheduled(stretches: Stretches) -> _Split:
    """The worst of all stretches and of all units together, Holm over these tests."""
    observed = [list(stretch.units.values()) for stretch in stretches]
    planned = [list((stretch.weights or {}).values()) for stretch in stretches]
    tests = [
        *(_against(stretch.units, stretch.weights or {}) for stretch in stretches),
        srm.stratified(observed, planned),
    ]
    adjusted = multiplicity.adjust([test.p_value for test in tests], "holm")
    worst = int(np.argmin(adjusted))
    if adjusted[worst] >= _NAMED:
        where, counts = f" of each of {len(stretches)} stretches", stretches[-1].units
    elif worst == len(stretches):
        where, counts = " of all stretches together", _sums(stretches)
    else:
        where, counts = f" of {_named(stretches[worst])}", stretches[worst].units
    return _Split(float(adjusted[worst]), _test(tests[worst]), where, _listed(counts))


def _unannounced(
    stretches: Stretches, totals: Mapping[str, int], weights: Mapping[str, float]
) -> _Split:
    """The file's weights are those of all units together, or of the latest stretch."""
    last = stretches[-1]
    of_all, of_last = _against(totals, weights), _against(last.units, weights)
    remedy = ", or write the planned weights into [[assignment.splits]] if the split was changed"
    if of_all.p_value >= of_last.p_value:
        return _Split(of_all.p_value, _test(of_all), "", _listed(totals), remedy)
    where, counts = f" of {_named(last)}", _listed(last.units)
    return _Split(of_last.p_value, _test(of_last), where, counts, remedy)


def _against(units: Mapping[str, int], weights: Mapping[str, float]) -> SRM:
    """The test of a stretch; without units there is nothing to doubt."""
    observed, planned = list(units.values()), [weights[name] for name in units]
    if sum(observed) == 0:
        return SRM(0.0, len(srm.checked(observed, planned)[1]) - 1, 1.0)
    return srm.believable(observed, planned)


def _test(split: SRM) -> str:
    return "exact" if split.is_exact else "chi-square"


def _sums(stretches: Stretches) -> dict[str, int]:
    return {name: sum(one.units[name] for one in stretches) for name in stretches[0].units}


def _listed(units: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in units.items())


def _named(stretch: Stretch) -> str:
    return stretch.start if stretch.start == stretch.end else f"{stretch.start} to {stretch.end}"


def change_checks(experiment: Experiment, aggregates: Aggregates) -> list[Check]:
    """Whether the split changed, and is known to have; no check where it did not."""
    stretches = entry_stretches(experiment, aggregates.entered)
    if not stretches:
        return []
    value = float(len(stretches) - 1)
    if not knows_assignment(experiment):
        message = unexplained_words(experiment, stretches)
        weights = ", ".join(f'"{name}" = {v.weight:g}' for name, v in experiment.variants.items())
        start, change = (stretch.start for stretch in stretches[:2])
        remedy = _SETTLE.format(start=start, change=change, weights=weights)
        return [graded("split", value, _UNEXPLAINED, Words(message, message, remedy))]
    within = (
        f"units are compared within {len(stretches)} stretches of entry days of one split, each "
        "weighed alike in all variants"
    )
    if experiment.schedule:
        message = f"the split changed as [[assignment.splits]] says; {within}"
        return [graded("split", 0.0, _UNANNOUNCED, Words(message, message))]
    changes = f"{_changes(experiment, stretches)}, which no schedule announces"
    message = f"the split changed {changes}; {within}"
    return [graded("split", value, _UNANNOUNCED, Words(message, message, _ANNOUNCE))]


def unexplained_words(experiment: Experiment, stretches: Stretches) -> str:
    """What first impressions show, and why that compares nothing."""
    return (
        f"by first impressions the split changed {_changes(experiment, stretches)}, and nothing "
        "says when units were assigned: a ramp and a treatment that moves first impressions look "
        "alike, and need opposite comparisons"
    )


def _changes(experiment: Experiment, stretches: Stretches) -> str:
    """When the split changed, with the shares of the treatment whose share moved most."""
    changes = []
    for before, after in pairwise(stretches):
        shares = [(before.shares[name], after.shares[name], name) for name in experiment.treatments]
        was, then, name = max(shares, key=lambda share: abs(share[1] - share[0]))
        changes.append(f"from {after.start} on ({name} {was:.1%} before, {then:.1%} then)")
    return fmt.listing(changes)
