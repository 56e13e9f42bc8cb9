"""The rows of the log that causes read, and the queries over them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from abeval.aggregates.audit_arrays import CLUSTERS
from abeval.engines.protocol import Engine
from abeval.engines.sql import literal, query, quoted
from abeval.experiment.model import Experiment
from abeval.experiment.sources import LogSource
from abeval.logs import views
from abeval.logs.mapping import SERVED_FLAGS, LogColumns, is_number, map_columns, own_name
from abeval.logs.run import Run, open_log
from abeval.logs.shape import EXPRESSION_COLUMNS, LogShape, in_view_names, own_columns_of
from abeval.offline.candidates import finite_sql

if TYPE_CHECKING:
    import pandas as pd

MORE_STRATA = {
    "served": "select state as part, variant, 0 as stratum, cluster, click, own as baseline, "
    "served_score as candidate from agreement_served "
    "where side = 'variant' and own is not null and served_score is not null",
    "learned": "select case when learned = 1 then 'learned' else 'new' end as part, variant, "
    "0 as stratum, cluster, click, baseline, candidate from agreement_served "
    "where side = 'control' and baseline is not null and candidate is not null",
    "features": "select part, variant, cluster, click, value from agreement_features "
    "where value is not null",
    "training": "select 'training' as part, 'training' as variant, cluster, click, "
    "candidate as value from training_scores where candidate is not null",
}
"""More strata of the queries `pairs` and `single_pairs` (`facts.py`)."""


def columns_beside(experiment: Experiment, log: LogColumns) -> list[str]:
    """The log's columns that these relations read under their own names."""
    text = experiment.agreement.treated
    own = () if text is None else own_columns_of([text], log, EXPRESSION_COLUMNS)
    return [*_features(experiment, log).values(), *own]


def treated_sql(experiment: Experiment) -> str:
    """1 where the treatment acts, 0 elsewhere, null if the experiment does not say where."""
    text = experiment.agreement.treated
    if text is None:
        return "cast(null as bigint) as treated"
    sql = in_view_names(text, None, EXPRESSION_COLUMNS)
    return f"case when ({sql}) then 1 else 0 end as treated"


def open_training(run: Run) -> LogColumns | None:
    """Make `training_keys` of the training data, empty without; their columns.

    Raises:
        LogError: They cannot be read.
    """
    log = None if run.experiment.logs.training is None else _opened(run)
    run.engine.table("training_keys", _keys_sql(run, log))
    return log


def _opened(run: Run) -> LogColumns:
    source = run.experiment.logs.training or LogSource()
    open_log(run, "training")
    types = run.engine.columns("raw_training")
    named = source.columns.get("unit_id", run.experiment.unit)
    has_unit = named.lower() in {column.lower() for column in types}
    return map_columns("training", source, types, run.experiment.unit if has_unit else None)


def _keys_sql(run: Run, log: LogColumns | None) -> str:
    """The unit, item and time of each row that the candidate learned from."""
    if log is None or lacks_of(log):
        return (
            "select unit_id, cast(null as varchar) as item_id, cast(null as bigint) as time_ms "
            "from units where 1 = 0"
        )
    unit, item = (views.column(log, name) for name in ("unit_id", "item_id"))
    return (
        f"select distinct n.unit_id, cast(t.{item} as varchar) as item_id, "
        f"{views.time_ms(log, run.engine)} as time_ms "
        f"from raw_training t join unit_names n "
        f"on cast(t.{unit} as varchar) = cast(n.logged_id as varchar)"
    )


def lacks_of(log: LogColumns | None) -> list[str]:
    """What the training data lack of the key of a row."""
    return [] if log is None else [n for n in ("unit_id", "item_id", "ts") if n not in log]


def write_beside(
    engine: Engine,
    experiment: Experiment,
    variant: str,
    log: LogColumns,
    training: LogColumns | None,
) -> Iterator[str]:
    """Make `agreement_served`, `agreement_features`, what of the training data; what there is."""
    engine.table("agreement_served", query("agreement/served_rows"))
    features = _features(experiment, log)
    engine.view("agreement_features", _features_sql(features, experiment.control))
    if features:
        yield "features"
    if experiment.agreement.treated is not None:
        yield "treated"
    if training is None:
        return
    if not lacks_of(training):
        yield "training"
    if "item_id" in training and "policy" in training:
        item, policy = (views.cast(training, name, "varchar") for name in ("item_id", "policy"))
        engine.table(
            "training_items",
            f"select {item} as item_id, {policy} as policy, count(*) as trained "
            f"from raw_training group by {item}, {policy}",
        )
        yield "training_policy"
    score = _score_column(experiment, variant, training)
    if score is not None and "click" in training:
        engine.table("training_scores", _training_scores(training, score))
        yield "training_scores"


def _features(experiment: Experiment, log: LogColumns) -> dict[str, str]:
    """Feature → the log's own column; numbers only."""
    by_lower = {column.lower(): column for column in log.types}
    known = ((name, by_lower.get(name.lower(), name)) for name in experiment.agreement.features)
    return {name: own for name, own in known if own not in log.types or is_number(log.types[own])}


def _features_sql(features: dict[str, str], control: str) -> str:
    """Every feature of every impression of control."""
    parts = [
        f"select {literal(name)} as part, u.variant, u.sub_bucket % {CLUSTERS} as cluster, "
        f"i.click, cast(i.{quoted(own_name(column))} as double) as value "
        "from impressions i join units u on i.unit_id = u.unit_id "
        f"where i.in_period and u.variant = {literal(control)}"
        for name, column in features.items()
    ]
    nothing = "select 'none' as part, variant, cluster, click, own as value from agreement_served"
    return " union all ".join(parts) or f"{nothing} where 1 = 0"


def _score_column(experiment: Experiment, variant: str, training: LogColumns) -> str | None:
    """The column of the variant's model in the training data, by the name that the log has."""
    model = experiment.variants[variant].model
    if model is None or model not in experiment.models:
        return None
    name = experiment.models[model].score
    return next((c for c in training.types if c.lower() == name.lower()), None)


def _training_scores(training: LogColumns, score: str) -> str:
    """Each unit of the training data is a cluster; without units, each row is one."""
    unit = f"dense_rank() over (order by {views.column(training, 'unit_id')})"
    cluster = unit if "unit_id" in training else "row_number() over (order by 1)"
    return (
        f"select {cluster} as cluster, {views.click(training)} as click, "
        f"{views.score(score)} as candidate from raw_training"
    )


_KEYS = ("request_id", "item_id", "position", "category")
"""Columns of the impressions that a log may lack."""

_NUMBERS = ("served_score", "explore", "latency", *SERVED_FLAGS, "empty")
"""Optional columns that are numbers, or true and false."""

_TIMES = ("feature_time", "model_time")
"""Optional columns that are times of the same zone as `ts`; in milliseconds since 1970."""

_TEXTS = ("model_version",)


_PAIR = "click, baseline, candidate from agreement_rows where baseline is not null and candidate"

STRATA: Mapping[str, str] = {
    "position": "select 'all' as part, variant, position as stratum, unit_id as cluster, "
    f"{_PAIR} is not null and position is not null",
    "explore": "select case when explore > 0 then 'explore' else 'rest' end as part, variant, "
    f"0 as stratum, unit_id as cluster, {_PAIR} is not null and explore is not null",
    "day": f"select cast(day as varchar) as part, variant, 0 as stratum, cluster, {_PAIR} "
    "is not null and day is not null",
}
"""Name → SQL of `agreement_strata`: pairs are compared within a stratum, and counted by part."""


def extra_columns(experiment: Experiment, log: LogColumns | None) -> dict[str, str]:
    """Name in `agreement_rows` → the log's own column, of `[agreement]` and of served flags."""
    mapped = {} if log is None else log.mapped
    flags = {name: mapped[name] for name in SERVED_FLAGS if name in mapped}
    named = experiment.agreement.model_dump(exclude_none=True, exclude={"features", "treated"})
    return {**flags, **named}


@dataclass(frozen=True)
class AgreementLog:
    """The prepared logs of an experiment.

    Attributes:
        experiment: What was prepared.
        engine: With the views of `prepare`.
        shape: The columns of the logs.
        training: The columns of the training data; None without them.
    """

    experiment: Experiment
    engine: Engine
    shape: LogShape
    training: LogColumns | None = None

    def open(self, variant: str) -> frozenset[str]:
        """Make `agreement_rows` of control and a variant; the columns that it really has."""
        log, control = self.shape.impressions, self.experiment.control
        scores = {"baseline": self._score(control), "candidate": self._score(variant)}
        if scores["baseline"] == scores["candidate"]:
            scores["candidate"] = None
        by_lower = {column.lower(): column for column in log.types}
        own = {
            name: quoted(own_name(by_lower[column.lower()]))
            for name, column in extra_columns(self.experiment, log).items()
        }
        columns = [f"{_null(sql, 'double', finite_sql)} as {name}" for name, sql in scores.items()]
        columns += [f"{_null(own.get(n), 'double', _number)} as {n}" for n in _NUMBERS]
        columns += [f"{_null(own.get(n), 'bigint', self._time)} as {n}" for n in _TIMES]
        columns += [f"{_null(own.get(n), 'varchar', _text)} as {n}" for n in _TEXTS]
        columns.append(treated_sql(self.experiment))
        pair = ", ".join(literal(name) for name in (control, variant))
        self.engine.table(
            "agreement_rows",
            f"select u.variant, i.unit_id, u.sub_bucket % {CLUSTERS} as cluster, i.day, i.time_ms, "
            f"i.request_id, i.item_id, i.position, i.category, i.click, {', '.join(columns)} "
            "from impressions i join units u on i.unit_id = u.unit_id "
            f"where i.in_period and u.variant in ({pair})",
        )
        self.engine.view(
            "agreement_sides",
            f"select * from (values ({literal(control)}, 'control'), ({literal(variant)}, "
            "'variant')) as v (variant, side)",
        )
        more = write_beside(self.engine, self.experiment, variant, log, self.training)
        return frozenset(
            {*own, *more, *(n for n in _KEYS if n in log), *(n for n, sql in scores.items() if sql)}
            | ({"day"} if self.shape.has_time else set())
            | (self.shape.needs_met(self.experiment.unit) & {"click"})
        )

    def rows(self, name: str) -> "pd.DataFrame":
        """The rows of a query of `queries/agreement/`, in an order that is the same on each run.

        `pairs:position` is the query `pairs` on the strata of `STRATA`.
        """
        file, _, strata = name.partition(":")
        if strata:
            self.engine.view("agreement_strata", {**STRATA, **MORE_STRATA}[strata])
        rows = self.engine.frame(query(f"agreement/{file}"))
        return rows.sort_values(list(rows.columns), ignore_index=True)

    def _score(self, variant: str) -> str | None:
        """The score of a variant's model by its name in the view of impressions, if it is there."""
        model = self.experiment.variants[variant].model
        if model is None or model not in self.experiment.models:
            return None
        by_lower = {column.lower(): column for column in self.shape.impressions.types}
        column = by_lower.get(self.experiment.models[model].score.lower())
        return None if column is None else quoted(own_name(column))

    def _time(self, column: str) -> str:
        return self.engine.epoch_ms(f"cast({column} as timestamp)")


def _null(column: str | None, kind: str, sql: Callable[[str], str]) -> str:
    """SQL of a column, or a null of its type where the log does not have it."""
    return f"cast(null as {kind})" if column is None else sql(column)


def _number(column: str) -> str:
    return f"cast({column} as double)"


def _text(column: str) -> str:
    return f"cast({column} as varchar)"
