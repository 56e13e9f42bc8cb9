"""Section `[trust]`: thresholds of the trust checks.

`model.py` has it as a field; `inference/trust/` reads it.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from abeval.bounds import MAX_REPLAYS, MIN_ALPHA
from abeval.experiment.sections import Section

Alpha = Annotated[float, Field(ge=MIN_ALPHA, lt=0.5)]
Share = Annotated[float, Field(gt=0, le=1)]
Times = Annotated[float, Field(gt=1, le=1e6)]


class TrustOptions(Section):
    """Thresholds of the trust checks: budgets of all tests together, and shares."""

    aa_runs: Annotated[int, Field(ge=0, le=MAX_REPLAYS)] = 2_000
    alpha_warn: Alpha = 0.04
    alpha_fail: Alpha = 0.004
    rows_warn: Share = 0.02
    rows_fail: Share = 0.2
    crossover_warn: Share = 0.005
    crossover_fail: Share = 0.1
    assignment_warn: Share = 0.001
    assignment_fail: Share = 0.01
    difference_warn: Share = 0.001
    difference_fail: Share = 0.005
    influence_warn: Times = 10.0
    influence_fail: Times = 100.0
    missing_days: Share = 0.5
    outside_period: Share = 0.5

    @model_validator(mode="after")
    def _warns_first(self) -> Self:
        if self.alpha_fail > self.alpha_warn:
            raise ValueError("alpha_fail is above alpha_warn: what fails must warn as well")
        for name in ("rows", "crossover", "assignment", "difference", "influence"):
            if getattr(self, f"{name}_warn") > getattr(self, f"{name}_fail"):
                raise ValueError(f"{name}_warn is above {name}_fail: what fails must warn as well")
        return self
