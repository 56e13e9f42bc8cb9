"""Off-policy evaluation of an experiment: a policy's value on the traffic of another variant.

`api/` calls it (`abeval off-policy`) with a `Run`, the source variant and the policy, and returns
the `OffPolicyResult` to the user.
"""

import math
from collections.abc import Iterator, Mapping

import pandas as pd

from abeval.experiment.sources import ROW_UNIT
from abeval.logs.run import Run
from abeval.off_policy.log import PolicyChoice, PolicyLog, read_policy_log
from abeval.off_policy.run import Answer, evaluate_policy
from abeval.offline.evaluate import Evaluation
from abeval.results.off_policy import OffPolicyResult, OffPolicyRow, Realised, Support
from abeval.stats import effects, off_policy
from abeval.stats.moments import Moments
from abeval.stats.off_policy import MIN_REWARDS
from abeval.stats.records import Refusal, RefusalReason

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
