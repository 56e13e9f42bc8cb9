"""Section `[agreement]`: columns that say why offline and online differ; all are optional.

`model.py` has it as a field; `agreement/facts.py` reads them.
"""

from typing import Annotated

from pydantic import Field, StringConstraints

from abeval.experiment.sections import Section

Column = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class AgreementColumns(Section):
    """Columns of the impressions by what they hold; `treated` is true where the treatment acts."""

    served_score: Column | None = None
    explore: Column | None = None
    latency: Column | None = None
    empty: Column | None = None
    model_version: Column | None = None
    model_time: Column | None = None
    feature_time: Column | None = None
    features: list[Column] = Field(default_factory=list)
    treated: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] | None = None
