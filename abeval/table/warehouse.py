"""Compute an experiment's sums in a warehouse by one statement, and analyse them.

The views and queries are those of an analysis, made on empty tables of the logs' columns. At the
door each column is cast to one of few types, so that the rest needs to know nothing of the tables.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import NamedTuple

from sqlglot import exp
from sqlglot.errors import SqlglotError

from abeval.engines import builders, statement
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sources import list_logs, name_relation
from abeval.engines.sql import Engine, literal, query, quote, write_case
from abeval.engines.statement import Recorder, check_dialect
from abeval.engines.warehouse_rules import find_strange_part
from abeval.errors import ExperimentError, LogError, QueryError
from abeval.experiment.metrics import find_metrics_by_name
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT, LogSource
from abeval.inference.judge import judge
from abeval.logs import checks
from abeval.logs.duplicates import keep_impressions, write_has_id
from abeval.logs.mapping import LogColumns, map_columns, tells_events_apart
from abeval.logs.placing_sql import write_assigned_units
from abeval.logs.prepare import choose_click_join, write_sum_steps, write_views
from abeval.logs.run import Run
from abeval.logs.shape import LogSchema, build_schema
from abeval.logs.views import show_rows
from abeval.metrics import definition
from abeval.metrics.definition import PAGE_VIEWS, SESSIONS, UNIT_DAY, Metric, RowTerm, Source, Term
from abeval.metrics.expressions import parse_expression, replace_columns
from abeval.metrics.row_text import is_plain, list_columns
from abeval.packaged import load_toml_next_to
from abeval.progress import Step
from abeval.results.analysis import Result
from abeval.table import sums
from abeval.table.connection import Warehouse, connect
from abeval.table.counts import Sums

_UNTESTED = {
    "databricks": "untested on Databricks: abeval's tests run it on Spark",
    "snowflake": "untested on Snowflake: abeval's tests run it on an emulator, fakesnow; "
    "names stand without quotes, so in upper case",
    "bigquery": "untested on BigQuery: abeval's tests run it on an emulator, bqemulator",
}
"""Dialects of warehouses on which abeval's tests run nothing → what they run instead."""

_READ = ("impressions", "units", "clicks", "items", "exposures")
_SETTINGS = "join_use_nulls = 1, prefer_column_name_to_alias = 1"
_HERE = "let abeval read the logs"

_KIND = {
    name: kind
    for kind, names in load_toml_next_to(__file__, "types.toml").items()
    for name in names.split()
}
"""SQLGlot's name of a type → DuckDB's type in the statement."""

_SOURCES = (UNIT_DAY, PAGE_VIEWS, SESSIONS)
"""Sources whose values are whole numbers in every engine, and add up."""

_LOGIC = re.compile(r"\b(and|or|not|is|true|false|when)\b", re.IGNORECASE)
_TIMES = ("TIMESTAMP", "TIMESTAMPTZ", "DATE")


class SumsStatement(NamedTuple):
    """A statement, its columns, and why it has no sums of some metrics."""

    text: str
    columns: Sequence[str]
    refused: Mapping[str, str]


def analyze_in_warehouse(experiment: Experiment, uri: str, step: Step) -> Result:
    """Send the statement to a warehouse, and analyse its sums.

    Raises:
        ExperimentError: Sums cannot give what the experiment asks for.
        QueryError: The warehouse does not answer.
    """
    has_before = experiment.is_unit_table or experiment.pre_period is not None
    sums.check_supported(experiment, find_metrics_by_name(experiment), has_before)
    step("connecting")
    with closing(connect(uri)) as warehouse:
        query = write_sums_statement(experiment, warehouse)
        step("sums in the warehouse")
        rows = warehouse.ask(query.text)
    step("inference")
    answer = sums.parse_summaries(query.columns, rows, "the warehouse's answer")
    judged_experiment, metrics, aggregates = sums.aggregate_sums(
        experiment, find_metrics_by_name(experiment), Sums("the warehouse", answer)
    )
    size = sum(len((cell or "").encode()) for row in rows for cell in row)
    notes = (
        *aggregates.notes,
        *(f"One statement has no sums of {name}: {why}." for name, why in query.refused.items()),
        f"{len(rows):,} rows of sums, {size:,} bytes, left the warehouse.",
    )
    return judge(judged_experiment, metrics, replace(aggregates, notes=notes))


def write_sums_statement(experiment: Experiment, warehouse: Warehouse) -> SumsStatement:
    """Write the statement of an experiment's sums.

    Raises:
        ExperimentError: One statement cannot do what the experiment asks for.
    """
    metrics = find_metrics_by_name(experiment)
    has_before = experiment.is_unit_table or experiment.pre_period is not None
    # The sums of a look are those of any other plan.
    sums.check_supported(experiment.single_look, metrics, has_before)
    text, columns, refused = _write_statement(experiment, metrics, warehouse)
    notes = [
        *_note_tests(f"sums by metric, variant and day of {experiment.name!r}", warehouse.dialect),
        "save the rows as a CSV file, then: abeval analyze EXPERIMENT.toml --sums FILE",
        *(f"not among them: {name}: {why}" for name, why in refused.items()),
    ]
    if experiment.inference.looks == "group_sequential":
        notes.append("take inference.looks out of the file first: sums have one look")
    return SumsStatement(_write_comments(notes) + text, columns, refused)


def write_value_statement(experiment: Experiment, name: str, warehouse: Warehouse) -> str:
    """Write the statement of a metric's value by variant.

    Raises:
        ExperimentError: The metric is more than sums of rows.
    """
    (metric,) = find_metrics_by_name(experiment, [name])
    metric = replace(metric, covariates=())
    if metric.cap is not None:
        what = f"{name} is capped, and one statement in {warehouse.dialect} cannot"
        raise ExperimentError(what, _HERE)
    # The value is that of the period: no covariates.
    plain = experiment.model_copy(update={"pre_period": None})
    text, *_ = _write_statement(plain, [metric], warehouse, of_value=True)
    return _write_comments(_note_tests(f"{name}: {metric.formula}", warehouse.dialect)) + text


def _note_tests(heading: str, dialect: str) -> Iterator[str]:
    """Write what a statement is, and whether tests run it.

    If tests run it elsewhere only, this comes first.
    """
    if dialect in ("spark", "databricks"):
        heading += "; with spark.sql.session.timeZone = UTC"
    if dialect in _UNTESTED:
        yield _UNTESTED[dialect]
    yield heading if dialect in _UNTESTED else f"{heading}; abeval's tests run it"


def _write_comments(notes: Iterable[str]) -> str:
    return "".join(f"-- {' '.join(note.split())}\n" for note in notes)


def _write_statement(
    experiment: Experiment,
    wanted_metrics: Sequence[Metric],
    warehouse: Warehouse,
    of_value: bool = False,
) -> SumsStatement:
    """Write the statement of sums, or of one value, without comments."""
    dialect = warehouse.dialect
    check_dialect(dialect)
    _check_statement(experiment)
    refused = dict(_list_refusals(experiment, wanted_metrics))
    # What a definition leaves out is not counted.
    metrics = [
        replace(metric, left_out=(), lacking=())
        for metric in wanted_metrics
        if metric.name not in refused
    ]
    # A table of units beside the impressions has covariates only.
    units = experiment.logs.units if experiment.is_unit_table else None
    logs = experiment.logs.model_copy(update={"units": units, "events": {}})
    bare = experiment.model_copy(update={"logs": logs, "segments": {}, "cuts": {}})
    # Views and queries run on empty tables of the same columns: the recorder keeps their SQL.
    with closing(Recorder()) as recorder:
        writer = _Writer(bare, warehouse, recorder)
        tables, schema = writer.write_logs(metrics)
        refused |= {
            metric.name: f"the logs have no {', '.join(sorted(lacking))}"
            for metric in metrics
            if (lacking := metric.needs - schema.needs_met(bare.unit))
        }
        metrics = [metric for metric in metrics if metric.name not in refused]
        if not metrics:
            reasons = "; ".join(f"{name}: {why}" for name, why in refused.items())
            raise ExperimentError(f"sums can give none of the metrics: {reasons}", _HERE)
        write_totals(Run(bare, recorder), schema, {m.source for m in metrics}, not of_value)
        write = writer.write_value if of_value else writer.write_answer
        sql, columns = write(schema, metrics)
        recorder.view("answer", sql)
        answer = recorder.relations["answer"]
        text = statement.write_statement(answer, dialect, tables, warehouse.materializes)
    if dialect == "clickhouse":
        once = "enable_materialized_cte = 1, " if warehouse.materializes else ""
        text += f"settings {once}{_SETTINGS}\n"
    if unknown := [call for call in builders.CALLS if f"{call}(" in text.lower()]:
        what = f"there is no SQL of {', '.join(unknown)} for {dialect}"
        raise QueryError(what, "name a dialect close to it, such as postgres")
    return SumsStatement(text, columns, refused)


def _check_statement(experiment: Experiment) -> None:
    """Refuse entries of an experiment that one statement cannot compute."""
    refused = list[str]()
    if experiment.cleaning.duplicate_key is not None:
        refused.append("cleaning.duplicate_key, for warehouses order rows in different ways")
    logs = experiment.logs.logs_by_name
    for name, log in ((name, logs[name]) for name in _READ if name in logs):
        given = log.model_dump(include={"query", "ts_zone"}, exclude_none=True)
        refused += [f"logs.{name}.{key}" for key in given]
        if log.where is not None and (odd := _find_strange(log.where)):
            refused.append(f"`{odd}` in logs.{name}.where, which warehouses may compute otherwise")
    if refused:
        raise ExperimentError(f"one statement cannot give: {'; '.join(refused)}", _HERE)


def _list_refusals(experiment: Experiment, metrics: Sequence[Metric]) -> Iterator[tuple[str, str]]:
    """Yield the metrics that one statement cannot sum, and why."""
    adjusts = experiment.inference.adjust != "none"
    for metric in metrics:
        terms = definition.list_row_terms(metric)
        odd = next((odd for term in terms if (odd := _find_strange(term.expression))), None)
        if not metric.is_mean_or_ratio or metric.source not in _SOURCES or metric.among:
            yield metric.name, "it is more than sums of rows"
        elif metric.lacking and metric.missing != "zero":
            why = 'which values are missing is not summed: missing = "zero" has them as 0'
            yield metric.name, why
        elif adjusts and metric.covariates:
            yield metric.name, "it has covariates of its own, or of a table of units"
        elif odd:
            yield metric.name, f"warehouses may compute `{odd}` otherwise"


def _find_strange(text: str) -> str | None:
    """Find the part of an expression that may mean something else in a warehouse."""
    if "ts" in list_columns(text):
        return "ts"
    if is_plain(text):
        return None
    return find_strange_part(parse_expression(text))


@dataclass(frozen=True)
class _Writer:
    """Makes the relations of the statement in order, on empty tables."""

    experiment: Experiment
    warehouse: Warehouse
    recorder: Recorder

    def write_logs(self, metrics: Sequence[Metric]) -> tuple[list[str], LogSchema]:
        """Write the logs and their canonical views; return table names and the shape."""
        experiment, recorder = self.experiment, self.recorder
        sources = {name: log for name, log in experiment.logs.logs_by_name.items() if name in _READ}
        texts = [
            term.expression for metric in metrics for term in definition.list_row_terms(metric)
        ]
        columns = {name: self._write_log(name, log, texts) for name, log in sources.items()}
        checks.check_opened(experiment, columns)
        schema = build_schema(experiment, metrics, columns)
        log = schema.impressions
        kinds = {name.lower(): kind for name, kind in log.types.items()}
        if times := [name for name in schema.own_columns if kinds[name.lower()] in _TIMES]:
            raise ExperimentError(f"sums cannot read column {times[0]!r}, which is a time", _HERE)
        keep_impressions(recorder, _deduplicate_sql(experiment, log))
        write_views(Run(experiment, recorder), schema, choose_click_join(experiment, schema))
        return [_parse_table(name, log).name for name, log in sources.items()], schema

    def _write_log(self, name: str, log: LogSource, texts: Sequence[str]) -> LogColumns:
        """Write the rows of a log as `raw_NAME`, and map its columns."""
        experiment, recorder = self.experiment, self.recorder
        kinds = self._find_kinds(name, log)
        unit = experiment.unit
        spelled = {column.lower(): column for column in kinds}
        lacks = name == "clicks" and log.columns.get("unit_id", unit).lower() not in spelled
        has_unit = not lacks and name != "items" and unit != ROW_UNIT
        columns = map_columns(name, log, kinds, unit if has_unit else None)
        mapped = {column: canonical for canonical, column in columns.mapped.items()}
        tests = [log.where] if log.where else []
        tests += [text for text in texts if _LOGIC.search(text)]
        # A column in a condition stays a boolean: engines do not read numbers as conditions.
        logical = {column for text in tests for column in list_columns(text)}
        for column in [column for column, kind in kinds.items() if kind == "BOOLEAN"]:
            is_text = mapped.get(column) in ("variant", "category")
            # A warehouse need not read a boolean as a number.
            if not is_text and column.lower() not in logical:
                kinds[column] = "INTEGER"
        if "variant" in columns and kinds[columns.mapped["variant"]] == "DOUBLE":
            what = f"logs.{name}: variants in {columns.mapped['variant']!r} have a fraction"
            raise LogError(what, "engines write these as different texts: map another column")
        select_list = ", ".join(f"{self._cast(c, kind)} as {quote(c)}" for c, kind in kinds.items())
        raw = name_relation("raw", name)
        door = raw if log.where is None else name_relation("log", name)
        empty = ", ".join(f"cast(null as {kind}) as {quote(c)}" for c, kind in kinds.items())
        recorder.table(door, f"select {empty} where 1 = 0")
        sql = f"select {select_list} from {_parse_table(name, log).sql('duckdb')}"
        recorder.relations[door] = statement.Relation(door, sql, list(kinds), {})
        if log.where is not None:
            where = replace_columns(log.where, lambda column: spelled.get(column.lower(), column))
            recorder.view(raw, f"select * from {door} where coalesce(({where}), false)")
        return map_columns(name, log, kinds, unit if has_unit else None)

    def _find_kinds(self, name: str, log: LogSource) -> dict[str, str]:
        """Find DuckDB's type of each column, from the warehouse or a sample in files."""
        if log.table is None or log.paths:
            with closing(DuckDBEngine(folder=self.experiment.folder)) as engine:
                engine.confine(list_logs(self.experiment).values())
                engine.add_log("log", log.map_unit(self.experiment.unit))
                types, dialect = engine.columns("log"), "duckdb"
        elif self.warehouse.catalog:
            types, dialect = self.warehouse.types(log.table), self.warehouse.dialect
        else:
            what = f"logs.{name}: the columns of table {log.table!r} are not known here"
            raise ExperimentError(what, "give --connect URI, or as `path` a sample of it in files")
        return {column: _find_kind(text, dialect) for column, text in types.items()}

    def _cast(self, column: str, kind: str) -> str:
        """Write a column cast to its type: text in binary order, times in UTC."""
        name = quote(column)
        if kind == "BLOB":
            return name
        if kind == "TIMESTAMPTZ":
            if self.warehouse.dialect == "snowflake":
                # Without its zone a time there is that of its own clock.
                return f"cast(({name} at time zone 'UTC') as timestamp)"
            is_postgres = self.warehouse.dialect == "postgres"
            return f"timezone('UTC', {name})" if is_postgres else f"cast({name} as timestamp)"
        if kind == "VARCHAR" and self.warehouse.dialect == "postgres":
            # Other collations order text by language: the first and last would differ.
            return f'cast({name} as varchar) collate "C"'
        return f"cast({name} as {kind.lower()})"

    def write_answer(
        self, schema: LogSchema, metrics: Sequence[Metric]
    ) -> tuple[str, Sequence[str]]:
        """Write the sums of every metric by variant and day; return SQL and columns."""
        cells = self._write_sums(schema, metrics)
        scaled = {
            column: {metric.name: literal(repr(_find_scale(metric, index))) for metric in metrics}
            for index, column in enumerate(sums.SCALES)
            if f"sum_{column[-1]}" in cells
        }
        day = self.recorder.local_time("w.on_day * 86400000", "UTC")
        columns = {
            "metric": "m.metric",
            "variant": "w.variant",
            "day": f"cast(cast({day} as date) as varchar)",
            "n": "cast(w.units as varchar)",
            **{name: write_case("m.metric", cases) for name, cases in scaled.items()},
            **{
                n: f"cast({write_case('m.metric', cases)} as varchar)" for n, cases in cells.items()
            },
        }
        metric_values = ", ".join(f"({literal(metric.name)})" for metric in metrics)
        selected = ", ".join(f"{sql} as {name}" for name, sql in columns.items())
        return (
            f"select {selected} from wide_sums w cross join (values {metric_values}) as m (metric)"
        ), [*columns]

    def write_value(
        self, schema: LogSchema, metrics: Sequence[Metric]
    ) -> tuple[str, Sequence[str]]:
        """Write the value of a metric by variant; return SQL and columns."""
        (metric,) = metrics
        cells = self._write_sums(schema, metrics, most=1)
        value, *per = (
            f"cast({cells[column][metric.name]} as double){'' if scale == 1 else f' * {scale!r}'}"
            for column, scale in zip(
                ("sum_y", "sum_x"), definition.list_scales(metric), strict=True
            )
            if column in cells
        )
        parts = {"numerator": value, "denominator": per[0]} if per else {"total": value}
        under = f"nullif({per[0]}, 0)" if per else "w.units"
        columns = {"variant": "w.variant", "value": f"{value} / {under}", **parts}
        selected = ", ".join(f"{sql} as {name}" for name, sql in columns.items())
        where = "where w.on_day is null order by w.variant"
        return f"select {selected}, w.units from wide_sums w {where}", [*columns, "units"]

    def _write_sums(
        self, schema: LogSchema, metrics: Sequence[Metric], most: int = 3
    ) -> dict[str, dict[str, str]]:
        """Write the sums of products of up to `most` values by variant and day.

        Returns the column of a sum → metric → SQL over a row `w` of these.
        """
        products: dict[tuple[str, ...], str] = {}
        cells: dict[str, dict[str, str]] = {}
        variants = self.experiment.variants
        for metric in metrics:
            by_variant = [self._find_values(schema, metric, name) for name in variants]
            for letters in _list_products(by_variant[0], most):
                factors = [tuple(sorted(columns[x] for x in letters)) for columns in by_variant]
                # Metrics share products: each is summed once.
                names = [products.setdefault(item, f"p_{len(products) + 1}") for item in factors]
                sql = f"w.{names[0]}"
                if len({*names}) > 1:
                    cases = [f"w.{name}" for name in names]
                    sql = write_case("w.variant", dict(zip(variants, cases, strict=True)))
                if len(letters) == 3 or {*letters} & {*"cdz"}:
                    # Days need no third moments and no covariates.
                    sql = f"case when w.on_day is null then {sql} end"
                cells.setdefault(sums.name_column(letters), {})[metric.name] = sql
        # Sums of products can exceed 64 bits.
        wide = "hugeint" if self.warehouse.dialect == "duckdb" else "decimal(38, 0)"
        select_list = [
            f"sum({' * '.join([f'cast({first} as {wide})', *rest])}) as {name}"
            for (first, *rest), name in products.items()
        ]
        self.recorder.view(
            "wide_sums",
            f"select variant, on_day, count(*) as units, {', '.join(select_list)} from unit_totals "
            "group by variant, on_day",
        )
        return cells

    def _find_values(self, schema: LogSchema, metric: Metric, variant: str) -> dict[str, str]:
        """Return letter → column of the totals that it sums, in one variant."""

        def column(term: Term) -> str:
            return schema.component(term, variant)

        terms = {"y": metric.value, "x": metric.per}
        values = {letter: column(term) for letter, term in terms.items() if term is not None}
        if self.experiment.inference.adjust == "none":
            return values
        if self.experiment.is_unit_table:
            return values | dict(zip("c", map(column, metric.covariates), strict=False))
        if self.experiment.pre_period is None:
            return values
        before = {"y": "c", "x": "d"}
        past = {before[letter]: f"b_{name}" for letter, name in values.items()}
        return values | past | {"z": "is_new"}


def write_totals(
    run: Run, schema: LogSchema, sources: Collection[Source], by_day: bool = True
) -> None:
    """Write the totals of each unit, for the period and maybe by day."""
    experiment, engine = run.experiment, run.engine
    are_units = experiment.is_unit_table or experiment.unit == ROW_UNIT
    steps = write_sum_steps(run, schema, are_units)
    engine.view("logged_cells", engine.write_steps(steps, "select * from dated_sums"))
    has_days = by_day and experiment.period is not None and schema.has_time
    days = " union all select 1 as is_day" if has_days else ""
    engine.view("spans", f"select 0 as is_day{days}")
    if not are_units:
        engine.view("placed", write_assigned_units(run, schema, is_whole=False))
        _write_counted(engine, schema, sources)
    engine.view("unit_totals", query(f"2_units/{'row_totals' if are_units else 'totals'}"))


def _write_counted(engine: Engine, schema: LogSchema, sources: Collection[Source]) -> None:
    """Write the rows that are counted: cells of the log, and rows of other sources."""
    components = [*schema.components.values()]
    columns = {"logged_cells": components}
    day = f"{engine.epoch_ms('cast(day as timestamp)')} // 86400000"
    read = {name: name for name in ("unit_id", "in_period", "time_ms", "request_id")}
    counted = "logged where counts and unit_id is not null"
    show_rows(engine, "metric_rows", read | {"day": day}, counted)
    for source in (source for source in _SOURCES[1:] if source in sources):
        engine.view(source.name, query(source.query))
        columns[source.name] = [c for c in engine.columns(source.name) if c[:2] == "c_"]
    every = [column for of_source in columns.values() for column in of_source]
    selects = [
        "select unit_id, cast(null as varchar) as variant, in_period, day, "
        f"{', '.join(c if c in has else f'0 as {c}' for c in every)} from {name}"
        f"{' where set_aside is null' if has is components else ''}"
        for name, has in columns.items()
    ]
    selects.append(
        "select unit_id, variant, cast(null as boolean) as in_period, "
        f"cast(null as bigint) as day, {', '.join(f'0 as {c}' for c in every)} from placed"
    )
    engine.view("counted", " union all ".join(selects))


def _list_products(letters: Collection[str], most: int) -> Iterator[tuple[str, ...]]:
    """Yield the products of up to `most` values that an analysis sums."""
    for size in range(1, most + 1):
        for product in combinations_with_replacement(letters, size):
            is_past = size == 3 and {*product} & {*"cd"}
            # z is 0 or 1, so its square adds nothing.
            if product.count("z") < 2 and not ("z" in product and is_past):
                yield product


def _find_scale(metric: Metric, index: int) -> float:
    """Return the value of one counted unit of y, x or c."""
    unit_scales = [term.scale for term in metric.covariates if isinstance(term, RowTerm)]
    return (*definition.list_scales(metric), *unit_scales, definition.list_scales(metric)[0])[index]


def _parse_table(name: str, log: LogSource) -> exp.Table:
    """Parse the name of a log's table; a log in files has the name of the log."""
    try:
        return exp.to_table(log.table or name, dialect="duckdb")
    except SqlglotError:
        raise ExperimentError(f"logs.{name}.table: {log.table!r} is no name of a table") from None


def _find_kind(text: str, dialect: str) -> str:
    """Return DuckDB's type of a column; BLOB for types that are not read.

    Example:
        >>> [_find_kind(text, "postgres") for text in ("varchar(20)", "numeric(9,2)", "json")]
        ['VARCHAR', 'DOUBLE', 'BLOB']
        >>> _find_kind("LowCardinality(Nullable(String))", "clickhouse")
        'VARCHAR'
    """
    while bare := re.fullmatch(r"(?:Nullable|LowCardinality)\((.*)\)", text):
        text = bare[1]
    try:
        kind = exp.DataType.build(text, dialect=dialect, udt=True)
    except SqlglotError:
        return "BLOB"
    if kind.this == exp.DataType.Type.DECIMAL:
        # numeric(9) and numeric(9, 0) are whole numbers; numeric alone has any decimals.
        is_whole = [part.name for part in kind.expressions][1:] in ([], ["0"])
        return "HUGEINT" if kind.expressions and is_whole else "DOUBLE"
    return _KIND.get(kind.this.name, "BLOB")


def _deduplicate_sql(experiment: Experiment, log: LogColumns) -> str:
    """Write the rows of a log without duplicates; in a table of units one per unit."""
    kept = f"select * from {log.raw}"
    has_ids = any(name in log for name in ("impression_id", "unit_id", "request_id"))
    if has_ids and tells_events_apart(log) and experiment.cleaning.duplicates == "drop":
        identified = write_has_id(log)
        kept = (
            # Rows without an id may be of different people: equal ones are kept.
            f"select distinct * from {log.raw} where {identified} "
            f"union all select * from {log.raw} where not ({identified})"
        )
    if not (experiment.is_unit_table and "unit_id" in log):
        return kept
    unit, rows = quote(log.mapped["unit_id"]), quote(log.make_unused_name("rows_of_unit"))
    return (
        f"select * from (select *, count(*) over (partition by {unit}) as {rows} from ({kept}) "
        f"as once) as counted where {unit} is null or {rows} = 1"
    )
