"""What metrics query of prepared logs: events since exposure, cells of cuts, scored impressions.

They read what `logs/prepare.py` created. `per_unit.py` fetches what they return, `cuts.py` runs
them for the cells of a cut.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from abeval.aggregates.metric_queries import write_unit_event
from abeval.aggregates.row_pass import RowSums
from abeval.engines.protocol import Engine
from abeval.engines.sql import by_value, query
from abeval.experiment.model import Experiment
from abeval.logs.joins import Coverage
from abeval.logs.shape import LogShape
from abeval.metrics.definition import Metric, Source


@dataclass(frozen=True)
class MetricQueries:
    """The metric queries of one experiment on one engine.

    Attributes:
        experiment: The experiment.
        shape: What its logs have.
        engine: Where the queries run.
        by_stretch: Whether the split changed, so that units are summed by stretch.
        covered: Log that units are judged by since their exposure → up to when it is whole.
        rows: Sources that were computed over arrays already.
    """

    experiment: Experiment
    shape: LogShape
    engine: Engine
    by_stretch: bool = False
    covered: Mapping[str, Coverage | None] = field(default_factory=dict)
    rows: RowSums | None = None

    def load_events(self, source: Source, metrics: Sequence[Metric]) -> None:
        """Run the query of a source of events, as the relation of its name, for some metrics."""
        write_unit_event(self.experiment, self.engine, self.shape, self.covered, metrics)
        self.engine.table(source.name, query(source.query))

    def scored(self, columns: Sequence[str]) -> str:
        """SQL of the period's impressions: variant, score of the variant's model, and columns."""
        score = by_value("u.variant", {v: f"i.{s}" for v, s in self.shape.score_of.items()})
        kept = ", ".join(f"i.{column}" for column in columns)
        return f"""
        with served as (
          select u.variant, {kept}, {score} as score
          from impressions i join units u on i.unit_id = u.unit_id
          where i.in_period
        )
        select * from served where score is not null
        """
