"""Write the SQL of a metric's value by variant, from the user's files.

It is what ran: the views and queries of an analysis are made on the logs and put together, units
placed by SQL. What no metric reads is left out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from abeval.aggregates.metric_queries import ReadLogs, write_unit_event
from abeval.aggregates.wanted import spread_metrics
from abeval.engines import statement
from abeval.engines.sql import count_rows, query, quote, read_int, write_case
from abeval.engines.statement import Recorder
from abeval.errors import ExperimentError
from abeval.experiment.metrics import find_metrics_by_name
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.placing_sql import write_assigned_units
from abeval.logs.prepare import Prepared, prepare
from abeval.logs.run import Run, open_run
from abeval.logs.shape import LogSchema, find_quantile_columns, name_row_column
from abeval.logs.views import ITEM_GROUPS, show_rows, write_popularity
from abeval.metrics import definition
from abeval.metrics.definition import CATALOGUE, QUANTILE, UNIT_DAY, Metric, Source, Term
from abeval.packaged import load_toml_next_to
from abeval.stats.catalogue import SEED

_TEXTS = load_toml_next_to(__file__, "metric_sql.toml")
_COMMENTS: Mapping[str, str] = _TEXTS["comments"]
_VALUES: Mapping[str, str] = _TEXTS["values"]


_ROWS = """logged i
join unit_names n on i.unit_id = n.logged_id
join units u on n.unit_id = u.unit_id
where i.counts
"""
_PERIOD_COLUMNS = {"unit_id": "u.unit_id", "variant": "u.variant", "in_period": "i.in_period"}
_DAY = {"day": "date_diff('day', date '1970-01-01', i.day)"}
_DAILY_NAMES = ("unit_id", "in_period", "time_ms", "request_id", "position", "click", "category")
_DAILY = _DAY | {"item": "i.item_id"} | {name: f"i.{name}" for name in _DAILY_NAMES}
_GROUP = f"u.variant || ' ' || u.sub_bucket % {ITEM_GROUPS}"
_SHOWN_COLUMNS = _PERIOD_COLUMNS | _DAY | {"unit_group": _GROUP, "item": "i.item_id"}
"""Columns of `analysed_rows` → SQL over impressions of analysed units."""


def write_metric_statements(experiment: Experiment, names: Sequence[str]) -> dict[str, str]:
    """Write one DuckDB statement per metric, of its value by variant.

    Its columns are `variant`, `value` and what the value is made of. It runs in the folder of the
    experiment file, on the logs as they are now.

    Raises:
        ExperimentError: No statement gives the value, with the reason.
    """
    # No covariates: the value is that of the period.
    metrics = [
        replace(metric, covariates=(), left_out=(), lacking=())
        for metric in find_metrics_by_name(experiment, names)
    ]
    for metric in metrics:
        _check_metric(experiment, metric)
    past_metrics = [metric for metric in metrics if metric.source.of_past]
    now = [metric for metric in metrics if not metric.source.of_past]
    texts = _write_statements(experiment, now, {"pre_period": None}) if now else {}
    texts |= _write_statements(experiment, past_metrics, {}) if past_metrics else {}
    return {metric.name: texts[metric.name] for metric in metrics}


def _write_statements(
    experiment: Experiment, metrics: Sequence[Metric], overrides: Mapping[str, object]
) -> dict[str, str]:
    """Write the statements of metrics, without the logs that none of them reads."""
    bare: dict[str, object] = {"segments": {}, "cuts": {}, **overrides}
    experiment, texts = experiment.model_copy(update=bare), dict[str, str]()
    recorder = Recorder(experiment.engine, experiment.folder)
    with open_run(experiment, {}, engine=recorder) as run:
        prepared = _prepare_views(run, recorder, metrics)
        has = prepared.schema.needs_met(experiment.unit)
        for metric in metrics:
            if lacking := ", ".join(sorted(metric.needs - has)):
                what = f"{metric.name} has no statement: the logs have no {lacking}"
                raise ExperimentError(what, "ask for another metric, or map the columns")
            recorder.view("metric_value", _write_value(run, recorder, prepared, metric))
            value = recorder.relations["metric_value"]
            # Rows without an id are numbered, once.
            once = experiment.unit == ROW_UNIT
            text = statement.write_statement(value, "duckdb", (), once, _COMMENTS)
            formula = " ".join(metric.formula.split())
            texts[metric.name] = f"-- {metric.name}: {formula}\n{_NOTE}{text}"
    return texts


def write_view_statements(experiment: Experiment, is_absolute: bool = False) -> str:
    """Write DuckDB statements that create the canonical views of the logs.

    With `is_absolute` they can run anywhere, otherwise in the folder of the experiment file.

    Raises:
        ExperimentError: No statement gives them, with the reason.
    """
    metrics = find_metrics_by_name(experiment)
    metrics = [*metrics, *spread_metrics(metrics)]
    recorder = Recorder(experiment.engine, experiment.folder, is_absolute)
    with open_run(experiment, {}, engine=recorder) as run:
        prepared = _prepare_views(run, recorder, metrics)
        has = prepared.schema.needs_met(experiment.unit)
        recorder.note("impressions", "select * from logged_impressions")
        show_rows(recorder, "metric_rows", _DAILY, "logged_impressions i")
        show_rows(recorder, "shown_rows", _SHOWN_COLUMNS, _ROWS)
        for metric in (metric for metric in metrics if metric.needs <= has):
            if metric.source is QUANTILE:
                _write_events(run, prepared.schema, metric)
            elif metric.source.per_unit and metric.source is not UNIT_DAY:
                _write_source_rows(run, prepared, metric)
        if "gauc" in recorder.relations:
            recorder.note("gauc_unit", _VALUES["gauc_unit"])
    return "\n".join(statement.view_statements(recorder.relations)) + "\n"


_NOTE = """\
-- run it in the folder of the experiment file, on its logs; value is that of `analyze` before CUPED
"""


def _check_metric(experiment: Experiment, metric: Metric) -> None:
    """Refuse metrics that one statement cannot compute."""
    parts = ", ".join(part.name for part in metric.parts)
    is_paired = metric.source is CATALOGUE and len(experiment.variants) > 2
    reasons = {
        f"it is a function of {parts}": metric.source is definition.FUNCTION,
        "each pair of variants is compared at its own number of units": is_paired,
    }
    for reason in (reason for reason, is_so in reasons.items() if is_so):
        raise ExperimentError(f"{metric.name} has no statement: {reason}", "ask for another metric")


def _prepare_views(run: Run, recorder: Recorder, metrics: Sequence[Metric]) -> Prepared:
    """Make the views of the logs, with `units` as SQL."""
    why = "clusters and switchbacks are compared by their clusters"
    if run.experiment.design is not None:
        raise ExperimentError(f"there is no statement: {why}", "analyse the logs")
    prepared = prepare(run, metrics)
    if len(prepared.assignment.split_periods) > 1:
        why = "the split of the traffic changed, and values are weighed by split periods of days"
        raise ExperimentError(f"there is no statement: {why}", "analyse the logs")
    if "first_rows" in recorder.relations:
        _keep_first_rows(recorder, prepared.schema.impressions.raw)
    # An analysis makes them of arrays, which a statement cannot contain.
    recorder.restate("units", write_assigned_units(run, prepared.schema, is_whole=True))
    recorder.restate("unit_names", "select unit_id, logged_id from units")
    return prepared


def _keep_first_rows(recorder: Recorder, raw: str) -> None:
    """Drop duplicates in one simple step, if that keeps as many rows."""
    first_rows = str(recorder.relations["first_rows"].sql)
    match = re.search(r"(row_number\(\) over \(.*?\)) as", first_rows)
    text = f"select * from {raw} qualify {match[1]} = 1" if match else f"select * from {raw}"
    # The short form is easier to read, and right only if it keeps the same number of rows.
    if count_rows(recorder, f"({text}) as rows") == count_rows(recorder, "kept_impressions"):
        recorder.restate("kept_impressions", text)


def _write_value(run: Run, recorder: Recorder, prepared: Prepared, metric: Metric) -> str:
    """Make the rows of a metric's source, and return its last step."""
    engine, schema = run.engine, prepared.schema
    if metric.source is CATALOGUE:
        return _write_catalogue(recorder, metric.name)
    if metric.source is QUANTILE:
        _write_events(run, schema, metric)
        return _VALUES["quantile"].format(
            level=metric.level, scale=definition.list_scales(metric)[0]
        )
    rows = _write_source_rows(run, prepared, metric)
    terms = {"numerator": metric.value, "denominator": metric.per}
    totals = {
        name: _write_total(run, schema, term) for name, term in terms.items() if term is not None
    }
    counts = []
    if metric.among is not None:
        counts.append(f"{_write_total(run, schema, metric.among)} = 1")
    if metric.presence_terms is not None:
        present, lacking = (_write_total(run, schema, term) for term in metric.presence_terms)
        # A unit all of whose values are missing does not count; one without rows has 0.
        counts.append(f"({present} <> 0 or {lacking} = 0)")
    having = f"having {' and '.join(counts)}" if counts else ""
    select_list = ", ".join(f"{sql} as {name}" for name, sql in totals.items())
    aside = "and s.set_aside is null" if metric.source is UNIT_DAY else ""
    engine.view(
        "unit_values",
        _VALUES["unit"].format(totals=select_list, rows=rows, having=having, aside=aside),
    )
    if metric.cap is not None:
        caps = ", ".join(_VALUES["cap"].format(name=n, share=metric.cap) for n in totals)
        capped = ", ".join(f"least({name}, {name}_cap) as {name}" for name in totals)
        engine.view("capped_values", _VALUES["capped"].format(caps=caps, values=capped))
    relation = "unit_values" if metric.cap is None else "capped_values"
    value, per = (
        f"sum({name}){'' if scale == 1 else f' * {scale!r}'}"
        for name, scale in zip(terms, definition.list_scales(metric), strict=True)
    )
    parts = f"{value} as numerator, {per} as denominator" if metric.per else f"{value} as total"
    divisor = f"nullif({per}, 0)" if metric.per else "count(*)"
    return (
        f"select variant, {value} / {divisor} as value, {parts}, count(*) as units "
        f"from {relation} group by variant order by variant"
    )


def _write_events(run: Run, schema: LogSchema, metric: Metric) -> None:
    """Write the values that a quantile ranks, and how often each occurs."""
    columns = find_quantile_columns(schema, run.experiment, metric)
    value = _pick_by_variant({name: f"i.{column}" for name, column in columns.items()})
    show_rows(run.engine, "valued", {**_PERIOD_COLUMNS, "value": value}, _ROWS)
    run.engine.view("quantile", query(QUANTILE.query))
    run.engine.view("quantile_level", _VALUES["quantile_level"])


def _write_total(run: Run, schema: LogSchema, term: Term) -> str:
    """Write the total of a unit's rows."""

    def total(column: str) -> str:
        return "count(distinct s.day)" if column == "c_days" else f"coalesce(sum(s.{column}), 0)"

    return _pick_by_variant({v: total(schema.component(term, v)) for v in run.experiment.variants})


def _pick_by_variant(columns: Mapping[str, str]) -> str:
    """Write a column, or one per variant if variants read different columns."""
    first, *rest = {*columns.values()}
    return write_case("u.variant", columns) if rest else first


def _write_source_rows(run: Run, prepared: Prepared, metric: Metric) -> str:
    """Write the rows of a source by unit; return the name of their relation."""
    engine, source = run.engine, metric.source
    if source is UNIT_DAY:
        return "logged_cells"
    if source.sql is not None:
        _show_added_rows(run, prepared.schema, source)
    elif source.events is not None:
        write_unit_event(ReadLogs(run, prepared), [metric])
    elif source.scored:
        score = _write_score(run, prepared.schema)
        show_rows(engine, "scored", {**_PERIOD_COLUMNS, "score": score, "click": "i.click"}, _ROWS)
    else:
        show_rows(engine, "metric_rows", _DAILY, "logged_impressions i")
    if source.of_past:
        write_popularity(engine, "l.item_id")
    engine.view(source.name, query(source.query, source.sql))
    return source.name


def _write_score(run: Run, schema: LogSchema) -> str:
    """Write the score of the model that a unit's variant serves; null without one."""
    scores = {name: f"i.{score}" for name, score in schema.score_of.items()}
    return _pick_by_variant(dict.fromkeys(run.experiment.variants, "null") | scores)


def _show_added_rows(run: Run, schema: LogSchema, source: Source) -> None:
    """Show the columns that an added query reads as `metric_rows`."""
    columns = {name: f"i.{quote(name_row_column(name))}" for name in source.reads} | _DAY
    if "score" in columns:
        columns["score"] = _write_score(run, schema)
    selected = ", ".join(f"{sql} as {quote(name)}" for name, sql in columns.items())
    rows = "logged_impressions i join units u on i.unit_id = u.unit_id"
    run.engine.view("metric_rows", f"select i.unit_id, {selected} from {rows}")


def _write_catalogue(engine: Recorder, name: str) -> str:
    """Write the coverage or evenness of shown items at equal numbers of units."""
    show_rows(engine, "shown_rows", _SHOWN_COLUMNS, _ROWS)
    engine.view("group_units", _VALUES["group_units"].format(groups=ITEM_GROUPS))
    engine.view("reach", query("4_metrics/reach"))
    engine.view("item_units", _VALUES["item_units"])
    has_items = "items" in engine.relations
    more = " union all select cast(item_id as varchar) as item_id from items" if has_items else ""
    engine.view("catalogue", _VALUES["catalogue"].format(more=more))
    if name == "coverage":
        return _VALUES["coverage"]
    rows = engine.rows("select distinct item_group from group_units order by 1")
    groups = np.array([read_int(group) for (group,) in rows])
    # The order in which an analysis draws groups, so that both give the same value.
    order = np.random.default_rng(SEED).permutation(len(groups))
    drawn = groups[order].tolist()
    engine.view("group_sets", _VALUES["sets"].format(order=drawn, groups=len(drawn)))
    return _VALUES["evenness"].format(measure=_VALUES[name])
