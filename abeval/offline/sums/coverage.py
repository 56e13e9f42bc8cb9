"""Which requests each model scores, and which all of them do: those are compared."""

from collections.abc import Mapping
from dataclasses import dataclass

from abeval.engines.protocol import Engine, whole_number
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.offline.candidates.rows import Rows
from abeval.offline.kernels import choice as kernels
from abeval.offline.metrics.presets import Policy
from abeval.offline.sums.sums import Replayed
from abeval.results.replay import ModelCoverage


@dataclass(frozen=True)
class Overview:
    """What is known before any metric.

    Attributes:
        coverage: How much each model scores.
        largest_grade: The largest relevance.
        uncompared: Requests that only some of the models score, where those are left out.
    """

    coverage: tuple[ModelCoverage, ...]
    largest_grade: float
    uncompared: int

    @property
    def scored(self) -> list[str]:
        """The models that have any score."""
        return [model.model for model in self.coverage if model.scored_requests]


def overview_of_rows(rows: Rows, policy: Policy) -> Overview:
    """The overview of rows that are at hand."""
    uncompared = int(rows.uncompared().sum()) if policy.missing == "drop" else 0
    largest = float(rows.grade.max()) if rows.grade.size else 0.0
    return Overview(tuple(kernels.coverage(rows)), largest, uncompared)


def overview_by_queries(engine: Engine, replayed: Replayed, policy: Policy) -> Overview:
    """The same by queries; makes `requests_N` of every model, and `uncompared_requests`."""
    for i, sql in enumerate(replayed.candidates.values()):
        engine.view("model_items", sql)
        engine.table(f"requests_{i}", query("offline/requests"))
    numbers = {model: i for i, model in enumerate(replayed.candidates)}
    _all_requests(engine, numbers)
    found = engine.rows(query("offline/coverage"))
    ((largest,),) = engine.rows("select max(largest_grade) from model_requests")
    coverage = tuple(ModelCoverage(str(m), *(int(n or 0) for n in row)) for m, *row in found)
    scored = {m.model: numbers[m.model] for m in coverage if m.scored_requests}
    uncompared = _uncompared(engine, scored) if policy.missing == "drop" else 0
    return Overview(coverage, float(largest or 0), uncompared)


def _all_requests(engine: Engine, numbers: Mapping[str, int]) -> None:
    parts = (f"select {literal(m)} as model, * from requests_{i}" for m, i in numbers.items())
    engine.view("model_requests", " union all ".join(parts))


def _uncompared(engine: Engine, numbers: Mapping[str, int]) -> int:
    """Make `uncompared_requests`, and count them; a model without any score has no say."""
    if len(numbers) < 2:
        return 0
    _all_requests(engine, numbers)
    engine.table("uncompared_requests", query("offline/uncompared"))
    return whole_number(engine, "select count(*) from uncompared_requests")
