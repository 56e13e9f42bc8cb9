"""The values that quantiles rank: what stands next to a place, and what lies below a quantile.

`quantiles.py` asks for it. `kernels/events.py` answers for the whole period, `QueriedValues` by
queries for windows.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from abeval.aggregates.kernels.events import Place, Span
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.moment_rows import MOMENT_COLUMNS, moments_by_variant
from abeval.aggregates.slice_sums import SqlSlice
from abeval.aggregates.unit_sums import Row
from abeval.engines.protocol import whole
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.metrics.definition import Metric
from abeval.stats.mid_distribution import PARTS, Step
from abeval.stats.moments import Moments


class Values(Protocol):
    """Impressions that have a value."""

    @property
    def spans(self) -> Mapping[str, Span]:
        """Variant → how many values it has, and the outermost."""

    def steps(self, places: Sequence[Place]) -> dict[Place, Step]:
        """The neighbouring values of each place that lies between two."""

    def below(self, steps: Sequence[Mapping[Place, Step]]) -> list[dict[str, Moments]]:
        """Of each quantile: variant → moments over units of the values below it, and of all."""


@dataclass(frozen=True)
class QueriedValues:
    """Values that queries rank; those of one at a time.

    Attributes:
        queries: The metric queries.
        metric: A quantile of these values.
        events: SQL of `variant, unit_id, value`.
    """

    queries: MetricQueries
    metric: Metric
    events: str

    @property
    def spans(self) -> Mapping[str, Span]:
        """Write the values as `quantile_event` and `quantile_level`, and count them."""
        engine = self.queries.engine
        engine.table("quantile_event", self.events)
        engine.table("quantile_level", query("metric/quantile_levels"))
        rows = engine.rows(query("metric/quantile_events"))
        return {str(row[0]): Span(*(whole(one) for one in row[1:])) for row in rows}

    def steps(self, places: Sequence[Place]) -> dict[Place, Step]:
        """The neighbouring values of each place that lies between two."""
        if not places:
            return {}
        # A middle is a whole number: it is at or below a place where it is at or below its floor.
        listed = {(variant, math.floor(at)) for variant, at in places}
        rows = [(literal(variant), str(at)) for variant, at in sorted(listed)]
        self._show("wanted_place", ("variant", "place"), rows)
        steps = {
            (str(variant), whole(at)): Step(*(whole(one) for one in step))
            for variant, at, *step in self.queries.engine.rows(query("metric/quantile_values"))
        }
        return {
            (variant, at): steps[variant, math.floor(at)]
            for variant, at in places
            if (variant, math.floor(at)) in steps
        }

    def below(self, steps: Sequence[Mapping[Place, Step]]) -> list[dict[str, Moments]]:
        """By one pass over the values for all quantiles."""
        queries = self.queries
        columns = ("number", "lower", "upper", "whole", "at_lower", "at_upper")
        rows = [
            (literal(variant), *map(str, (i, step.lower, step.upper, PARTS, *step.weights(at))))
            for i, of_quantile in enumerate(steps)
            for (variant, at), step in sorted(of_quantile.items())
        ]
        if not rows:
            return [{} for _ in steps]
        self._show("quantile_step", ("step_variant", *columns), rows)
        queries.engine.view("quantile_unit", query("units/quantile_below", queries.units))
        terms = SqlSlice(self.metric.name, "quantile", "t_below", "t_events", "number")
        summed: dict[str, list[Row]] = {str(i): [] for i in range(len(steps))}
        for row in queries.sums([terms], "quantile_unit"):
            summed[str(row[MOMENT_COLUMNS.index("cell")])].append(row)
        moments = [moments_by_variant(own, (1 / PARTS, 1.0)) for own in summed.values()]
        return [
            {variant: counts[variant] for variant, _ in of_quantile}
            for of_quantile, counts in zip(steps, moments, strict=True)
        ]

    def _show(self, name: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Show whole numbers of each variant, which the first column names, as a relation."""
        listed = ", ".join(
            f"({', '.join([variant, *(f'cast({one} as bigint)' for one in numbers)])})"
            for variant, *numbers in rows
        )
        named = ", ".join(columns)
        self.queries.engine.view(name, f"select * from (values {listed}) as v ({named})")
