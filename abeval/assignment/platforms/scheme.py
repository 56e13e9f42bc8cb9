"""What every platform's class is: settings, from which a rule follows; and ranges from weights."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import accumulate
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from abeval.assignment.draws import Range, Rule

Weights = Mapping[str, float]
Share = Annotated[float, Field(ge=0, le=1)]
Percent = Annotated[float, Field(ge=0, le=100)]

IN = "in"
"""The label of a unit that passes a stage before the last."""


class Scheme(BaseModel, ABC):
    """How a platform assigns units to variants."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @abstractmethod
    def rule(self, weights: Weights) -> Rule:
        """The rule for variants of these weights, in the platform's order."""


def normed(weights: Weights) -> dict[str, float]:
    """Weights as shares of their sum."""
    total = math.fsum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def steps(parts: Weights) -> tuple[Range, ...]:
    """Half-open ranges whose ends are sums of the parts, in the order of the platform's sums."""
    ends = list(accumulate(parts.values()))
    return tuple(map(Range, parts, [0, *ends], ends))
