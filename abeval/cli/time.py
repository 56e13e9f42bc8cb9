"""The commands about time: A/A replays and windows."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import JsonFile, ReportFile, on_engine

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment


class By(StrEnum):
    """Parts of time that come round again."""

    hour = "hour"
    weekday = "weekday"


def aa(
    loaded: "LoadedExperiment",
    runs: Annotated[int, typer.Option(help="Replays.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the re-splits.")] = 0,
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric; again for more. The whole scorecard.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Replay A/A tests on the experiment's own logs: does each metric's test keep its level?"""
    from abeval.files import write_text
    from abeval.progress import steps

    with steps() as step:
        found = loaded.aa(runs=runs, seed=seed, metrics=metric, step=step)
    if json_file is not None:
        write_text(json_file, found.to_json())
    typer.echo(found.to_frame().to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    for name in found.off():
        typer.echo(f"{name}: rejects {found[name].rejection_rate:.2%} of A/A tests", err=True)
    _refused(found.refused)


def windows(
    loaded: "LoadedExperiment",
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric; again for more. The whole scorecard.")
    ] = None,
    width: Annotated[
        list[int] | None, typer.Option(help="Days of rolling windows; again for more. 3 and 7.")
    ] = None,
    look: Annotated[
        list[int] | None, typer.Option(help="Day of a planned look; again for more.")
    ] = None,
    by: Annotated[
        list[By] | None, typer.Option(help="Effects by hour or weekday too; again for both.")
    ] = None,
    json_file: JsonFile = None,
    report: ReportFile = None,
) -> None:
    """Effects by window: stable or not, novelty, and what daily looks would have declared.

    The report holds A/A replays too.
    """
    from abeval.files import write_text
    from abeval.progress import steps

    with steps() as step:
        found = loaded.windows(
            metrics=metric,
            widths=width or (3, 7),
            looks=look,
            by=[part.value for part in by or ()],
            step=step,
        )
        replays = None if report is None else loaded.aa(metrics=metric, step=step)
    if json_file is not None:
        write_text(json_file, found.to_json())
    if report is not None:
        found.report(report, replays)
    typer.echo(found.to_frame().to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    for test in found.rhythms:
        same = test.reason if test.p_value is None else f"p {test.p_value:.3g} of one effect in all"
        typer.echo(f"{test.metric}, {test.variant}, {test.parts} by {test.by}: {same}")
    for note in found.notes:
        typer.echo(note, err=True)
    _refused(found.refused)


def _refused(refused: Mapping[str, str]) -> None:
    for name, why in refused.items():
        typer.echo(f"{name} is not shown: {why}", err=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(on_engine(aa))
    app.command()(on_engine(windows))
