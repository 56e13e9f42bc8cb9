"""A table of sums by metric, variant and day, read from a file or a frame, and judged.

`pipeline.py` calls it for `abeval analyze --sums`; `aggregates/summaries.py` makes aggregates of
the rows.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from abeval.aggregates.aggregates import Aggregates
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import quoted
from abeval.errors import ExperimentError, LogError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggestion
from abeval.experiment.sources import LogSource
from abeval.files import real
from abeval.metrics.definition import Metric

_TABLE = "sums_by_metric"
_NEEDED = ("metric", "variant", "n", *VALUE)


def read_sums(source: object) -> list[Summary]:
    """The rows of a table of sums: a file (Parquet, CSV, JSON), or a frame.

    Raises:
        LogError: It cannot be read, lacks a column, or a row is no sum.
    """
    path = Path(source) if isinstance(source, str | Path) else None
    # Names of variants in text files are text, whatever they look like.
    log = LogSource(path=None if path is None else str(real(path)), columns={"variant": "variant"})
    with closing(DuckDBEngine()) as engine:
        if path is None:
            engine.add_frame(_TABLE, source, log)
        else:
            engine.add_log(_TABLE, log)
        known = {column.lower(): column for column in engine.columns(_TABLE)}
        name = name_of(source)
        _check_columns(known, name)
        own = [column for column in COLUMNS if column in known]
        listed = ", ".join(f"cast({quoted(known[c])} as varchar)" for c in own)
        rows = engine.rows(f"select {listed} from {_TABLE}")
    if not rows:
        raise LogError(f"{name} has no rows", f"give one row a metric and variant: {_FORM}")
    return summaries((dict(zip(own, row, strict=True)) for row in rows), name)


_FORM = "metric, variant, day, n, sum_y, sum_yy, and of a ratio sum_x, sum_xx, sum_xy"


def name_of(source: object) -> str:
    """The name of a table of sums in messages."""
    return Path(source).name if isinstance(source, str | Path) else "the frame"


def _check_columns(known: Sequence[str] | dict[str, str], name: str) -> None:
    missing = [column for column in _NEEDED if column not in known]
    if missing:
        hint = suggestion(missing[0], known)
        raise LogError(f"{name} has no column {missing[0]!r}{hint}", f"its columns: {_FORM}")
    unknown = [column for column in known if column not in COLUMNS]
    if unknown:
        hint = suggestion(unknown[0], COLUMNS)
        raise LogError(
            f"{name} has a column {unknown[0]!r} that sums do not have{hint}",
            f"its columns: {_FORM}; of values before the period {', '.join(BEFORE)}",
        )
    for group in (DENOMINATOR, BEFORE):
        lacking = [column for column in group if column not in known]
        if 0 < len(lacking) < len(group):
            raise LogError(
                f"{name} has no column {lacking[0]!r}", f"{', '.join(group)} go together"
            )


def of_experiment(
    experiment: Experiment, metrics: Sequence[Metric], rows: Sequence[Summary], source: str
) -> tuple[list[Metric], Aggregates]:
    """The experiment's metrics and aggregates, by its sums alone.

    Raises:
        ExperimentError: The experiment asks for what sums cannot give, which is named.
        LogError: The sums have another variant, or lack one.
    """
    _check_supported(experiment, metrics, rows)
    _check_variants(experiment, rows, source)
    own, aggregates = aggregates_of_sums(metrics, rows, source)
    if not experiment.segments:
        return own, aggregates
    segments = ", ".join(experiment.segments)
    note = f"Sums have no segments, so these are not shown: {segments}."
    return own, replace(aggregates, notes=(*aggregates.notes, note))


def _check_supported(
    experiment: Experiment, metrics: Sequence[Metric], rows: Sequence[Summary]
) -> None:
    """Refuse, by its name, whatever would need values of units."""
    inference = experiment.inference
    has_before = any(not row.sums.keys().isdisjoint(BEFORE) for row in rows)
    needs = {
        "inference.stratify_by": inference.stratify_by is not None,
        "inference.resample": inference.resample is not None,
        "inference.looks = 'group_sequential'": inference.looks == "group_sequential",
        f"inference.adjust = {inference.adjust!r} without {', '.join(BEFORE)}": (
            inference.adjust in ("cuped", "regression") and not has_before
        ),
        "assignment.splits": bool(experiment.schedule),
        **{f"cap of {metric.name}": metric.cap is not None for metric in metrics},
    }
    refused = [name for name, is_there in needs.items() if is_there]
    if refused:
        raise ExperimentError(
            f"sums cannot give: {', '.join(refused)}", "remove it, or analyse the logs"
        )


def _check_variants(experiment: Experiment, rows: Sequence[Summary], source: str) -> None:
    there = {row.variant for row in rows}
    for name in experiment.variants:
        if name not in there:
            raise LogError(
                f"{source} has no sums of variant {name!r}{suggestion(name, there)}",
                f"it has: {', '.join(sorted(there))}",
            )
    others = sorted(there - {*experiment.variants})
    if others:
        raise LogError(
            f"{source} has sums of {others[0]!r}, which the experiment does not name",
            "name it in [variants], or leave its rows out",
        )
