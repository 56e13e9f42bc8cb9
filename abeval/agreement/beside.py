"""Relations beside `agreement_rows`: how rows were served, features, training data.

`facts.py` makes them for control and one variant; `agree.py` opens the training data once.
"""

from collections.abc import Iterator

from abeval.aggregates.audit_arrays import CLUSTERS
from abeval.engines.protocol import Engine
from abeval.engines.sql import literal, query, quoted
from abeval.experiment.model import Experiment
from abeval.experiment.sources import LogSource
from abeval.logs import views
from abeval.logs.mapping import LogColumns, is_number, map_columns, own_name
from abeval.logs.run import Run, open_log
from abeval.logs.shape import EXPRESSION_COLUMNS, in_view_names, own_columns_of

STRATA = {
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
