"""Sum metrics by unit, over the requests that every model scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from abeval.engines.sql import Engine, fetch_int, literal, query, read_int
from abeval.errors import LogError
from abeval.offline import metrics
from abeval.offline.candidates import Candidates, Units
from abeval.offline.metrics import UNCUT, Definition, Family, OfflineMetric, Scoring
from abeval.progress import Step
from abeval.results.replay import ModelCoverage
from abeval.stats.records import Floats

if TYPE_CHECKING:
    from abeval.engines.sql import Columns

SCALE = 1e-9
"""Most values are added as whole multiples of this, so that the order of adding is irrelevant."""

_FINE = 1e-12
"""The same for values of lists."""

_OF_HITS: tuple[Family, ...] = ("list", "tied", "cascade")
"""Families that are computed of the places of relevant items."""

_LONGEST = 1_000_000
"""No list is longer."""

_LARGEST_GRADE = 1e4
"""Larger relevance would overflow the sums of whole multiples of 1e-12."""

_LARGEST_SCORE = 1e6
"""Larger scores are no predictions, and their errors would overflow the sums."""

Key = tuple[str, str, int]
"""A column of sums per unit: family of metrics, name, cut-off."""


@dataclass
class ModelSums:
    """The sums of one model; columns are added in place.

    `items` counts those in its lists, and `unjudged` those of them that nobody judged, where that
    may be; `longest` the items of its longest list with a relevant item. `curve`, by traffic and
    group of units, and `listed_items`, the lists that hold each item by traffic, cut-off and
    group, are None unless a metric needs them.
    """

    units: Units
    low: float
    high: float
    is_binary: bool
    lowest_grade: float
    longest: int
    items: int
    unjudged: int
    columns: dict[Key, Floats] = field(default_factory=dict)
    curve: Columns | None = None
    listed_items: Columns | None = None

    @property
    def probabilities(self) -> bool:
        """Return whether every score lies in [0, 1]."""
        return self.low >= 0 and self.high <= 1

    def column(self, family: str, name: str, k: int = UNCUT) -> Floats:
        """Return the sums of each unit."""
        return self.columns[family, name, k]

    def add(self, family: str, rows: Columns, scale: float = SCALE, k: int = UNCUT) -> None:
        """Add columns of rows of single units, by their numbers `unit_id`.

        Other units have zero.

        Columns `v_…` are whole multiples of `scale`.
        """
        index = rows["unit_id"]
        for name in (name for name in rows if name not in ("unit_id", "k")):
            sums = np.zeros(len(self.units.ids))
            # A null becomes NaN, because the number behind a mask is arbitrary.
            column = np.ma.filled(np.ma.asarray(rows[name], dtype=np.float64), np.nan)
            sums[index] = column * (scale if name.startswith("v_") else 1.0)
            self.columns[family, name.removeprefix("v_"), k] = sums

    def add_cuts(self, engine: Engine, family: Family, sql: str, ks: Sequence[int]) -> None:
        """Add the sums of values at cut-offs.

        `sql` has `request_id, unit_id, k`, values `v_…`.

        A negative cut-off is a named one: of each request the value at its own.
        """
        named_cutoffs = [str(k) for k in ks if k < 0]
        engine.view("cut_values", sql)
        values_sql = "select * from cut_values"
        if named_cutoffs:
            columns = [name for name in engine.columns("cut_values") if name.startswith("v_")]
            values = ", ".join(f"v.{name}" for name in columns)
            # A value at a named cut-off is one that was computed at a number, so it is only looked
            # up.
            values_sql = (
                f"select v.unit_id, v.k, {values} from cut_values v union all "
                f"select v.unit_id, c.cutoff as k, {values} from cut_values v "
                "join request_cutoffs c on v.request_id = c.request_id and v.k = c.k "
                f"where c.cutoff in ({', '.join(named_cutoffs)})"
            )
        engine.view("wanted_values", values_sql)
        rows = engine.arrays(query("offline/unit_values"))
        for k in ks:
            of_cut = rows["k"] == k
            self.add(family, {name: column[of_cut] for name, column in rows.items()}, _FINE, k)


@dataclass(frozen=True)
class Sums:
    """The sums of a replay: all that the statistics know of the log.

    `models` lacks those without any score. `uncompared` counts requests that only some models
    score, `catalogue` the items that could have been listed.
    """

    candidates: Candidates
    models: Mapping[str, ModelSums]
    coverage: tuple[ModelCoverage, ...]
    uncompared: int
    catalogue: int
    largest_grade: float

    @property
    def units(self) -> Units:
        """Return the units of all models."""
        return self.candidates.units

    @property
    def longest(self) -> int:
        """Return the number of items of the longest list with a relevant item."""
        return max((sums.longest for sums in self.models.values()), default=0)

    def least_cutoff(self, metric: OfflineMetric) -> int:
        """Return the cut-off of a metric, of a named one the least."""
        return min(self.candidates.cutoffs.get(metric.cutoff, [metric.cutoff]))


def sum_models(engine: Engine, candidates: Candidates, scoring: Scoring, step: Step) -> Sums:
    """Sum every metric of every model per unit.

    Refuse relevance that is too large to be summed.

    The engine has `traffic`, and the relations that the candidates read.
    """
    step("requests")
    drop = scoring.policy.missing == "drop"
    if scoring.policy.unjudged == "drop":
        judged = {
            m: f"select * from ({sql}) as j where judged = 1" for m, sql in candidates.sql.items()
        }
        # How much of the lists was judged is counted in the lists as they were given.
        every, candidates = candidates, replace(candidates, sql=judged)
    else:
        every = candidates
    coverage, largest, uncompared = _count_requests(engine, candidates, drop)
    if largest > _LARGEST_GRADE:
        raise LogError(
            f"the largest relevance is {largest:g}, above {_LARGEST_GRADE:g}",
            "divide it, for example dwell in seconds rather than milliseconds",
        )
    scored = [model.model for model in coverage if model.scored_requests]
    catalogue = _write_catalogue(engine, candidates, scoring.metrics, scored)
    models = {}
    for model in scored:
        step(f"metrics of {model}")
        _open_model(engine, candidates, model, uncompared > 0)
        engine.view("every_item", every.sql[model])
        engine.view("largest", f"select cast({largest!r} as double) as grade")
        # Candidates with points were shown, so all of them are judged.
        models[model] = _start_sums(engine, candidates.units, has_unjudged=not every.points)
        _add_metrics(engine, models[model], scoring, candidates.cutoffs)
        if any(metric.definition.family == "predicted" for metric in scoring.metrics):
            # Of all requests: some are not compared because a model has no score there.
            models[model].add("predicted", engine.arrays(query("offline/predicted")))
    return Sums(candidates, models, coverage, uncompared, catalogue, largest)


def _count_requests(
    engine: Engine, candidates: Candidates, drop: bool
) -> tuple[tuple[ModelCoverage, ...], float, int]:
    """Make `requests_N` of every model, and `uncompared_requests`.

    The latter are made only if `drop` leaves them out.

    Returns:
        What each model scores, the largest relevance, and the number of uncompared requests.
    """
    numbers = {model: i for i, model in enumerate(candidates.sql)}
    for model, i in numbers.items():
        _open_items(engine, candidates.sql[model])
        engine.table(f"requests_{i}", query("offline/requests"))
    _open_requests(engine, numbers)
    rows = engine.rows(query("offline/coverage"))
    ((largest,),) = engine.rows("select max(largest_grade) from model_requests")
    coverage = tuple(ModelCoverage(str(m), *(read_int(n) for n in counts)) for m, *counts in rows)
    scored = {row.model: numbers[row.model] for row in coverage if row.scored_requests}
    # A missing score that counts as zero leaves no request out, nor does a model alone.
    if not drop or len(scored) < 2:
        return coverage, float(largest or 0), 0
    # A model without any score would leave no request to compare the others by.
    _open_requests(engine, scored)
    engine.table("uncompared_requests", query("offline/uncompared"))
    uncompared = fetch_int(engine, "select count(*) from uncompared_requests")
    return coverage, float(largest or 0), uncompared


def _open_items(engine: Engine, sql: str) -> None:
    engine.view("model_items", sql)


def _open_requests(engine: Engine, numbers: Mapping[str, int]) -> None:
    selects = (f"select {literal(m)} as model, * from requests_{i}" for m, i in numbers.items())
    engine.view("model_requests", " union all ".join(selects))


def _write_catalogue(
    engine: Engine,
    candidates: Candidates,
    chosen_metrics: Sequence[OfflineMetric],
    models: Sequence[str],
) -> int:
    """Make what metrics of lists read.

    Return the number of items of the catalogue, 0 without such metrics.
    """
    if all(m.definition.family not in ("beyond", "catalogue") for m in chosen_metrics):
        return 0
    sources = [candidates.sql[model] for model in models]
    sources += [sql for sql in (candidates.history, candidates.catalogue) if sql is not None]
    # An item counts once, in several lists or sources.
    every = " union all ".join(f"select item_id from ({sql}) as s" for sql in sources)
    distinct = f"select count(distinct item_id) from ({every}) as c"
    items = fetch_int(engine, distinct) if sources else 0
    empty = "select null as unit_id, null as item_id where false"
    engine.view("history", candidates.history or empty)
    engine.table("popularity", query("offline/popularity"))
    engine.table(
        "history_size",
        "select cast(count(*) as double) as interactions, "
        f"cast(count(distinct unit_id) as double) as users, {items} as items from history",
    )
    return items


def _open_model(engine: Engine, candidates: Candidates, model: str, is_filtered: bool) -> None:
    """Make `model_items`, `requests`, `scored_rows` and `traffic_rows` of a model.

    `is_filtered` says that some requests are left out.
    """

    def exclude_uncompared(rows: str) -> str:
        uncompared = "anti join uncompared_requests u on c.request_id = u.request_id"
        return f"select c.* from ({rows}) c {uncompared}" if is_filtered else rows

    _open_items(engine, exclude_uncompared(candidates.sql[model]))
    number = list(candidates.sql).index(model)
    engine.view("requests", exclude_uncompared(f"select * from requests_{number}"))
    points = candidates.points.get(model)
    source = "model_items" if points is None else f"({exclude_uncompared(points)}) as p"
    engine.view(
        "scored_rows",
        "select unit_id, request_id, item_id, score, grade, "
        f"case when grade > 0 then 1 else 0 end as click from {source} where score is not null",
    )
    engine.view(
        "traffic_rows",
        "select t.traffic, t.unit_group, s.* from scored_rows s "
        "join traffic t on s.unit_id = t.unit_id",
    )


def _start_sums(engine: Engine, units: Units, *, has_unjudged: bool) -> ModelSums:
    """Count the requests of each unit, and look at the scores and the relevance."""
    ((low, high, *grades),) = engine.rows(
        "select min(score), max(score), min(case when grade > 0 then grade end), "
        "max(case when grade > 0 then grade end), min(case when grade <= 0 then grade end), "
        "max(case when grade <= 0 then grade end) from scored_rows"
    )
    # One level above 0 and one that is not: then pairs of levels are pairs of click and no click.
    is_binary = grades[0] == grades[1] and grades[2] == grades[3]
    longest = fetch_int(engine, "select max(items) from requests where relevant > 0")
    listed = "count(*), count(case when judged = 0 then 1 end) from every_item"
    listed_items = engine.rows(f"select {listed} where score is not null") if has_unjudged else ()
    items, unjudged = map(read_int, next(iter(listed_items), (0, 0)))
    sums = ModelSums(
        units=units,
        low=float(low or 0),
        high=float(high or 0),
        is_binary=is_binary,
        lowest_grade=float(grades[2] or 0),
        longest=longest,
        items=items,
        unjudged=unjudged,
    )
    sums.add("requests", engine.arrays(query("offline/unit_requests")))
    return sums


def _add_metrics(
    engine: Engine, sums: ModelSums, scoring: Scoring, cutoffs: Mapping[int, Sequence[int]]
) -> None:
    """Add what the metrics sum.

    They read `model_items`, `requests`, `scored_rows` and `traffic_rows`.
    """
    by_family: dict[Family, list[OfflineMetric]] = {}
    for metric in scoring.metrics:
        by_family.setdefault(metric.definition.family, []).append(metric)
    held = [*by_family.get("beyond", ()), *by_family.get("catalogue", ())]
    if held or not by_family.keys().isdisjoint(_OF_HITS):
        _rank_items(engine, _list_cutoffs(held, cutoffs))
    for family in (*_OF_HITS, "judged", "bpref"):
        if chosen := by_family.get(family):
            _write_cutoffs(engine, ks := _list_cutoffs(chosen, cutoffs))
            sums.add_cuts(engine, family, _write_values(engine, family, chosen, max(ks)), ks)
    if held:
        _add_listed_metrics(engine, held, sums, _list_cutoffs(held, cutoffs))
    if pairs := by_family.get("pairs"):
        _add_pairs(engine, sums)
        if any(metric.definition.above in metrics.GRADED for metric in pairs):
            _add_graded(engine, sums)
    if "auc" in by_family:
        _add_auc(engine, sums)
    are_predictions = max(abs(sums.low), abs(sums.high)) <= _LARGEST_SCORE
    if "point" in by_family and are_predictions:
        cut = "null" if scoring.threshold is None else repr(scoring.threshold)
        engine.view("threshold", f"select cast({cut} as double) as threshold")
        sums.add("point", engine.arrays(query("offline/point_values")))
    if "regression" in by_family and are_predictions:
        sums.add("regression", engine.arrays(query("offline/regression_values")), _FINE)
    if "bins" in by_family and sums.probabilities:
        engine.view("bin_count", f"select cast({scoring.bins} as bigint) as bins")
        sums.curve = engine.arrays(query("offline/calibration"))


def _list_cutoffs(
    chosen_metrics: Sequence[OfflineMetric], cutoffs: Mapping[int, Sequence[int]]
) -> list[int]:
    """List the cut-offs of metrics, and all values of named ones."""
    every = {metric.cutoff for metric in chosen_metrics}
    return sorted(every.union(*(cutoffs.get(k, ()) for k in every)))


def _rank_items(engine: Engine, held: Sequence[int]) -> None:
    """Make `places`, the places of relevant items, and `hits`.

    `places` also has all items up to the largest cut-off in `held`.
    """
    columns, kept, ranked = "*", "grade > 0", "select * from model_items"
    if held:
        kept += f" or place <= {max(held)}"
    else:
        # Columns that nobody reads are not sorted along.
        columns = "request_id, unit_id, grade, place"
        # Places are read of relevant items alone, which nothing below the last of them moves.
        ranked = "select m.* from model_items m join requests r on m.request_id = r.request_id "
        ranked += "where m.score >= r.least_score or m.grade > 0"
    _open_ranked_items(engine, ranked)
    places = f"select {columns} from ({query('offline/places')}) as p where {kept}"
    engine.table("places", places)
    engine.view("hits", query("offline/hits"))


def _open_ranked_items(engine: Engine, sql: str) -> None:
    """Make `ranked_items`, the rows that `offline/places` ranks."""
    engine.view("ranked_items", sql)


def _add_pairs(engine: Engine, sums: ModelSums) -> None:
    """Add pairs of a relevant and another row of a unit, by places of its scores."""
    engine.table("scored_sizes", "select unit_id, count(*) as n from scored_rows group by unit_id")
    _open_ranked_items(
        engine,
        "select unit_id, unit_id as request_id, score, grade, cast(null as bigint) as item_id, "
        "cast(null as bigint) as tie, cast(null as varchar) as category from scored_rows",
    )
    clicks = f"select unit_id, above, share from ({query('offline/places')}) as p where grade > 0"
    engine.view("ranked_clicks", clicks)
    engine.view("unit_pairs", query("offline/pairs"))
    sums.add("pairs", engine.arrays(query("offline/pair_values")))


def _write_values(
    engine: Engine, family: Family, chosen_metrics: Sequence[OfflineMetric], largest: int
) -> str:
    """Write the values of each request at the `cutoffs`; `largest` is the last one."""
    if family == "list":
        engine.view("list_values", query("offline/list_values"))
        # Of definitions, because each has one column for all cut-offs.
        values = dict.fromkeys(write_metric_value(m.definition) for m in chosen_metrics)
        return f"select request_id, unit_id, k, {', '.join(values)} from list_values"
    if family == "tied":
        # No list is longer, so later discounts are never read.
        last = min(fetch_int(engine, "select max(items) from requests"), largest)
        # With running sums, the discounts of the places of a tie are one subtraction.
        totals = accumulate((1 / math.log2(1 + i) for i in range(1, last + 1)), initial=0.0)
        rows = ", ".join(f"(cast({i} as bigint), {total!r})" for i, total in enumerate(totals))
        engine.table("discounts", f"select * from (values {rows}) as v (place, total)")
    return query(f"offline/{family}_values")


def write_metric_value(definition: Definition) -> str:
    """Return SQL of a metric's value over `list_values`; 0 if divided by 0.

    Example:
        >>> from abeval.offline.metrics import DEFINITIONS
        >>> write_metric_value(DEFINITIONS["map", "min"])
        'coalesce(precisions / nullif(1e12 * best, 0), 0) as v_map_min'
    """
    value = definition.above
    if definition.below:
        below = " * ".join(definition.below.replace("fine", "1e12").split())
        value = f"coalesce({value} / nullif({below}, 0), 0)"
    return f"{value} as v_{definition.column}"


def _write_cutoffs(engine: Engine, ks: Sequence[int]) -> None:
    """Make `cutoffs` of the cut-offs that are numbers.

    Columns are `k` and `full_ideal`, the DCG of k relevant items in 1e-12.
    """
    # Names have negative numbers, and their values are among the cut-offs already.
    pairs = ((k, _compute_full_ideal(k)) for k in ks if k > 0)
    texts = ((k, "null" if ideal is None else repr(ideal)) for k, ideal in pairs)
    rows = ", ".join(f"(cast({k} as bigint), cast({ideal} as double))" for k, ideal in texts)
    engine.view("cutoffs", f"select * from (values {rows}) as v (k, full_ideal)")


def _compute_full_ideal(k: int) -> float | None:
    """Return the DCG of k relevant items in multiples of 1e-12.

    None beyond any list's length.

    Example:
        >>> _compute_full_ideal(1)
        1000000000000.0
    """
    if k > _LONGEST:
        return None
    # Each term is rounded, as the queries add whole multiples of 1e-12.
    return float(sum(round(1e12 / math.log2(1 + position)) for position in range(1, k + 1)))


def _add_graded(engine: Engine, sums: ModelSums) -> None:
    """Add pairs of every two levels of relevance.

    Of two levels, `pair_values` has counted them.
    """
    if sums.is_binary:
        return
    levels = fetch_int(
        engine,
        "select max(levels) from "
        "(select count(distinct grade) as levels from scored_rows group by unit_id) as u",
    )
    # Two levels have one highest binary digit that differs, so each digit counts its own pairs.
    digits = max(math.ceil(math.log2(max(levels, 2))), 1)
    halves = ", ".join(f"({2**i})" for i in range(digits))
    engine.view("bits", f"select * from (values {halves}) as v (half)")
    sums.add("pairs", engine.arrays(query("offline/graded_pairs")))


def _add_auc(engine: Engine, sums: ModelSums) -> None:
    """Add each unit's pseudo-values of the AUC.

    One is over the rows of its variant, one over all rows.
    """
    # Imported here, because an evaluation without AUC needs no experiment and no logs.
    from abeval.logs.views import show_rows

    variants = {"traffic": "traffic"}
    if len(sums.units.names) > 1:
        # With one variant for all rows, rows of different variants make pairs too.
        variants["pooled"] = "0"
    for by, variant in variants.items():
        row_columns = {name: name for name in ("unit_id", "score", "click")}
        row_columns |= {"variant": variant, "in_period": "true"}
        show_rows(engine, "scored", row_columns, "traffic_rows")
        rows = engine.arrays(query("4_metrics/auc"))
        columns = {"unit_id": rows["unit_id"], "v_auc": rows["fine_auc"]}
        sums.add(f"auc_{by}", columns | {"units": rows["c_scored_units"]}, _FINE)


def _add_listed_metrics(
    engine: Engine, chosen_metrics: Sequence[OfflineMetric], sums: ModelSums, ks: Sequence[int]
) -> None:
    """Add novelty, serendipity and diversity of lists, and the lists of each item."""
    _write_cutoffs(engine, ks)
    above = {m.definition.above for m in chosen_metrics}
    engine.view("top_items", f"select * from places where place <= {max(ks)}")
    queries: Mapping[str, frozenset[str]] = {
        "beyond_values": metrics.HISTORY,
        "vector_values": frozenset({"ild_vectors"}),
        "category_values": frozenset({"ild"}),
    }
    for name in (name for name, values in queries.items() if values & above):
        sums.add_cuts(engine, "beyond", query(f"offline/{name}"), ks)
    sums.listed_items = engine.arrays(query("offline/listed_items"))
