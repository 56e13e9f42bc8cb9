"""What an experiment file says of a metric: its name, role, margin, or own definition.

The part `metrics` of the `Experiment` of `model.py`; `metrics.py` makes definitions of them.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from abeval.bounds import MAX_VALUE, MAX_WEIGHT, MAX_WINDOW_DAYS, MIN_RESOLUTION
from abeval.experiment.sections import Section, Text, Word
from abeval.metrics.definition import SPAN, Combine, Role


class Toward(Section):
    """The better variant is the one closer to this value."""

    toward: Annotated[float, Field(ge=-MAX_VALUE, le=MAX_VALUE)]


class AbsoluteMargin(Section):
    """A margin in the metric's own unit."""

    absolute: Annotated[float, Field(gt=0, le=MAX_VALUE)]


class Step(Section):
    """A step of a funnel: the rows of a log for which `where` is true."""

    log: Word = "impressions"
    where: Text | None = None


class MetricChoice(Section):
    """A metric of the scorecard: a built-in one by name, or the user's own by expressions.

    `log`, `per_unit`, `where`, `within`, `retention` and `funnel` make it a value of a unit since
    its exposure.
    """

    name: Word
    role: Role | None = None
    direction: Literal["increase", "decrease"] | Toward | None = None
    margin: Annotated[float, Field(gt=0, lt=1)] | AbsoluteMargin | None = None
    value: str | None = None
    numerator: str | None = None
    denominator: str | None = None
    function: str | None = None
    log: Word | None = None
    per_unit: Combine | None = None
    where: Text | None = None
    within: Annotated[str, StringConstraints(pattern=SPAN)] | None = None
    retention: Annotated[int, Field(ge=1, le=MAX_WINDOW_DAYS)] | None = None
    funnel: Annotated[list[Step], Field(min_length=2, max_length=20)] | None = None
    quantile: Annotated[float, Field(gt=0, lt=1)] | None = None
    unit: str | None = None
    resolution: Annotated[float, Field(ge=MIN_RESOLUTION, le=1)] = 1e-6
    cap: Annotated[float, Field(gt=0.5, lt=1)] | None = None
    covariates: Annotated[list[Word], Field(min_length=1)] | None = None
    weight: Annotated[float, Field(ge=1 / MAX_WEIGHT, le=MAX_WEIGHT)] | None = None

    @property
    def is_own(self) -> bool:
        """Whether the file defines the metric, instead of naming a built-in one."""
        texts = (self.value, self.numerator, self.denominator, self.function)
        return any(text is not None for text in texts) or self.of_events

    @property
    def of_events(self) -> bool:
        """Whether it is a value of a unit since its exposure, from the rows of a log."""
        keys = (self.log, self.per_unit, self.where, self.within, self.retention, self.funnel)
        return any(key is not None for key in keys)
