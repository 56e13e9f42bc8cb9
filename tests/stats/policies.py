"""Values of policies from columns, as the tests of off-policy estimators write them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats.off_policy import Policy, PolicyValue, Refit, Rows, estimate


def valued(
    name: str,
    reward: ArrayLike,
    logging: ArrayLike,
    evaluation: ArrayLike,
    *predictions: ArrayLike,
    option: float = 1.0,
    clusters: ArrayLike | None = None,
    refit: Refit | None = None,
    **more: Any,
) -> PolicyValue:
    """The value that an estimator gives for these rows."""
    rows = Rows(reward, logging, evaluation, clusters, *(predictions or (None, None)), refit)
    return estimate(name, rows, option, **more)


def direct(reward: ArrayLike, expected: ArrayLike, **more: Any) -> PolicyValue:
    """The direct method, which needs no probabilities."""
    return valued("dm", reward, [], [], expected, expected, **more)


def of_policy(context: ArrayLike, action: ArrayLike, probability: ArrayLike) -> Policy:
    """A policy from lists."""
    return Policy(np.array(context), np.array(action), np.array(probability, dtype=float))
