"""`abeval windows`: effects over time.

Calls `LoadedExperiment.windows` of `api/`, and `.aa` for the report.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import JsonFile, MetricNames, ReportFile, Whole, print_tables, write_json

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment


class By(StrEnum):
    """Recurring parts of time."""

    hour = "hour"
    weekday = "weekday"


def windows(
    loaded: "LoadedExperiment",
    metric: MetricNames = None,
    width: Annotated[
        list[int] | None,
        typer.Option(help="Days of a rolling window; repeat for more. Default: 3 and 7."),
    ] = None,
    look: Annotated[
        list[int] | None, typer.Option(help="Day of a planned look; repeat for more.")
    ] = None,
    by: Annotated[
        list[By] | None, typer.Option(help="Also effects by hour or weekday; repeat for both.")
    ] = None,
    whole: Whole = False,
    json_file: JsonFile = None,
    report: ReportFile = None,
) -> None:
    """Effects by window: stability, novelty, and what daily looks would have declared.

    The report has A/A replays too.
    """
    from abeval.progress import steps

    with steps() as step:
        result = loaded.windows(
            metrics=metric,
            widths=width or (3, 7),
            looks=look,
            by=[part.value for part in by or ()],
            step=step,
        )
        replays = None if report is None else loaded.aa(metrics=metric, step=step)
    write_json(json_file, result)
    if report is not None:
        result.report(report, replays)
    print_tables(result, whole)
