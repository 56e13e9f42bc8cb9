"""Make the experiment of a table of units."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from abeval.bounds import MAX_VARIANTS
from abeval.drafts.variants import (
    ask_nulls,
    ask_weights,
    find_nulls,
    list_likely_controls,
    names_control,
)
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.frames import read_texts
from abeval.engines.sources import find_files, write_entry
from abeval.engines.sql import Engine, cast_query, quote, read_int
from abeval.engines.text_files import find_decimal_commas
from abeval.errors import ExperimentError, LogError
from abeval.experiment.load import check_read_options, make_source, parse_experiment
from abeval.experiment.model import Experiment
from abeval.experiment.problems import check_spelled_once, suggest_name
from abeval.experiment.sources import ROW_UNIT
from abeval.files import resolve_path
from abeval.logs.ids import COARSER_NAMES
from abeval.table.columns import TABLE, TableOptions, TableReader, read_measures, read_segments


def write_equal_weights(variants: Iterable[str]) -> str:
    """Write an equal split as Python and as command-line option, for hints."""
    equal = dict.fromkeys(variants, 1)
    flag = shlex.quote(",".join(f"{name}={weight}" for name, weight in equal.items()))
    return f"weights={equal} (--weights {flag})"


def choose_variants(
    options: TableOptions, counts: Mapping[str, int]
) -> tuple[dict[str, Any], list[str]]:
    """Choose the control and the weights.

    Return their entries, and questions about the split.
    """
    planned = options.weights
    if planned is not None and (missing := sorted({*counts} ^ {*planned}, key=str)):
        raise ExperimentError(f"weights: {missing[0]!r} is not in both weights and the table")
    # Units that refute an equal split, which nobody planned: the result will ask about it.
    asked = [] if planned else ask_weights(counts, write_equal_weights(counts))
    weights = planned or (counts if asked else dict.fromkeys(counts, 1.0))
    entries = {
        "control": _choose_control(options.control, [*options.entries.get("variants", counts)]),
        "weights": "observed" if asked else "planned",
        "variants": {name: {"weight": weights[name]} for name in counts},
    }
    return entries, asked


def _choose_control(control: str | None, variants: Sequence[str]) -> str:
    """Choose the control: the given variant, or one with a usual name."""
    if control is not None:
        if control not in variants:
            hint = suggest_name(control, variants)
            raise ExperimentError(f"control: no variant is called {control!r}{hint}")
        return control
    likely = list_likely_controls(variants)
    if len(likely) > 1:
        names = ", ".join(map(repr, likely))
        raise ExperimentError(
            f"control: {names} are all usual names of a control",
            "name the one that the others are compared with: --control, or control=",
        )
    return (likely or variants)[0]


_JOIN = "correct them in the table, or write {} beside the other variants"
"""Hint on how to join two spellings of a variant."""


def read_table(table: object, options: TableOptions) -> tuple[Experiment, DuckDBEngine]:
    """Read a table, a file or a frame, and make its experiment.

    The engine is open; its next log of the same table is not read again, unless it is Parquet.
    """
    path = Path(table) if isinstance(table, str | Path) else None
    # Ids and names of variants in text files are read as the analysis reads them.
    log = {**check_read_options(options.read), "columns": {"variant": options.variant}}
    if path is not None:
        log["path"] = str(resolve_path(path))
    elif options.read:
        raise ExperimentError("read says how a file is read, but there is a frame", "remove it")
    source = make_source(log).map_unit(options.unit or ROW_UNIT)
    with ExitStack() as stack:
        engine = stack.enter_context(closing(DuckDBEngine()))
        # Only columns that an option names, and ids, are read; without metrics all are.
        reads = None if options.metrics is None else f"{options!r} {COARSER_NAMES}"
        if path is None:
            engine.add_frame(TABLE, table, source, reads)
        else:
            engine.add_log(TABLE, source, reads)
        if path is not None:
            _check_commas(engine, options, find_files(TABLE, source, Path()).takes("decimal"))
        entries = _make_entries(engine, options, "table" if path is None else path.stem or "table")
        entries["logs"]["units"] = {**log, **entries["logs"]["units"]}
        entries |= options.entries
        experiment = parse_experiment(entries, source="the analysis")
        engine.spare(TABLE)
        # It stays open for the caller, unless something above was refused.
        stack.pop_all()
    return experiment, engine


def _check_commas(engine: Engine, options: TableOptions, is_csv: bool) -> None:
    """Refuse metrics that are text because of a decimal comma."""
    metrics = options.metrics and repr((options.metrics, options.covariates)).lower()
    other_options = repr((options.variant, options.unit, options.segments)).lower()
    texts = [
        column
        for column, kind in engine.columns(TABLE).items()
        if kind == "VARCHAR" and repr(column.lower()) not in other_options
        # Without named metrics, a column of text would silently be none.
        if metrics is None or column.lower() in metrics
    ]
    for column, example in find_decimal_commas(TABLE, texts, engine.rows).items():
        entry = write_entry(TABLE, "decimal", ",")
        hint = f"if that is a decimal comma: {entry}; if not, name metrics"
        if not is_csv:
            hint = "write numbers where the table is made"
        elif options.read.get("decimal") == ",":
            hint = "write numbers without points between thousands where the table is made"
        raise LogError(f"column {column!r} is text, such as {example!r}", hint)


def _make_entries(engine: Engine, options: TableOptions, name: str) -> dict[str, Any]:
    """Make the entries of the experiment."""
    columns = TableReader(engine)
    variant = columns.find_column(options.variant)
    unit = ROW_UNIT if options.unit is None else columns.find_column(options.unit)
    is_decimal = options.unit is not None and columns.check_id(unit)
    counts, questions = _count_variants(engine, variant), []
    if "variants" not in options.entries:
        planned = options.weights or {}
        nulls = {name: counts.pop(name) for name in find_nulls(counts) if name not in planned}
        if options.weights is None:
            answer = f"name all that are: {write_equal_weights(counts)}"
            questions += ask_nulls(nulls, answer)
        check_spelled_once(f"column {variant!r}", counts, _JOIN)
    chosen, split_questions = choose_variants(options, counts)
    control = chosen["control"]
    if options.control is None and not names_control(control):
        questions.append(
            f"control: is it {control!r}, the first by name? Say so: "
            f"control={control!r} (--control {shlex.quote(control)})"
        )
    metrics, covariates = read_measures(engine, columns, options)
    log = {"columns": {"variant": variant}, "covariates": covariates}
    log |= {"query": cast_query({unit: "bigint"})} if is_decimal else {}
    return {
        "name": name,
        "questions": [*questions, *split_questions],
        "unit": unit,
        **chosen,
        "logs": {"units": log},
        "inference": {"adjust": "cuped" if options.before else "none"},
        "segments": read_segments(columns, options.segments),
        "metrics": metrics,
    }


def _count_variants(engine: Engine, column: str) -> dict[str, int]:
    """Count the rows of each variant."""
    frame = engine.plain_frame(TABLE)
    texts = None if frame is None else read_texts(frame, column)
    if texts is not None and 2 <= len({*texts.names} - {""}) <= MAX_VARIANTS:
        rows_of = dict(zip(texts.names, np.bincount(texts.code + 1)[1:].tolist(), strict=True))
        return {name: rows_of[name] for name in sorted(rows_of) if name}
    value = f"cast({quote(column)} as varchar)"
    rows = engine.rows(
        f"select {value}, count(*) from {TABLE} where {value} <> '' "
        f"group by {value} order by {value} limit {MAX_VARIANTS + 1}"
    )
    if 2 <= len(rows) <= MAX_VARIANTS:
        return {str(variant): read_int(count) for variant, count in rows}
    if not engine.count(TABLE):
        raise LogError("the table has no rows", "was it filtered, or read, as it was meant?")
    if len(rows) == 1:
        what = f"one value, {str(rows[0][0])!r}, so there is nothing to compare it with"
        empty = engine.count(TABLE) - read_int(rows[0][1])
        hint = "a table needs the rows of control too"
        if empty:
            hint = f"{empty:,} rows have none: if they are of control, write its name into them"
        raise LogError(f"column {column!r} has {what}", hint)
    what = f"more than {MAX_VARIANTS} values" if rows else "no value in any row"
    hint = "name the column that says which variant a unit is in"
    raise LogError(f"column {column!r} has {what}, so it is no variant", hint)
