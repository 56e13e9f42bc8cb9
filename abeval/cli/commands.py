"""Answer `abeval check`, `compare`, `power`, `aa`, `windows`, `audit` and `off-policy`."""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.bounds import MAX_DAYS, MAX_REPLAYS, MIN_DAYS
from abeval.cli.options import (
    JsonFile,
    MetricNames,
    Reads,
    ReportFile,
    Whole,
    is_toml,
    print_tables,
    write_json,
)
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    import pandas as pd

    from abeval.api import LoadedExperiment

FAILED = 3
"""The exit code of `--gate`, as of an analysis that is not to be trusted."""


def check(
    loaded: "LoadedExperiment",
    json_file: JsonFile = None,
    gate: Annotated[bool, typer.Option("--gate", help="Exit with 3 if a check fails.")] = False,
) -> None:
    """Check the split and the logs, without a scorecard."""
    from abeval.progress import steps

    with steps() as step:
        result = loaded.check(step=step)
    write_json(json_file, result)
    print_tables(result)
    if gate and result.failed:
        raise typer.Exit(FAILED)


def compare(
    loaded: "LoadedExperiment",
    metric: Annotated[str, typer.Option(help="The metric to compare variants on.")],
    whole: Whole = False,
    json_file: JsonFile = None,
) -> None:
    """Compare every pair of variants: its effect, and its p-value adjusted over the pairs."""
    from abeval.progress import steps

    with steps() as step:
        result = loaded.compare(metric, step=step)
    write_json(json_file, result)
    print_tables(result, whole)


def power(
    loaded: "LoadedExperiment",
    mde: Annotated[
        str | None, typer.Option(help="Relative effect to detect, such as 1% or 0.01.")
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(help="Length of the experiment in days.", min=MIN_DAYS, max=MAX_DAYS),
    ] = None,
    power: Annotated[float, typer.Option(help="Probability of detecting the effect.")] = 0.8,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="A metric; repeat for more. Default: goals and guardrails."),
    ] = None,
    whole: Whole = False,
    json_file: JsonFile = None,
) -> None:
    """The smallest effect the experiment can detect, or the days it needs, from its own logs.

    And how often it ships, with all of its goals and guardrails.
    """
    from abeval.progress import steps

    effect = None if mde is None else _fraction(mde)
    with steps() as step:
        result = loaded.power(mde=effect, days=days, power=power, metrics=metric, step=step)
    write_json(json_file, result)
    print_tables(result, whole)


def _fraction(text: str) -> float:
    """`1%` or `0.01` as a number."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ExperimentError(f"--mde: {text!r} is not a number such as 1% or 0.01") from None


def aa(
    loaded: "LoadedExperiment",
    runs: Annotated[int, typer.Option(help="Number of replays.", min=1, max=MAX_REPLAYS)] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the random splits.", min=0)] = 0,
    metric: MetricNames = None,
    whole: Whole = False,
    json_file: JsonFile = None,
) -> None:
    """Replay A/A tests on the experiment's own logs: does each metric's test keep its level?"""
    from abeval.progress import steps

    with steps() as step:
        result = loaded.aa(runs=runs, seed=seed, metrics=metric, step=step)
    write_json(json_file, result)
    print_tables(result, whole)


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


def audit(
    loaded: "LoadedExperiment",
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Another experiment: its file, or a CSV of unit and variant; repeat for more.",
            metavar="NAME=FILE",
        ),
        Reads(path=lambda text: Path(text.partition("=")[2]), is_experiment=is_toml),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Compute each unit's variant by the rule of assignment, and compare it with the log."""
    from abeval.progress import steps

    others = {name: _other(file) for name, file in named_files(against or ()).items()}
    with steps() as step:
        result = loaded.audit(others=others, step=step)
    write_json(json_file, result)
    print_tables(result)


def _other(file: Path) -> "LoadedExperiment | pd.Series[str]":
    from abeval.api import load
    from abeval.assignment.plan import read_assignment

    return load(file) if is_toml(file) else read_assignment(file)


def named_files(options: Iterable[str]) -> dict[str, Path]:
    """`NAME=FILE` each.

    Raises:
        ExperimentError: An option is not written so, or a name is there twice.
    """
    files: dict[str, Path] = {}
    for option in options:
        name, _, file = option.partition("=")
        if not name or not file or name in files:
            raise ExperimentError(
                f"--against {option!r} is not NAME=FILE, or its name is there twice",
                "write --against other_experiment=units.csv",
            )
        files[name] = Path(file)
    return files


def off_policy(
    loaded: "LoadedExperiment",
    source: Annotated[str, typer.Option("--from", help="The variant whose log is used.")],
    to: Annotated[
        str | None, typer.Option(help="The variant whose policy is evaluated.", metavar="VARIANT")
    ] = None,
    probability: Annotated[
        str | None,
        typer.Option(
            help="Or a column with the policy's probability of the logged item.", metavar="COLUMN"
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="Or a file with item_id, position and probability.", metavar="FILE"),
        Reads(),
    ] = None,
    reward: Annotated[
        str | None, typer.Option(help="Reward column, instead of the click.", metavar="COLUMN")
    ] = None,
    clip: Annotated[
        list[float] | None, typer.Option(help="Cap of clipped IPS; repeat for more. Default: 10.")
    ] = None,
    switch: Annotated[
        list[float] | None,
        typer.Option(help="Threshold of SwitchDR; repeat for more. Default: 10."),
    ] = None,
    shrink: Annotated[
        list[float] | None, typer.Option(help="λ of DRos; repeat for more. Default: 100.")
    ] = None,
    min_ess: Annotated[
        float, typer.Option(help="Effective sample size below which nothing is estimated.")
    ] = 100.0,
    whole: Whole = False,
    json_file: JsonFile = None,
) -> None:
    """Estimate the clicks or reward of a policy from the log of a variant with propensities."""
    from abeval.files import real
    from abeval.progress import steps

    with steps() as step:
        result = loaded.off_policy(
            source,
            to=to,
            probability=probability,
            # A path on the command line is relative to the working directory, not to the file.
            policy=None if policy is None else real(policy),
            reward=reward,
            clip=tuple(clip or (10.0,)),
            switch=tuple(switch or (10.0,)),
            shrink=tuple(shrink or (100.0,)),
            min_ess=min_ess,
            step=step,
        )
    write_json(json_file, result)
    print_tables(result, whole)
