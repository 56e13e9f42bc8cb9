"""A table of one row a unit as an experiment: its variants, metrics and covariates are columns.

`api/table.py` calls it for `abeval.analyze` and `abeval analyze TABLE`: it looks at the table once,
and writes the entries that an experiment file would have.
"""

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Engine, whole
from abeval.engines.sql import quoted
from abeval.errors import LogError
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.experiment.problems import check_spelled_once
from abeval.experiment.sources import ROW_UNIT, LogSource
from abeval.files import real
from abeval.table.columns import TABLE, Columns, TableOptions, measures_of, segments_of

_JOIN = "correct them in the table, or write an experiment file (`abeval init` drafts one) with {}"
"""How to make one variant of two spellings."""

_MOST_VARIANTS = 20


class ReadTable(NamedTuple):
    """A table that was looked at.

    Attributes:
        experiment: What is to be analysed.
        engine: Open; its next log of the same table is not read again, unless it is Parquet.
    """

    experiment: Experiment
    engine: DuckDBEngine


def read_table(table: object, options: TableOptions) -> ReadTable:
    """The experiment of a table: a file (Parquet, CSV, JSON), or a frame.

    Raises:
        LogError: The table cannot be read, or lacks a column.
        ExperimentError: A metric is none, or there are no two variants.
    """
    path = Path(table) if isinstance(table, str | Path) else None
    # Ids and names of variants in text files are read as the analysis reads them.
    source = LogSource(
        path=None if path is None else str(real(path)), columns={"variant": options.variant}
    ).with_unit(options.unit or ROW_UNIT)
    with ExitStack() as stack:
        engine = stack.enter_context(closing(DuckDBEngine()))
        reads = None if options.metrics is None else repr(options)
        if path is None:
            engine.add_frame(TABLE, table, source, reads)
        else:
            engine.add_log(TABLE, source, reads)
        entries = _entries(engine, options, "table" if path is None else path.stem or "table")
        if path is not None:
            entries["logs"]["units"]["path"] = str(real(path))
        experiment = parse_experiment({**entries, **options.entries}, source="the analysis")
        engine.spare(TABLE)
        # It stays open for the caller, unless something above was refused.
        stack.pop_all()
    return ReadTable(experiment, engine)


def _entries(engine: Engine, options: TableOptions, name: str) -> dict[str, Any]:
    """The entries of the experiment."""
    columns = Columns(engine)
    variant = columns.named(options.variant)
    unit = ROW_UNIT if options.unit is None else columns.named(options.unit)
    counts = _counts(engine, variant)
    if "variants" not in options.entries:
        check_spelled_once(f"column {variant!r}", counts, _JOIN)
    control = control_of(options.control, list(options.entries.get("variants", counts)))
    weights, whence = weights_of(options.weights, counts)
    measures = measures_of(engine, columns, options)
    return {
        "name": name,
        "unit": unit,
        "control": control,
        "weights": whence,
        "variants": {label: {"weight": weights[label]} for label in counts},
        "logs": {"units": {"columns": {"variant": variant}, "covariates": measures.covariates}},
        "inference": {"adjust": "cuped" if measures.covariates else "none"},
        "segments": segments_of(columns, options.segments),
        "metrics": measures.metrics,
    }


def _counts(engine: Engine, column: str) -> dict[str, int]:
    """Variant → its rows."""
    value = f"cast({quoted(column)} as varchar)"
    rows = engine.rows(
        f"select {value}, count(*) from {TABLE} where {value} <> '' "
        f"group by {value} order by {value} limit {_MOST_VARIANTS + 1}"
    )
    if not 2 <= len(rows) <= _MOST_VARIANTS:
        what = "more than 20 values" if len(rows) > 1 else f"{len(rows)} values"
        hint = "name the column that says which variant a unit is in"
        raise LogError(f"column {column!r} has {what}, so it is no variant", hint)
    return {str(variant): whole(count) for variant, count in rows}
