"""Exact sums of slices of metrics: by one pass over arrays where that is possible, else by queries.

`metric_queries.py` writes the terms of the slices, and hands the rows on to `collect.py` and
`time/`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from abeval.aggregates.kernels.moment_pass import is_of_one_cell, sums_by_arrays
from abeval.aggregates.terms import MomentQuery, Row, SliceTerms, large, moment_row
from abeval.engines.protocol import ArrayEngine, Engine, whole
from abeval.engines.queries import query
from abeval.errors import ExperimentError, QueryError
from abeval.metrics.definition import Metric

_TOO_LARGE = (
    "sums of squares must stay below 1e38 steps of `resolution` (1e-6 by default): divide the "
    "value, or set a coarser resolution"
)


@dataclass(frozen=True)
class SliceQueries:
    """What sums slices over a relation of values per unit.

    Attributes:
        engine: Where the queries run.
        variants: The variants of the experiment.
        by_stretch: Whether units are summed by stretch.
    """

    engine: Engine
    variants: Sequence[str]
    by_stretch: bool

    def sums(self, slices: Sequence[SliceTerms], relation: str) -> list[Row]:
        """Exact sums by cell, variant and stretch: rows of `moment_rows.MOMENT_COLUMNS`."""
        by_arrays = self._by_arrays([part for part in slices if is_of_one_cell(part)], relation)
        by_query: dict[MomentQuery, list[SliceTerms]] = {}
        for part in slices if by_arrays is None else (p for p in slices if not is_of_one_cell(p)):
            by_query.setdefault(part.terms.query, []).append(part)
        summed = (self._summed(parts, one, relation) for one, parts in by_query.items())
        return [*(by_arrays or ()), *(row for rows in summed for row in rows)]

    def _by_arrays(self, slices: Sequence[SliceTerms], relation: str) -> list[Row] | None:
        """The sums by one pass over arrays; None where it cannot compute them."""
        if not slices or not isinstance(self.engine, ArrayEngine):
            return None
        rows = sums_by_arrays(self.engine, slices, relation, self.variants, self.by_stretch)
        if rows is None:
            return None
        return [
            moment_row((part.metric.name, part.slice_name, *row), part.terms.query)
            for part, of_part in zip(slices, rows, strict=True)
            for row in of_part
        ]

    def _summed(
        self, slices: Sequence[SliceTerms], summed: MomentQuery, relation: str
    ) -> list[Row]:
        self.show(slices, relation)
        try:
            rows = self.engine.rows(query(summed.name))
        except QueryError as error:
            if error.hint is not None:
                raise
            summed = large(summed)
            rows = self._large(slices, summed, relation)
        named = [(part.metric.name, part.slice_name) for part in slices]
        return [moment_row((*named[whole(number)], *row), summed) for number, *row in rows]

    def _large(
        self, slices: Sequence[SliceTerms], summed: MomentQuery, relation: str
    ) -> Sequence[Row]:
        """The rows of a query of large values, or an error that names the metric."""
        try:
            return self.engine.rows(query(summed.name))
        except QueryError:
            self._blame(slices, summed, relation)
            raise

    def _blame(self, slices: Sequence[SliceTerms], summed: MomentQuery, relation: str) -> None:
        """Raise the error of the first metric whose own sums cannot be computed."""
        for part in slices:
            self.show([part], relation)
            try:
                self.engine.rows(query(summed.name))
            except QueryError as error:
                what = f"metric {part.metric.name!r}: its sums cannot be computed: {error.what}"
                raise ExperimentError(what, _TOO_LARGE) from error

    def show(self, slices: Sequence[SliceTerms], relation: str) -> None:
        """Show the values of all slices as `metric`."""
        stretch = "stretch" if self.by_stretch else "0 as stretch"
        parts = (
            f"select {number} as part, {part.cell} as cell, variant, {stretch}, "
            f"{part.terms.shown} from {relation}{_condition(part)}"
            for number, part in enumerate(slices)
        )
        self.engine.view("metric", "\nunion all ".join(parts))


def condition_of(metric: Metric) -> str:
    """The condition of the units that a metric is of; none for all units."""
    return "" if metric.among is None else f" where t_{metric.among.column.removeprefix('c_')} = 1"


def _condition(part: SliceTerms) -> str:
    return condition_of(part.metric) if part.of_units else ""
