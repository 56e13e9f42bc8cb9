"""`logged_sums` as the user's own warehouse computed it, in place of the pass over the log.

`pipeline.py` calls it where a folder of aggregates holds this file instead; the sums then go
through `aggregates/collect.py` as those of a log do.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from abeval.engines.sql import quoted
from abeval.errors import ExperimentError, LogError
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT, LogSource
from abeval.files import real
from abeval.logs.cells import Summed, Sums
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.metrics.definition import Metric

NAMES = ("logged_sums.parquet", "logged_sums.csv")


def warehouse_file(folder: Path) -> Path | None:
    """The sums in a folder, None if there are none."""
    return next((folder / name for name in NAMES if (folder / name).is_file()), None)


def check_supported(experiment: Experiment) -> None:
    """Refuse experiments that need more than sums per unit and day.

    Raises:
        ExperimentError: With the reason.
    """
    for refused, why in (
        (
            experiment.logs.exposures is not None,
            "exposed units without an impression are not in the sums",
        ),
        (experiment.unit == ROW_UNIT, "every row is its own unit"),
    ):
        if refused:
            what = f"an analysis from logged_sums does not work here: {why}"
            raise ExperimentError(what, "let abeval read the log, with --engine spark if it is big")


def warehouse_sums(file: Path) -> Sums:
    """Makes `logged_sums` from a file.

    Args:
        file: Parquet or CSV: what `abeval sql units/logged_sums --experiment FILE` returned.
    """
    return partial(_load, file)


def _load(file: Path, run: Run, metrics: Sequence[Metric], shape: LogShape) -> Summed:
    engine = run.engine
    run.step("reading the sums")
    engine.add_log("given_sums", LogSource(path=str(real(file))))
    types = _columns(shape)
    _check_columns(file, engine.columns("given_sums"), types)
    columns = ", ".join(f"cast({quoted(n)} as {kind}) as {quoted(n)}" for n, kind in types.items())
    engine.table("logged_sums", f"select {columns} from given_sums")
    note = (
        f"The sums per unit and day are from {file.name}: duplicates and clicks without an "
        "impression are not checked here; they were left out when the file was made."
    )
    return Summed((note,), has_rows=False)


def _columns(shape: LogShape) -> dict[str, str]:
    """The columns of `logged_sums` for these metrics, and their types."""
    segments = {f"s_{name}": "varchar" for name in shape.segments}
    sums = dict.fromkeys(shape.components.values(), "bigint")
    unit = shape.impressions.type_of("unit_id")
    return {
        **{"unit_id": unit, "phase": "integer", "hour": "bigint", "variant": "varchar"},
        **{"is_exposed": "boolean", **segments, "first_ms": "bigint", "last_ms": "bigint"},
        **sums,
    }


def _check_columns(file: Path, columns: Iterable[str], wanted: Iterable[str]) -> None:
    """Refuse the columns of another experiment, or of other metrics."""
    has = {name.lower() for name in columns}
    needs = {name.lower() for name in wanted}
    again = "run `abeval sql units/logged_sums --experiment FILE` of this experiment again"
    if missing := sorted(needs - has):
        raise LogError(f"{file.name} has no column {', '.join(missing)}", again)
    if others := sorted(has - needs):
        raise LogError(f"{file.name} has columns of other metrics: {', '.join(others)}", again)
