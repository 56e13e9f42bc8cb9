"""Runs the queries of time: one pass over the log, then sums by cohort and pairs of days."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pandas as pd

from abeval.background import partial_days
from abeval.collect import Step
from abeval.comparison import scales
from abeval.engines.protocol import Engine
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.metric_queries import DAILY
from abeval.metrics import Metric, Source
from abeval.queries import query
from abeval.sql import literal
from abeval.time.opened import Opened, open_metrics
from abeval.time.sums import Activity, DaySums, Whole


@dataclass(frozen=True)
class TimeSums:
    """What the analysis over time starts from.

    Attributes:
        days: Every day from the first with an impression to the last (ISO).
        partial: Days that the log covers only in part, or not at all.
        activity: Variant → when its units were there.
        metrics: Metric → variant → its sums.
        refused: Metric → why it has none.
    """

    days: tuple[str, ...]
    partial: frozenset[str]
    activity: Mapping[str, Activity]
    metrics: Mapping[str, Mapping[str, DaySums]]
    refused: Mapping[str, str]


def collect_time(
    experiment: Experiment,
    metrics: Sequence[Metric],
    engine: Engine,
    frames: Mapping[str, object],
    step: Step,
) -> TimeSums:
    """Aggregate the logs of an experiment by day.

    Raises:
        LogError: The log has no time, or as for `collect`.
        QueryError: The engine could not run a query.
    """
    return sums_of(open_metrics(experiment, metrics, engine, frames, step), step)


def sums_of(opened: Opened, step: Step) -> TimeSums:
    """The sums of opened logs.

    Raises:
        LogError: As for `collect_time`.
        QueryError: As for `collect_time`.
    """
    experiment, engine = opened.run.experiment, opened.run.engine
    if not opened.shape.has_time:
        raise LogError(
            "windows need a time, and the impressions log has no column `ts`",
            'map it: [logs.impressions] columns = { ts = "..." }',
        )
    engine.table("entry", _entry(experiment, engine))
    seen = engine.frame(query("units/days"))
    if seen.empty:
        raise LogError("no analysed unit has an impression with a time in the period")
    days = _calendar(seen["day"].tolist())
    partial = partial_days(experiment, seen) | (set(days) - set(seen["day"]))
    activity = _activity(experiment, engine, days)
    refused = {name: f"the logs lack {', '.join(what)}" for name, what in opened.refused.items()}
    found: dict[str, Mapping[str, DaySums]] = {}
    for source, chosen in opened.by_source().items():
        if source not in (*DAILY, "gauc"):
            refused |= {m.name: _NOT_DAILY[source] for m in chosen}
            continue
        step(f"pairs of days of {source}")
        _load(opened, source, engine)
        found |= _of_source(opened, chosen, engine, days, activity)
    ordered = {m.name: found[m.name] for m in opened.metrics if m.name in found}
    return TimeSums(days, frozenset(partial), activity, ordered, refused)


_NOT_DAILY: Mapping[Source, str] = {
    "auc": "AUC over all impressions does not add up over days",
    "quantile": "a quantile over impressions does not add up over days",
    "catalogue": "items shown do not add up over days",
}


def _entry(experiment: Experiment, engine: Engine) -> str:
    """When each analysed unit entered: its first impression, or its exposure.

    An exposure without a time is taken for one on the first day.
    """
    entered = engine.local_time("first_ms", experiment.timezone)
    return f"""
    select unit_id, variant, coalesce(
      cast({entered} as date), (select min(day) from unit_day where in_period)
    ) as entry_day
    from units
    """


def _calendar(days: Sequence[str]) -> tuple[str, ...]:
    first, last = date.fromisoformat(min(days)), date.fromisoformat(max(days))
    return tuple(str(first + timedelta(days=i)) for i in range((last - first).days + 1))


def _activity(experiment: Experiment, engine: Engine, days: Sequence[str]) -> dict[str, Activity]:
    place = {day: i for i, day in enumerate(days)}
    size = len(days)
    entered = {name: np.zeros(size, dtype=np.int64) for name in experiment.variants}
    returns = {
        name: np.zeros((size, size + 1, size), dtype=np.int64) for name in experiment.variants
    }
    for variant, cohort, units in engine.rows(query("time/entered")):
        entered[str(variant)][_cohort(str(cohort), days)] += int(units or 0)
    for variant, cohort, before, day, units in engine.rows(query("time/returns")):
        where = _cohort(str(cohort), days), 1 + place.get(str(before), -1), place[str(day)]
        returns[str(variant)][where] += int(units or 0)
    return {name: Activity(entered[name], returns[name]) for name in experiment.variants}


def _cohort(entry: str, days: Sequence[str]) -> int:
    """The place of an entry day; exposures may lie beyond the days that have impressions."""
    return bisect_left(days, min(max(entry, days[0]), days[-1]))


def _load(opened: Opened, source: Source, engine: Engine) -> None:
    """Show the source's values by unit and day as `placed_unit_day`."""
    if source == "gauc":
        engine.table("scored_day", scored_day_view(opened.shape.score_of))
        engine.table("gauc_day", query("time/gauc_day"))
        engine.view("source_day", "select * from gauc_day")
    else:
        opened.run.load(source)
    engine.table("placed_unit_day", query("time/placed_unit_day"))


def scored_day_view(score_of: Mapping[str, str]) -> str:
    """Impressions of the period with their day and the score of the variant's model."""
    cases = " ".join(f"when {literal(v)} then i.{score}" for v, score in score_of.items())
    return f"""
    with served as (
      select u.variant, i.unit_id, i.day, i.click, case u.variant {cases} end as score
      from impressions i join units u on i.unit_id = u.unit_id
      where i.in_period and i.day is not null
    )
    select variant, unit_id, day, score, click from served where score is not null
    """


def _of_source(
    opened: Opened,
    metrics: Sequence[Metric],
    engine: Engine,
    days: Sequence[str],
    activity: Mapping[str, Activity],
) -> dict[str, Mapping[str, DaySums]]:
    terms = {m.name: opened.run.both(m, "c_") for m in metrics}
    values = list(dict.fromkeys(sql for pair in terms.values() for sql in pair))
    pairs = _products(terms.values(), values)
    engine.view("day_pair", pair_view(values, pairs))
    rows = engine.frame(query("time/co_moments"))
    return {
        m.name: {
            variant: _sums(rows[rows["variant"] == variant], m, terms, values, days, there)
            for variant, there in activity.items()
        }
        for m in metrics
    }


Product = tuple[int, int]


def _products(terms: Iterable[tuple[str, str]], values: Sequence[str]) -> list[Product]:
    """Places of the values of every product that some metric needs, each once."""
    wanted: dict[Product, None] = {}
    for y, x in terms:
        i, j = values.index(y), values.index(x)
        wanted |= dict.fromkeys([(i, i), (i, j), (j, i), (j, j)])
    return list(wanted)


def pair_view(values: Sequence[str], pairs: Sequence[Product]) -> str:
    """Every pair of active days of a unit, with the products of the metrics' values."""
    listed = ", ".join(f"cast({sql} as decimal(38, 0)) as v_{i}" for i, sql in enumerate(values))
    products = ", ".join(f"a.v_{i} * b.v_{j} as p_{i}_{j}" for i, j in pairs)
    # A value of the earlier day alone, for plain sums where a day meets itself.
    plain = ", ".join(f"a.v_{i} as p_{i}" for i in range(len(values)))
    return f"""
    with valued as (select unit_id, variant, entry_day, day, {listed} from placed_unit_day)
    select a.variant, a.entry_day, a.day, b.day as later_day, {products}, {plain}
    from valued a join valued b on a.unit_id = b.unit_id and a.day <= b.day
    """


def _sums(
    rows: pd.DataFrame,
    metric: Metric,
    terms: Mapping[str, tuple[str, str]],
    values: Sequence[str],
    days: Sequence[str],
    activity: Activity,
) -> DaySums:
    pairs = _Pairs.of(rows, days)
    y, x = (values.index(sql) for sql in terms[metric.name])
    return DaySums(
        activity=activity,
        y=pairs.plain(y),
        x=pairs.plain(x),
        yy=pairs.products(y, y),
        yx=pairs.products(y, x),
        xx=pairs.products(x, x),
        scales=scales(metric),
        per_unit=metric.per is None,
    )


@dataclass(frozen=True)
class _Pairs:
    """Rows of `co_moments` of one variant, with the places of their days."""

    rows: pd.DataFrame
    size: int
    cohort: Whole
    day: Whole
    later: Whole

    @classmethod
    def of(cls, rows: pd.DataFrame, days: Sequence[str]) -> "_Pairs":
        place = {day: i for i, day in enumerate(days)}
        cohort = np.array([_cohort(day, days) for day in rows["cohort"]], dtype=int)
        day, later = (
            np.array([place[d] for d in rows[c]], dtype=int) for c in ("day", "later_day")
        )
        return cls(rows, len(days), cohort, day, later)

    def plain(self, value: int) -> Whole:
        """Sums of a value, by cohort and day: where a day meets itself."""
        same = self.day == self.later
        whole = self._whole(f"p_{value}")
        made = np.zeros((self.size, self.size), dtype=whole.dtype)
        np.add.at(made, (self.cohort[same], self.day[same]), whole[same])
        return made

    def products(self, one: int, other: int) -> Whole:
        """Sums of products of one value on a day with another on another day."""
        ahead, back = self._whole(f"p_{one}_{other}"), self._whole(f"p_{other}_{one}")
        kind = object if object in (ahead.dtype, back.dtype) else np.int64
        made = np.zeros((self.size,) * 3, dtype=kind)
        np.add.at(made, (self.cohort, self.day, self.later), ahead)
        off = self.day != self.later
        np.add.at(made, (self.cohort[off], self.later[off], self.day[off]), back[off])
        return made

    def _whole(self, column: str) -> Whole:
        """Exact: 64-bit where there is room for sums over cohorts and days, else Python's own."""
        texts = self.rows[column]
        short = max(map(len, texts), default=1) <= 14
        return np.array([int(text) for text in texts], dtype=np.int64 if short else object)
