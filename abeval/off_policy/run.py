"""Evaluate a policy off-policy, on the traffic of another variant."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from abeval.bounds import MAX_VALUE, check_between
from abeval.errors import ExperimentError
from abeval.logs.run import Run
from abeval.off_policy.log import PolicyChoice, PolicyLog, read_policy_log
from abeval.results.off_policy import OffPolicyResult, OffPolicyRow, Realised, Support
from abeval.stats import effects, means
from abeval.stats import off_policy as estimators
from abeval.stats.moments import Moments
from abeval.stats.off_policy import MIN_REWARDS, MODELLED, PolicyValue
from abeval.stats.records import Refusal, RefusalReason

_Answers = Mapping[str, PolicyValue | Refusal]
"""Estimator with its option → its value, or the refusal."""

_NO_INTERVAL: Mapping[RefusalReason, str] = {
    "too_few_rewards": f"fewer than {MIN_REWARDS:g} effective clicks (rewards): no interval",
    "zero_variance": "no variation between rows (no reward?): no interval",
}

_NO_PROPENSITY = "; log the probability with which each item was chosen, or remove rows without one"


@dataclass(frozen=True)
class OffPolicyOptions:
    """Options of the estimators, and the least effective sample size.

    Example:
        >>> OffPolicyOptions(clip=(5, 10)).switch
        (10.0,)
    """

    clip: tuple[float, ...] = (10.0,)
    switch: tuple[float, ...] = (10.0,)
    shrink: tuple[float, ...] = (100.0,)
    min_ess: float = estimators.MIN_ESS

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        if not all(x > 0 for x in (*self.clip, *self.switch, *self.shrink)):
            raise ExperimentError("clip, switch and shrink must be positive")
        check_between("min_ess", self.min_ess, 0, MAX_VALUE)

    def estimators(self) -> Iterator[tuple[str, float | None]]:
        """Return every estimator with its option, in the order of the result."""
        yield from (("replay", None), ("ips", None))
        yield from (("clipped_ips", x) for x in self.clip)
        yield from ((name, None) for name in ("snips", "dm", "dr", "sndr"))
        yield from (("switch_dr", x) for x in self.switch)
        yield from (("dros", x) for x in self.shrink)


def evaluate_policy(
    run: Run,
    source: str,
    choice: PolicyChoice,
    options: OffPolicyOptions | None = None,
    reward: str | None = None,
) -> OffPolicyResult:
    """Evaluate a policy on the log of a variant.

    `source` is the variant whose log is used. `reward` is a column to use instead of the click.
    Estimates that the log cannot support raise no error: their rows have a reason.
    """
    experiment = run.experiment
    log = read_policy_log(run, source, choice, reward)
    run.step("estimating")
    options = options or OffPolicyOptions()
    support, refusal = _support(log, options.min_ess)
    answers = _estimate_policy_values(log, refusal, experiment.alpha, options)
    realised = None if log.target is None else _estimate_realised(log.target, experiment.alpha)
    return OffPolicyResult(
        experiment=experiment.name,
        source=source,
        policy=str(choice),
        alpha=experiment.alpha,
        support=support,
        realised=realised,
        rows=tuple(_build_row(name, answer, realised) for name, answer in answers.items()),
        set_aside=log.set_aside,
        notes=tuple(_write_notes(log, support, choice)),
    )


def _support(log: PolicyLog, min_ess: float) -> tuple[Support | None, Refusal | None]:
    """Return how well the log supports the policy, and any refusal."""
    rows, diagnostics, refusal = log.rows, None, None
    try:
        if log.policy is not None:
            estimators.check_policy(log.policy, log.context)
        weights = estimators.compute_importance_weights(rows.logging, rows.evaluation)
        diagnostics = estimators.diagnose(rows.reward, weights, rows.clusters, log.unsupported)
        estimators.check_support(diagnostics, min_ess)
    except Refusal as why:
        refusal = why
    if diagnostics is None:
        return None, refusal
    reason, message = (None, None) if refusal is None else (refusal.reason, str(refusal))
    return Support(**diagnostics._asdict(), reason=reason, message=message), refusal


def _estimate_policy_values(
    log: PolicyLog, refusal: Refusal | None, alpha: float, options: OffPolicyOptions
) -> _Answers:
    """Estimate the value by every estimator; predictions are cross-fitted."""
    rows, no_model = log.rows, None
    try:
        # With wrong propensities the direct method still needs its model.
        if log.policy is not None and (refusal is None or refusal.reason == "weights_not_one"):
            reward = np.asarray(rows.reward, dtype=np.float64)
            fit = estimators.cross_fit(reward, log.action, log.context, log.fold, log.policy)
            rows = rows._replace(
                predicted=fit.predicted, expected=fit.expected, refit=fit.influence
            )
    except Refusal as why:
        no_model = why
    answers: dict[str, PolicyValue | Refusal] = {}
    for name, option in options.estimators():
        answer: PolicyValue | Refusal | None = no_model if name in MODELLED else None
        # The direct method uses no propensities, so wrong ones do not matter to it.
        if refusal is not None and (name != "dm" or refusal.reason != "weights_not_one"):
            answer = refusal
        try:
            answer = answer or estimators.estimate(
                name, rows, option or 1.0, alpha=alpha, min_ess=options.min_ess
            )
        except Refusal as why:
            answer = why
        answers[name if option is None else f"{name}[{option:g}]"] = answer
    return answers


def _build_row(name: str, answer: PolicyValue | Refusal, realised: Realised | None) -> OffPolicyRow:
    if isinstance(answer, Refusal):
        hint = _NO_PROPENSITY if answer.reason == "invalid_propensity" else ""
        return OffPolicyRow(estimator=name, reason=answer.reason, message=f"{answer}{hint}")
    z = None
    if realised is not None and answer.se:
        # The two are from different units, so their variances add.
        z = (answer.value - realised.value) / math.hypot(answer.se, realised.se)
    return OffPolicyRow(
        estimator=name,
        value=answer.value,
        se=answer.se,
        low=answer.low,
        high=answer.high,
        method=answer.method,
        z=z,
        reason=answer.reason,
        message=answer.reason and _NO_INTERVAL.get(answer.reason, answer.reason),
    )


def _estimate_realised(target: pd.DataFrame, alpha: float) -> Realised | None:
    """Return the target variant's own mean reward; None if too few units."""
    try:
        mean = means.estimate_ratio(Moments.of(target["reward"], target["impressions"]))
    except Refusal:
        return None
    se = math.sqrt(mean.variance)
    low, high = effects.compute_interval(mean.value, se, mean.df, alpha)
    return Realised(mean.value, se, low, high, mean.units)


def _write_notes(log: PolicyLog, support: Support | None, choice: PolicyChoice) -> Iterator[str]:
    if choice.to is not None and log.target is not None:
        impressions = int(log.target["impressions"].sum())
        yield (
            f"The policy is estimated by how often {choice.to} showed each item at each position "
            f"in {impressions:,} impressions; intervals do not include the error of this estimate."
        )
    if log.rows.clusters is None:
        yield "Every row is its own unit: if users return, intervals are too narrow."
    if log.set_aside:
        yield f"{log.set_aside:,} impressions without an item are set aside."
    if support is None or support.reason is not None:
        return
    if support.mean_weight_p < 0.01:
        mean = f"{support.mean_weight:.3f} ± {support.mean_weight_se:.3f}"
        yield f"The weights average {mean}, not 1: are the propensities right?"
    if support.unsupported:
        share = f"{100 * support.unsupported:.2g} %"
        yield f"{share} of the policy is on items never shown at their position: it counts as 0."
