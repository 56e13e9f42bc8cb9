"""Runs the queries of a replay, model by model, over the requests that every model scores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from abeval.engines.protocol import Engine
from abeval.errors import LogError
from abeval.offline import beyond, scores
from abeval.offline.definitions import OfflineMetric
from abeval.offline.presets import Policy
from abeval.offline.ranking import add_ranking
from abeval.offline.units import UnitValues
from abeval.queries import query
from abeval.sql import literal

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
    """

    candidates: Mapping[str, str]
    same_lists: bool
    history: str | None = None
    catalogue: str | None = None


@dataclass(frozen=True)
class ModelSums:
    """What one model adds up to.

    Attributes:
        values: Per unit.
        curve: The calibration curve of each traffic.
        listed: In how many lists each item stands, by traffic and cut-off.
        low: Its smallest score.
        high: Its largest.
    """

    values: UnitValues
    curve: pd.DataFrame
    listed: pd.DataFrame
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
        models: Model → its sums; a model without any score is not in it.
        coverage: `model, requests, listed, rows, unscored`.
        uncompared: Requests that only some of the models score.
        longest: Items of the longest list with a relevant item.
        catalogue: Items that could have been listed.
        has_history: Whether it is known what was chosen before.
        largest_grade: Of any item.
    """

    traffic: NDArray[np.str_]
    models: Mapping[str, ModelSums]
    coverage: pd.DataFrame
    uncompared: int
    longest: int
    catalogue: int
    has_history: bool
    largest_grade: float


def run_models(
    engine: Engine,
    replayed: Replayed,
    metrics: Sequence[OfflineMetric],
    policy: Policy,
    options: scores.ScoreOptions,
    step: Step,
) -> Sums:
    """Sum every metric of every model per unit.

    Args:
        engine: Holds the relations that the candidates read, and `traffic` (unit_id, traffic).
        replayed: The models.
        metrics: What to sum.
        policy: What is left out.
        options: Of the metrics of scores.
        step: Told the name of each step as it begins.

    Raises:
        LogError: Relevance is too large to be summed.
    """
    step("requests")
    coverage = _cover(engine, replayed)
    largest = _largest_grade(engine)
    scored = {str(m) for m in coverage.loc[coverage["listed"] > 0, "model"]}
    numbers = {m: i for i, m in enumerate(replayed.candidates) if m in scored}
    uncompared = _uncompared(engine, numbers) if policy.missing == "drop" else 0
    units = engine.frame("select unit_id, traffic from traffic order by unit_id")
    catalogue = 0
    if any(m.definition.family in ("beyond", "catalogue") for m in metrics):
        catalogue = _catalogue(engine, replayed, list(numbers))
        beyond.write_history(engine, replayed.history, catalogue)
    models = {}
    longest = 0
    for model, number in numbers.items():
        step(f"metrics of {model}")
        _open(engine, replayed.candidates[model], number, bool(uncompared))
        longest = max(longest, _longest(engine))
        values = UnitValues(pd.Index(units["unit_id"]))
        models[model] = _sums(engine, metrics, values, options)
    traffic = units["traffic"].to_numpy(dtype=np.str_)
    has_history = replayed.history is not None
    return Sums(traffic, models, coverage, uncompared, longest, catalogue, has_history, largest)


def _cover(engine: Engine, replayed: Replayed) -> pd.DataFrame:
    """Make `requests_N` of every model: how much of each request it scores."""
    for i, sql in enumerate(replayed.candidates.values()):
        engine.view("model_items", sql)
        engine.table(f"requests_{i}", query("offline/requests"))
    _all_requests(engine, {model: i for i, model in enumerate(replayed.candidates)})
    return engine.frame(query("offline/coverage"))


def _largest_grade(engine: Engine) -> float:
    ((grade,),) = engine.rows("select max(largest_grade) from model_requests")
    largest = float(grade or 0)
    if largest > _LARGEST_GRADE:
        raise LogError(
            f"the largest relevance is {largest:g}, above {_LARGEST_GRADE:g}",
            "divide it, for example dwell in seconds rather than milliseconds",
        )
    return largest


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


def _open(engine: Engine, candidates: str, number: int, filtered: bool) -> None:
    """Make `model_items`, `requests` and `scored_rows` those of a model."""
    compared = (
        "select c.* from ({}) c anti join uncompared_requests u on c.request_id = u.request_id"
        if filtered
        else "{}"
    )
    engine.view("model_items", compared.format(candidates))
    engine.view("requests", compared.format(f"select * from requests_{number}"))
    engine.view(
        "scored_rows",
        "select unit_id, request_id, item_id, score, grade, "
        "case when grade > 0 then 1 else 0 end as click from model_items where score is not null",
    )
    engine.view(
        "traffic_rows",
        "select t.traffic, s.* from scored_rows s join traffic t on s.unit_id = t.unit_id",
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


def _sums(
    engine: Engine,
    metrics: Sequence[OfflineMetric],
    values: UnitValues,
    options: scores.ScoreOptions,
) -> ModelSums:
    counts = ("requests", "relevant", "listed", "listed_relevant")
    values.add(engine.frame(query("offline/unit_requests")), {name: name for name in counts})
    add_ranking(engine, metrics, values)
    ((low, high),) = engine.rows("select min(score), max(score) from scored_rows")
    smallest, largest = float(low or 0), float(high or 0)
    scores.add_pairs(engine, metrics, values)
    for by in ("traffic", "pooled"):
        scores.add_auc(engine, metrics, values, by)
    if max(abs(smallest), abs(largest)) <= _LARGEST_SCORE:
        scores.add_points(engine, metrics, values, options.threshold)
    binned = any(m.definition.family == "bins" for m in metrics)
    fit = binned and smallest >= 0 and largest <= 1
    curve = scores.calibration(engine, options.bins) if fit else pd.DataFrame()
    listed = beyond.add_lists(engine, metrics, values)
    return ModelSums(values, curve, listed, smallest, largest)
