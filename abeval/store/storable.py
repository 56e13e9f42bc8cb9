"""What a store cannot keep, and why: sums that do not add up file by file.

`pipeline.py` asks before anything is read.
"""

from collections.abc import Mapping

from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.experiment.segment_rules import known_from
from abeval.experiment.sources import ROW_UNIT


def check_storable(experiment: Experiment, frames: Mapping[str, object]) -> None:
    """Refuse what does not add up file by file, before anything is read.

    Raises:
        ExperimentError: With the reason, and what to do.
    """
    for refused, why, mend in (
        (
            experiment.of_units,
            "a table of units is one table, not files of days",
            "analyse without a store",
        ),
        (
            "impressions" in frames or experiment.logs.rows.table is not None,
            "the impressions are a frame or a table",
            "write them as Parquet files, such as one a day",
        ),
        (
            experiment.logs.rows.query is not None or experiment.logs.rows.where is not None,
            "the impressions go through `query` or `where`",
            "write what they return as Parquet files, such as one a day",
        ),
        (
            experiment.engine.name != "duckdb",
            "it needs the engine duckdb",
            "remove [engine] name, or analyse without a store",
        ),
        (
            experiment.cleaning.duplicates == "drop",
            "a duplicate may be in another file, so all files would have to be read again",
            "drop duplicates where the files are written, and set cleaning.duplicates to "
            '"unchecked" ("keep" counts them, and reads all files for it)',
        ),
        (
            experiment.logs.clicks is not None,
            "a click of a separate log may change an impression of any file",
            "write `click` and `dwell` into the impressions, and write a file again when clicks "
            "come late",
        ),
        (
            experiment.unit_table is not None,
            "a table of units is one table, not files of days",
            "remove [logs.units], or analyse without a store",
        ),
        (
            bool(experiment.logs.events),
            "an outcome log has rows of any day, which change units without new impressions",
            "remove [logs.events], or analyse without a store",
        ),
        (
            bool(known_from(experiment, "exposure")),
            "the value of a segment at the exposure may be another when that log grows",
            'remove known = "exposure", or analyse without a store',
        ),
        (
            experiment.unit == ROW_UNIT,
            "every row is its own unit, so there is nothing to add up",
            "name the unit that was randomised",
        ),
    ):
        if refused:
            raise ExperimentError(f"the store does not work here: {why}", mend)
