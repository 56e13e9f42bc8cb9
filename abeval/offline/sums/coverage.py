"""Which requests each model scores; those that all models score are compared.

`offline/sums/run.py` calls it first, with the candidates as arrays or as SQL, and leaves out the
other requests; the coverage goes into the `Sums`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from abeval.engines.protocol import Engine, whole, whole_number
from abeval.engines.sql import literal, query
from abeval.offline import kernels as kernels
from abeval.offline.candidates import Candidates
from abeval.offline.metrics import Policy
from abeval.offline.rows import Rows
from abeval.results.replay import ModelCoverage


@dataclass(frozen=True)
class Overview:
    """Facts about the candidates, known before any metric.

    Attributes:
        coverage: How much each model scores.
        largest_grade: The largest relevance.
        uncompared: Requests left out because only some of the models score them.
    """

    coverage: tuple[ModelCoverage, ...]
    largest_grade: float
    uncompared: int

    @property
    def scored(self) -> list[str]:
        """The models that have any score."""
        return [model.model for model in self.coverage if model.scored_requests]


def overview_of_rows(rows: Rows, policy: Policy) -> Overview:
    """The overview of candidates as arrays."""
    uncompared = int(rows.uncompared().sum()) if policy.missing == "drop" else 0
    largest = float(rows.grades.max(initial=0))
    return Overview(tuple(kernels.coverage(rows)), largest, uncompared)


def overview_by_queries(engine: Engine, candidates: Candidates, policy: Policy) -> Overview:
    """The overview by queries; makes `requests_N` of every model, and `uncompared_requests`."""
    numbers = {model: i for i, model in enumerate(candidates.sql)}
    for model, i in numbers.items():
        open_model(engine, candidates.sql[model])
        engine.table(f"requests_{i}", query("offline/requests"))
    _open_requests(engine, numbers)
    rows = engine.rows(query("offline/coverage"))
    ((largest,),) = engine.rows("select max(largest_grade) from model_requests")
    coverage = tuple(ModelCoverage(str(m), *(whole(n) for n in counts)) for m, *counts in rows)
    scored = {m.model: numbers[m.model] for m in coverage if m.scored_requests}
    uncompared = _uncompared(engine, scored) if policy.missing == "drop" else 0
    return Overview(coverage, float(largest or 0), uncompared)


def open_model(engine: Engine, sql: str) -> None:
    """Make `model_items`, the candidates of one model."""
    engine.view("model_items", sql)


def _open_requests(engine: Engine, numbers: Mapping[str, int]) -> None:
    parts = (f"select {literal(m)} as model, * from requests_{i}" for m, i in numbers.items())
    engine.view("model_requests", " union all ".join(parts))


def _uncompared(engine: Engine, numbers: Mapping[str, int]) -> int:
    """Make `uncompared_requests` of the models that have a score, and count them."""
    if len(numbers) < 2:
        return 0
    _open_requests(engine, numbers)
    engine.table("uncompared_requests", query("offline/uncompared"))
    return whole_number(engine, "select count(*) from uncompared_requests")
