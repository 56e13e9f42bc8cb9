"""Every off-policy estimator on one log: its value, or the reason why there is none.

`off_policy/run.py` calls it with the `PolicyLog` of `off_policy/log.py`, and makes a row of the
result of each answer; the estimators are in `stats/`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypedDict

from abeval.bounds import MAX_VALUE, check_between
from abeval.errors import ExperimentError
from abeval.off_policy.log import PolicyLog
from abeval.stats import off_policy as model_based
from abeval.stats import off_policy as weighted
from abeval.stats.off_policy import PRIOR_ROWS, CrossFit, PolicyValue, check_policy, cross_fit
from abeval.stats.off_policy_support import (
    MIN_ESS,
    Diagnostics,
    check_support,
    diagnose,
    importance_weights,
)
from abeval.stats.records import Integers, Refusal

Answer = PolicyValue | Refusal
Estimator = Callable[[], PolicyValue]


@dataclass(frozen=True)
class OffPolicyOptions:
    """Options of the estimators.

    Attributes:
        clip: Caps of clipped IPS.
        switch: Thresholds of SwitchDR.
        shrink: λ of DRos.
        prior_rows: Rows at the overall CTR that shrink each item's predicted CTR.
        min_ess: Effective sample size below which nothing is estimated.

    Example:
        >>> OffPolicyOptions(clip=(5, 10)).switch
        (10.0,)
    """

    clip: tuple[float, ...] = (10.0,)
    switch: tuple[float, ...] = (10.0,)
    shrink: tuple[float, ...] = (100.0,)
    prior_rows: float = PRIOR_ROWS
    min_ess: float = MIN_ESS

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        if not all(x > 0 for x in (*self.clip, *self.switch, *self.shrink)):
            raise ExperimentError("clip, switch and shrink must be positive")
        for name in ("prior_rows", "min_ess"):
            check_between(name, getattr(self, name), 0, MAX_VALUE)


class Evaluation(NamedTuple):
    """The estimates on one log.

    Attributes:
        answers: Estimator → its value or refusal.
        diagnostics: Of the weights; None if the probabilities are invalid.
        refusal: Why the log supports no (weighted) estimate, else None.
    """

    answers: dict[str, Answer]
    diagnostics: Diagnostics | None
    refusal: Refusal | None


class _Common(TypedDict):
    """The arguments of every estimator."""

    clusters: Integers | None
    alpha: float


def evaluate_policy(
    log: PolicyLog, clustered: bool, alpha: float, options: OffPolicyOptions
) -> Evaluation:
    """All estimators on a log.

    Args:
        log: Its arrays.
        clustered: Whether a unit may have several rows.
        alpha: Error rate of the intervals.
        options: Of the estimators.
    """
    common = _Common(clusters=log.unit if clustered else None, alpha=alpha)
    estimators = dict([*_weighted(log, options, common), *_model_based(log, options, common)])
    diagnostics = None
    try:
        diagnostics = _diagnostics(log, common)
        check_support(diagnostics, options.min_ess)
    except Refusal as refusal:
        answers: dict[str, Answer] = dict.fromkeys(estimators, refusal)
        if diagnostics is not None and refusal.reason == "weights_not_one":
            # The direct method uses no propensities, so wrong ones do not matter to it.
            answers["dm"] = _answer(estimators["dm"])
        return Evaluation(answers, diagnostics, refusal)
    return Evaluation({name: _answer(e) for name, e in estimators.items()}, diagnostics, None)


def _answer(estimator: Estimator) -> Answer:
    try:
        return estimator()
    except Refusal as refusal:
        return refusal


def _diagnostics(log: PolicyLog, common: _Common) -> Diagnostics:
    if log.policy is not None:
        check_policy(log.policy, log.context)
    weights = importance_weights(log.logging, log.evaluation)
    return diagnose(log.reward, weights, common["clusters"], log.unsupported)


def _weighted(
    log: PolicyLog, options: OffPolicyOptions, common: _Common
) -> Iterator[tuple[str, Estimator]]:
    rows, ess = (log.reward, log.logging, log.evaluation), options.min_ess
    yield "replay", partial(weighted.expected_replay, *rows, min_ess=ess, **common)
    yield "ips", partial(weighted.ips, *rows, min_ess=ess, **common)
    for cap in options.clip:
        name = f"clipped_ips[{cap:g}]"
        yield name, partial(weighted.clipped_ips, *rows, cap, min_ess=ess, **common)
    yield "snips", partial(weighted.snips, *rows, min_ess=ess, **common)


def _model_based(
    log: PolicyLog, options: OffPolicyOptions, common: _Common
) -> Iterator[tuple[str, Estimator]]:
    """Estimators with item CTRs of the other half of the units, refitted in standard errors."""
    fit = _fitted(log, options)
    switch, shrink = options.switch, options.shrink
    if isinstance(fit, Refusal):
        names = [*(f"switch_dr[{x:g}]" for x in switch), *(f"dros[{x:g}]" for x in shrink)]
        for name in ("dm", "dr", "sndr", *names):
            yield name, partial(_raise, fit)
        return
    refit, ess = fit.influence, options.min_ess
    rows = (log.reward, log.logging, log.evaluation, fit.predicted, fit.expected)
    direct = (log.reward, fit.expected)
    yield "dm", partial(model_based.direct_method, *direct, refit=refit, **common)
    more = _WithModel(refit=refit, min_ess=ess, **common)
    yield "dr", partial(model_based.doubly_robust, *rows, **more)
    yield "sndr", partial(model_based.self_normalised_dr, *rows, **more)
    for x in switch:
        yield f"switch_dr[{x:g}]", partial(model_based.switch_dr, *rows, x, **more)
    for x in shrink:
        yield f"dros[{x:g}]", partial(model_based.shrunk_dr, *rows, x, **more)


class _WithModel(_Common):
    """The arguments of estimators with a model."""

    refit: model_based.Refit
    min_ess: float


def _fitted(log: PolicyLog, options: OffPolicyOptions) -> CrossFit | Refusal:
    if log.policy is None:
        message = "needs the whole policy; a column has it only for the items shown"
        return Refusal("not_applicable", message)
    try:
        return cross_fit(
            log.reward, log.action, log.context, log.fold, log.policy, options.prior_rows
        )
    except Refusal as refusal:
        return refusal


def _raise(refusal: Refusal) -> PolicyValue:
    raise refusal
