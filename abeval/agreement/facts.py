"""The rows of the log that causes read, and the queries over them.

`agree.py` makes an `AgreementLog` where a replay has opened the logs. `agreement_rows` has one row
per impression of control and one variant, with both models' scores; columns that the log does not
have are null, and causes that need them are not run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from abeval.aggregates.audit_arrays import CLUSTERS
from abeval.agreement import log
from abeval.engines.protocol import Engine
from abeval.engines.sql import literal, query, quoted
from abeval.experiment.model import Experiment
from abeval.logs.mapping import SERVED_FLAGS, LogColumns, own_name
from abeval.logs.shape import LogShape
from abeval.offline.candidates import finite_sql

if TYPE_CHECKING:
    import pandas as pd

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
        columns.append(log.treated_sql(self.experiment))
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
        more = log.write_beside(self.engine, self.experiment, variant, log, self.training)
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
            self.engine.view("agreement_strata", {**STRATA, **log.STRATA}[strata])
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
