"""Prepare the rows of the log that causes read, and run their queries.

`agreement_rows` has one row per impression of control and one variant, with both models' scores;
columns that the log does not have are null, and causes that need them are not run.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from abeval.aggregates.audit_arrays import CLUSTERS
from abeval.engines.sql import Engine, is_number, literal, query, quote
from abeval.experiment.model import Experiment
from abeval.logs.columns import write_cast, write_click, write_column, write_score, write_time_ms
from abeval.logs.mapping import SERVED_FLAGS, LogColumns, map_columns, name_raw_column
from abeval.logs.run import Run, open_log
from abeval.logs.shape import EXPRESSION_COLUMNS, LogSchema, list_own_columns, write_view_expression
from abeval.metrics.row_text import write_over_columns
from abeval.offline.candidates import write_finite

if TYPE_CHECKING:
    import pandas as pd

_KEYS = ("request_id", "item_id", "position", "category")
"""Columns of the impressions that a log may lack."""

_OPTIONAL: Mapping[str, str] = {
    **dict.fromkeys(("served_score", "latency", *SERVED_FLAGS, "empty"), "double"),
    **dict.fromkeys(("feature_time", "model_time"), "bigint"),
    "model_version": "varchar",
}
"""Optional columns and their types; times of the zone of `ts` are milliseconds since 1970."""

_PAIR = "click, baseline, candidate from agreement_served where baseline is not null and candidate"
_SERVED = "click, baseline, candidate from agreement_served where side = 'control'"

_STRATA: Mapping[str, str] = {
    "position": "select 'all' as part, variant, position as stratum, unit_id as cluster, "
    f"{_PAIR} is not null and position is not null",
    "served": "select state as part, variant, 0 as stratum, cluster, click, own as baseline, "
    "served_score as candidate from agreement_served "
    "where side = 'variant' and own is not null and served_score is not null",
    "learned": "select case when learned = 1 then 'learned' else 'new' end as part, variant, "
    f"0 as stratum, cluster, {_SERVED} and baseline is not null and candidate is not null",
    # One value is compared with itself: the pairs of either column are its own.
    "features": "select part, variant, 0 as stratum, cluster, click, value as baseline, "
    "value as candidate from agreement_features where value is not null",
    "training": "select 'training' as part, 'training' as variant, 0 as stratum, cluster, click, "
    "candidate as baseline, candidate from training_scores where candidate is not null",
}
"""Name → SQL of `agreement_strata`: pairs are compared within a stratum, and counted by part."""


def list_cause_columns(experiment: Experiment, log: LogColumns) -> list[str]:
    """Return the log's columns that causes read under their own names."""
    text = experiment.agreement.treated
    treated = () if text is None else list_own_columns([text], log, EXPRESSION_COLUMNS)
    return [
        *_map_extra_columns(experiment, log).values(),
        *_list_numeric_features(experiment, log),
        *treated,
    ]


def _map_extra_columns(experiment: Experiment, log: LogColumns) -> dict[str, str]:
    """Return the log's own columns of `[agreement]` and of served flags.

    Keys are their names in `agreement_rows`.
    """
    flags = {name: log.mapped[name] for name in SERVED_FLAGS if name in log.mapped}
    configured = experiment.agreement.model_dump(exclude_none=True, exclude={"features", "treated"})
    return {**flags, **configured}


def _list_numeric_features(experiment: Experiment, log: LogColumns) -> list[str]:
    """Return the features that are numbers, as far as the log has them."""
    types = {name.lower(): kind for name, kind in log.types.items()}
    feature_types = ((name, types.get(name.lower())) for name in experiment.agreement.features)
    return [name for name, kind in feature_types if kind is None or is_number(kind)]


def open_training(run: Run) -> LogColumns | None:
    """Open the training data; return their columns, None without them."""
    source = run.experiment.logs.training
    if source is None:
        return None
    open_log(run, "training")
    types = run.engine.columns("raw_training")
    unit = source.columns.get("unit_id", run.experiment.unit)
    # Training data may have no units; names of columns are alike in any case.
    has_unit = unit is not None and unit.lower() in map(str.lower, types)
    return map_columns("training", source, types, run.experiment.unit if has_unit else None)


@dataclass(frozen=True)
class AgreementLog:
    """The prepared logs of an experiment."""

    experiment: Experiment
    engine: Engine
    schema: LogSchema
    training: LogColumns | None = None

    def open(self, variant: str) -> frozenset[str]:
        """Make the relations of control and a variant.

        Return the columns that they really have.
        """
        log, control = self.schema.impressions, self.experiment.control
        trained = [*self._open_training(variant)]
        scores = {"baseline": self._score(control), "candidate": self._score(variant)}
        # Variants with one model have no second score to compare.
        if scores["baseline"] == scores["candidate"]:
            scores["candidate"] = None
        extra = _map_extra_columns(self.experiment, log)
        source = {name: quote(name_raw_column(column)) for name, column in extra.items()}
        text = self.experiment.agreement.treated
        treated = "cast(null as bigint)"
        if text is not None:
            where = write_view_expression(text, None, EXPRESSION_COLUMNS)
            treated = f"case when ({where}) then 1 else 0 end"
        columns = [
            *(
                f"{'cast(null as double)' if source is None else write_finite(source)} as {name}"
                for name, source in scores.items()
            ),
            *(
                f"{self._cast(source.get(name), kind)} as {name}"
                for name, kind in _OPTIONAL.items()
            ),
            f"{treated} as treated",
        ]
        pair = ", ".join(literal(name) for name in (control, variant))
        self.engine.view(
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
        self.engine.table("agreement_served", query("agreement/served_rows"))
        features = _list_numeric_features(self.experiment, log)
        self.engine.view("agreement_features", _write_feature_rows(features, control))
        has = {
            "features": bool(features),
            "treated": text is not None,
            "day": self.schema.has_time,
            "click": "click" in self.schema.needs_met(self.experiment.unit),
            **{name: name in log for name in _KEYS},
            **{name: source is not None for name, source in scores.items()},
        }
        present = (name for name, there in has.items() if there)
        return frozenset({*source, *present, *trained})

    def _open_training(self, variant: str) -> Iterator[str]:
        """Make `training_keys`, and yield what the training data have.

        Keys are unit, item and time; there are none if the data lack one of them.
        """
        log = self.training
        # Empty, but of the right types, because the query of served rows always joins it.
        keys = (
            "select unit_id, cast(null as varchar) as item_id, cast(null as bigint) as time_ms "
            "from units where 1 = 0"
        )
        if log is not None and all(name in log for name in ("unit_id", "item_id", "ts")):
            unit, item = (write_column(log, name) for name in ("unit_id", "item_id"))
            keys = (
                f"select distinct n.unit_id, cast(t.{item} as varchar) as item_id, "
                f"{write_time_ms(log, self.engine)} as time_ms from raw_training t "
                # Training data have the names of units, and the log their numbers.
                f"join unit_names n on cast(t.{unit} as varchar) = cast(n.logged_id as varchar)"
            )
            yield "training"
        self.engine.table("training_keys", keys)
        if log is None:
            return
        if "item_id" in log and "policy" in log:
            item, policy = (write_cast(log, name, "varchar") for name in ("item_id", "policy"))
            self.engine.table(
                "training_items",
                f"select {item} as item_id, {policy} as policy, count(*) as trained "
                f"from raw_training group by {item}, {policy}",
            )
            yield "training_policy"
        text = self._score_name(variant)
        score = None if text is None else write_over_columns(text, log.types)
        if score is not None and "click" in log:
            # Each unit of the training data is a cluster; without units, each row is one.
            cluster = "row_number() over (order by 1)"
            if "unit_id" in log:
                cluster = f"dense_rank() over (order by {write_column(log, 'unit_id')})"
            self.engine.table(
                "training_scores",
                f"select {cluster} as cluster, {write_click(log)} as click, "
                f"{write_score(score)} as candidate from raw_training",
            )
            yield "training_scores"

    def rows(self, name: str) -> "pd.DataFrame":
        """Return the rows of a query, in the same order on each run.

        The query is one of `queries/agreement/`.

        `pairs:position` is the query `pairs` on the strata of `_STRATA`.
        """
        file, _, strata = name.partition(":")
        if strata:
            self.engine.view("agreement_strata", _STRATA[strata])
        rows = self.engine.frame(query(f"agreement/{file}"))
        # Engines return rows in any order, and sums of floating point depend on it.
        return rows.sort_values(list(rows.columns), ignore_index=True)

    def _score_name(self, variant: str) -> str | None:
        model = self.experiment.models.get(self.experiment.variants[variant].model or "")
        return None if model is None else model.score

    def _score(self, variant: str) -> str | None:
        """Return the score of a variant's model by its name in the view of impressions."""
        return self.schema.model_scores.get(self.experiment.variants[variant].model or "")

    def _cast(self, column: str | None, kind: str) -> str:
        if column is not None and kind == "bigint":
            return self.engine.epoch_ms(f"cast({column} as timestamp)")
        return f"cast({column or 'null'} as {kind})"


def _write_feature_rows(features: Iterable[str], control: str) -> str:
    """Select every feature of every impression of control."""
    parts = [
        f"select {literal(name)} as part, u.variant, u.sub_bucket % {CLUSTERS} as cluster, "
        f"i.click, cast(i.{quote(name_raw_column(name))} as double) as value "
        "from impressions i join units u on i.unit_id = u.unit_id "
        f"where i.in_period and u.variant = {literal(control)}"
        for name in features
    ]
    # Without features the view has no rows, but the columns that a query reads.
    nothing = "select 'none' as part, variant, cluster, click, own as value from agreement_served"
    return " union all ".join(parts) or f"{nothing} where 1 = 0"
