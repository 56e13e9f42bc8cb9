"""Sums every metric of every model per unit, over the requests that every model scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import ArrayEngine, Engine
from abeval.errors import LogError
from abeval.offline import beyond, kernels, scores
from abeval.offline.definitions import OfflineMetric
from abeval.offline.jackknife import UNIT_GROUPS
from abeval.offline.presets import Policy
from abeval.offline.ranking import add_ranking
from abeval.offline.result import ModelCoverage
from abeval.offline.rows import Rows
from abeval.offline.units import UnitValues
from abeval.queries import query
from abeval.sql import literal

if TYPE_CHECKING:
    import pandas as pd

Step = Callable[[str], None]

_LARGEST_GRADE = 1e4
"""Larger relevance would not fit the sums, which are of whole multiples of 1e-12."""

_LARGEST_SCORE = 1e6
"""Larger scores are no predictions of anything; their errors would not fit the sums."""


@dataclass(frozen=True)
class Replayed:
    """Models to be replayed, as SQL over what an engine holds already.

    Attributes:
        candidates: Model → its candidates: `unit_id, request_id, item_id, score, tie, grade`.
        same_lists: Whether all models order the same items of a request.
        history: SQL of `unit_id, item_id`, a row per earlier choice, where that is known.
        catalogue: SQL of `item_id`, the items that could have been listed, beside those that were.
        rows: The same candidates as arrays, where kernels may do what queries else do.
    """

    candidates: Mapping[str, str]
    same_lists: bool
    history: str | None = None
    catalogue: str | None = None
    rows: Rows | None = None


@dataclass(frozen=True, eq=False)
class Units:
    """The units of a replay.

    Attributes:
        ids: Ascending.
        traffic: The variant of each, or what else its traffic is called.
        group: The group of each, for jackknives.
    """

    ids: NDArray[np.generic]
    traffic: NDArray[np.str_]
    group: NDArray[np.int64]

    @classmethod
    def of_one_traffic(cls, ids: NDArray[np.generic]) -> Units:
        """Units that are not told apart; groups by their order."""
        return cls(ids, np.full(ids.size, "all"), np.arange(1, ids.size + 1) % UNIT_GROUPS)


@dataclass(frozen=True)
class ModelSums:
    """What one model adds up to.

    Attributes:
        values: Per unit.
        curve: The calibration curve by traffic and group of units, where a metric asks.
        listed: In how many lists each item stands, by traffic, cut-off and group, where one asks.
        low: Its smallest score.
        high: Its largest.
    """

    values: UnitValues
    curve: pd.DataFrame | None
    listed: pd.DataFrame | None
    low: float
    high: float

    @property
    def probabilities(self) -> bool:
        """Whether every score lies in [0, 1]."""
        return self.low >= 0 and self.high <= 1


@dataclass(frozen=True)
class Sums:
    """What a replay adds up to, the waist between the queries and the statistics.

    Attributes:
        traffic: The traffic of each unit, in the order of every model's values.
        group: The group of each unit, for jackknives.
        models: Model → its sums; a model without any score is not in it.
        coverage: How much each model scores.
        uncompared: Requests that only some of the models score.
        longest: Items of the longest list with a relevant item.
        catalogue: Items that could have been listed.
        has_history: Whether it is known what was chosen before.
        largest_grade: Of any item.
    """

    traffic: NDArray[np.str_]
    group: NDArray[np.int64]
    models: Mapping[str, ModelSums]
    coverage: tuple[ModelCoverage, ...]
    uncompared: int
    longest: int
    catalogue: int
    has_history: bool
    largest_grade: float


@dataclass(frozen=True)
class _Overview:
    """What is known before any metric: coverage, largest relevance, requests left out."""

    coverage: tuple[ModelCoverage, ...]
    largest_grade: float
    uncompared: int

    @property
    def scored(self) -> list[str]:
        """The models that have any score."""
        return [model.model for model in self.coverage if model.scored_requests]


def read_units(engine: Engine) -> Units:
    """The units of the relation `traffic`."""
    sql = "select unit_id, traffic, unit_group from traffic order by unit_id"
    found = engine.arrays(sql) if isinstance(engine, ArrayEngine) else engine.frame(sql)
    ids, traffic, group = (np.asarray(found[c]) for c in ("unit_id", "traffic", "unit_group"))
    return Units(ids, traffic.astype(np.str_), group.astype(np.int64))


def one_traffic(rows: str) -> str:
    """SQL of `traffic` where the units of a relation are not told apart."""
    number = "row_number() over (order by unit_id)"
    return (
        f"select unit_id, 'all' as traffic, {number} % {UNIT_GROUPS} as unit_group "
        f"from (select distinct unit_id from {rows}) as u"
    )


def run_models(
    engine: Engine,
    replayed: Replayed,
    units: Units,
    metrics: Sequence[OfflineMetric],
    policy: Policy,
    options: scores.ScoreOptions,
    step: Step,
) -> Sums:
    """Sum every metric of every model per unit.

    Args:
        engine: Holds the relations that the candidates read, and `traffic` (unit_id, traffic).
        replayed: The models.
        units: Those of `traffic`.
        metrics: What to sum.
        policy: What is left out.
        options: Of the metrics of scores.
        step: Told the name of each step as it begins.

    Raises:
        LogError: Relevance is too large to be summed.
    """
    step("requests")
    rows = replayed.rows
    overview = _overview(engine, replayed, policy) if rows is None else _seen(rows, policy)
    _check_grade(overview.largest_grade)
    if rows is not None and overview.uncompared:
        rows = rows.only(~rows.uncompared())
    slow = [m for m in metrics if rows is None or not kernels.covers(m, rows)]
    if rows is not None and slow and overview.uncompared:
        _overview(engine, replayed, policy)
    catalogue = 0
    if any(m.definition.family in ("beyond", "catalogue") for m in metrics):
        catalogue = _catalogue(engine, replayed, overview.scored)
        beyond.write_history(engine, replayed.history, catalogue)
    models = {}
    longest = 0 if rows is None else rows.longest
    for model in overview.scored:
        step(f"metrics of {model}")
        values = UnitValues(units.ids)
        low, high = 0.0, 0.0
        if rows is not None:
            low, high = kernels.add(rows, model, metrics, values)
        if rows is None or slow:
            _open(engine, replayed, model, bool(overview.uncompared))
        if rows is None:
            low, high = _add_counts(engine, values)
            longest = max(longest, _longest(engine))
        curve, listed = _add(engine, slow, values, options, low, high)
        models[model] = ModelSums(values, curve, listed, low, high)
    return Sums(
        traffic=units.traffic,
        group=units.group,
        models=models,
        coverage=overview.coverage,
        uncompared=overview.uncompared,
        longest=longest,
        catalogue=catalogue,
        has_history=replayed.history is not None,
        largest_grade=overview.largest_grade,
    )


def _check_grade(largest: float) -> None:
    if largest > _LARGEST_GRADE:
        raise LogError(
            f"the largest relevance is {largest:g}, above {_LARGEST_GRADE:g}",
            "divide it, for example dwell in seconds rather than milliseconds",
        )


def _seen(rows: Rows, policy: Policy) -> _Overview:
    """The overview of rows that are at hand."""
    uncompared = int(rows.uncompared().sum()) if policy.missing == "drop" else 0
    largest = float(rows.grade.max()) if rows.grade.size else 0.0
    return _Overview(tuple(kernels.coverage(rows)), largest, uncompared)


def _overview(engine: Engine, replayed: Replayed, policy: Policy) -> _Overview:
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
    return _Overview(coverage, float(largest or 0), uncompared)


def _all_requests(engine: Engine, numbers: Mapping[str, int]) -> None:
    parts = (f"select {literal(m)} as model, * from requests_{i}" for m, i in numbers.items())
    engine.view("model_requests", " union all ".join(parts))


def _uncompared(engine: Engine, numbers: Mapping[str, int]) -> int:
    """Make `uncompared_requests`, and count them; a model without any score has no say."""
    if len(numbers) < 2:
        return 0
    _all_requests(engine, numbers)
    engine.table("uncompared_requests", query("offline/uncompared"))
    ((count,),) = engine.rows("select count(*) from uncompared_requests")
    return int(count or 0)


def _open(engine: Engine, replayed: Replayed, model: str, filtered: bool) -> None:
    """Make `model_items`, `requests` and `scored_rows` those of a model."""
    compared = (
        "select c.* from ({}) c anti join uncompared_requests u on c.request_id = u.request_id"
        if filtered
        else "{}"
    )
    engine.view("model_items", compared.format(replayed.candidates[model]))
    if replayed.rows is None:
        number = list(replayed.candidates).index(model)
        engine.view("requests", compared.format(f"select * from requests_{number}"))
    else:
        engine.view("requests", query("offline/requests"))
    engine.view(
        "scored_rows",
        "select unit_id, request_id, item_id, score, grade, "
        "case when grade > 0 then 1 else 0 end as click from model_items where score is not null",
    )
    engine.view(
        "traffic_rows",
        "select t.traffic, t.unit_group, s.* from scored_rows s "
        "join traffic t on s.unit_id = t.unit_id",
    )


def _catalogue(engine: Engine, replayed: Replayed, models: Sequence[str]) -> int:
    """Items of the catalogue, and of any list or history."""
    sources = [replayed.candidates[model] for model in models]
    sources += [sql for sql in (replayed.history, replayed.catalogue) if sql is not None]
    if not sources:
        return 0
    every = " union ".join(f"select item_id from ({sql}) as s" for sql in sources)
    ((count,),) = engine.rows(f"select count(*) from ({every}) as c where item_id is not null")
    return int(count or 0)


def _longest(engine: Engine) -> int:
    ((longest,),) = engine.rows("select max(items) from requests where relevant > 0")
    return int(longest or 0)


def _add_counts(engine: Engine, values: UnitValues) -> tuple[float, float]:
    """Add the counts of requests; the smallest and the largest score."""
    counts = ("requests", "relevant", "listed", "listed_relevant")
    values.add(engine.frame(query("offline/unit_requests")), {name: name for name in counts})
    ((low, high),) = engine.rows("select min(score), max(score) from scored_rows")
    return float(low or 0), float(high or 0)


def _add(
    engine: Engine,
    metrics: Sequence[OfflineMetric],
    values: UnitValues,
    options: scores.ScoreOptions,
    low: float,
    high: float,
) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    """Add the sums of metrics by queries; the calibration curve and the listed items."""
    add_ranking(engine, metrics, values)
    scores.add_pairs(engine, metrics, values)
    for by in ("traffic", "pooled"):
        scores.add_auc(engine, metrics, values, by)
    if max(abs(low), abs(high)) <= _LARGEST_SCORE:
        scores.add_points(engine, metrics, values, options.threshold)
    binned = any(m.definition.family == "bins" for m in metrics)
    fit = binned and low >= 0 and high <= 1
    curve = scores.calibration(engine, options.bins) if fit else None
    return curve, beyond.add_lists(engine, metrics, values)
