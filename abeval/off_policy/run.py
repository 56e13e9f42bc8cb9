"""Off-policy evaluation of an experiment: a policy's value on the traffic of another variant."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypedDict

import pandas as pd

from abeval.bounds import MAX_VALUE, check_between
from abeval.errors import ExperimentError
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.run import Run
from abeval.off_policy.log import PolicyChoice, PolicyLog, read_policy_log
from abeval.results.off_policy import OffPolicyResult, OffPolicyRow, Realised, Support
from abeval.stats import effects, off_policy
from abeval.stats import off_policy as model_based
from abeval.stats import off_policy as weighted
from abeval.stats.moments import Moments
from abeval.stats.off_policy import (
    MIN_REWARDS,
    PRIOR_ROWS,
    CrossFit,
    PolicyValue,
    check_policy,
    cross_fit,
)
from abeval.stats.off_policy_support import (
    MIN_ESS,
    Diagnostics,
    check_support,
    diagnose,
    importance_weights,
)
from abeval.stats.records import Integers, Refusal, RefusalReason

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


_NO_INTERVAL: Mapping[RefusalReason, str] = {
    "too_few_rewards": f"fewer than {MIN_REWARDS:g} effective clicks (rewards): no interval",
    "zero_variance": "no variation between rows (no reward?): no interval",
}

_HINTS: Mapping[RefusalReason, str] = {
    "invalid_propensity": (
        "; log the probability with which the shown item was chosen, or remove rows without one "
        "from the log"
    ),
}


def off_policy(
    run: Run,
    source: str,
    choice: PolicyChoice,
    options: OffPolicyOptions | None = None,
    reward: str | None = None,
) -> OffPolicyResult:
    """Evaluate a policy on the log of a variant.

    Args:
        run: The experiment, its logs and an engine.
        source: The variant whose log is used.
        choice: The policy.
        options: Of the estimators.
        reward: A column of the impressions, instead of the click.

    Raises:
        ExperimentError: A variant is unknown.
        LogError: The log lacks a column, or the table is not a policy. Estimates that the log
            cannot support raise no error: their rows have a reason.
    """
    experiment = run.experiment
    log = read_policy_log(run, source, choice, reward)
    run.step("estimating")
    clustered = experiment.unit != ROW_UNIT
    result = evaluate_policy(log, clustered, experiment.alpha, options or OffPolicyOptions())
    realised = None if log.target is None else _realised(log.target, experiment.alpha)
    return OffPolicyResult(
        experiment=experiment.name,
        source=source,
        policy=str(choice),
        alpha=experiment.alpha,
        support=_support(result),
        realised=realised,
        rows=tuple(_row(name, answer, realised) for name, answer in result.answers.items()),
        set_aside=log.set_aside,
        notes=tuple(_notes(log, result, choice, clustered)),
    )


def _row(name: str, answer: Answer, realised: Realised | None) -> OffPolicyRow:
    if isinstance(answer, Refusal):
        empty = (None, None, None, None, None, None)
        return OffPolicyRow(name, *empty, answer.reason, f"{answer}{_HINTS.get(answer.reason, '')}")
    message = None if answer.reason is None else _NO_INTERVAL.get(answer.reason, answer.reason)
    numbers = (answer.value, answer.se, answer.low, answer.high, answer.method)
    z = None
    if realised is not None and answer.se:
        z = (answer.value - realised.value) / math.hypot(answer.se, realised.se)
    return OffPolicyRow(name, *numbers, z, answer.reason, message)


def _support(result: Evaluation) -> Support | None:
    log, refusal = result.diagnostics, result.refusal
    if log is None:
        return None
    return Support(
        rows=log.rows,
        units=log.units,
        clicks=log.rewarded,
        mean_weight=log.mean_weight.value,
        mean_weight_se=log.mean_weight.se,
        mean_weight_p=log.mean_weight.p_value,
        max_weight=log.max_weight,
        weight_p99=log.weight_p99,
        ess=log.ess,
        ess_share=log.ess_share,
        ess_units=log.ess_units,
        accepted=log.accepted,
        unsupported=log.unsupported,
        reason=None if refusal is None else refusal.reason,
        message=None if refusal is None else str(refusal),
    )


def _realised(target: pd.DataFrame, alpha: float) -> Realised | None:
    """The target variant's own mean reward; None if it has too few units."""
    try:
        mean = off_policy.estimate(Moments.of(target["reward"], target["impressions"]))
    except Refusal:
        return None
    se = math.sqrt(mean.variance)
    low, high = effects.interval(mean.value, se, mean.df, alpha)
    return Realised(mean.value, se, low, high, mean.units)


def _notes(
    log: PolicyLog, result: Evaluation, choice: PolicyChoice, clustered: bool
) -> Iterator[str]:
    if choice.to is not None and log.target is not None:
        shown = int(log.target["impressions"].sum())
        yield (
            f"The policy is estimated by how often {choice.to} showed each item at each position "
            f"in {shown:,} impressions; intervals do not include the error of this estimate."
        )
    if not clustered:
        yield "Every row is its own unit: if users return, intervals are too narrow."
    if log.set_aside:
        yield f"{log.set_aside:,} impressions without an item are set aside."
    weights = result.diagnostics
    if weights is None or result.refusal is not None:
        return
    if weights.mean_weight.p_value < 0.01:
        mean = f"{weights.mean_weight.value:.3f} ± {weights.mean_weight.se:.3f}"
        yield f"The weights average {mean}, not 1: are the propensities right?"
    if weights.unsupported:
        share = f"{100 * weights.unsupported:.2g} %"
        yield f"{share} of the policy is on items never shown at their position: it counts as 0."
