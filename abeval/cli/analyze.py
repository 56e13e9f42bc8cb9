"""`abeval analyze`: verdict, trust checks and scorecard of an experiment.

Calls `LoadedExperiment.analyze` or `.from_aggregates` of `api/`; `report/terminal.py` prints the
result.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import (
    JsonFile,
    Reads,
    ReportFile,
    Writes,
    console,
    folder,
    output_file,
    write_json,
)
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment
    from abeval.results.analysis import Result

_EXIT_CODES: Mapping[str, int] = {"ship": 0, "do_not_trust": 3, "do_not_ship": 4, "keep_running": 5}


def _kept() -> tuple[str, ...]:
    from abeval.store.saved import KEPT

    return KEPT


def analyze(
    loaded: "LoadedExperiment",
    json_file: JsonFile = None,
    report: ReportFile = None,
    csv: Annotated[
        Path | None, output_file("--csv", "Write the scorecard as CSV."), Writes()
    ] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit with 3, 4 or 5 unless the verdict is to ship.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Print the time of each step, on stderr.")
    ] = False,
    save_aggregates: Annotated[
        Path | None,
        folder("Write the aggregates behind the result, for --aggregates."),
        Writes(holds=_kept),
    ] = None,
    aggregates: Annotated[
        Path | None,
        folder("Compute the result from saved aggregates or a warehouse's sums, without the log."),
        Reads(holds=lambda: (*_kept(), "logged_sums.*")),
    ] = None,
    sums: Annotated[
        Path | None,
        typer.Option(help="Judge sums by metric, variant and day instead of logs.", metavar="FILE"),
        Reads(),
    ] = None,
) -> None:
    """Analyse an experiment: verdict, trust checks, scorecard."""
    from abeval.files import write_text
    from abeval.progress import steps

    if aggregates is not None and save_aggregates is not None:
        raise ExperimentError("--aggregates reads no log: remove --save-aggregates")
    if sums is not None and (aggregates or save_aggregates):
        raise ExperimentError("--sums reads no log: remove --aggregates and --save-aggregates")
    with steps(profile=profile) as step:
        if sums is not None:
            result = loaded.from_sums(sums)
        elif aggregates is None:
            result = loaded.analyze(step=step, save_aggregates=save_aggregates)
        else:
            result = loaded.from_aggregates(aggregates, step=step)
        step("writing")
        write_json(json_file, result)
        if csv is not None:
            write_text(csv, result.to_csv())
        if report is not None:
            result.report(report)
    _print(result)
    if gate:
        raise typer.Exit(max((_EXIT_CODES[v.decision] for v in result.verdicts), default=0))


def _print(result: "Result") -> None:
    from abeval.report.terminal import print_result

    print_result(result, console())
