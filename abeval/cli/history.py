"""Run `abeval history`: add results to a history, and report on it."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from abeval.cli import options

_File = Annotated[
    Path,
    Option("--history", help="The history: a .parquet or .duckdb file.", metavar="FILE"),
    options.Reads(),
]
_Written = Annotated[
    Path,
    options.output_file(help="The .parquet or .duckdb file; created if missing."),
    options.Writes(),
]


def add(
    results: Annotated[
        list[Path],
        Argument(
            help="JSON of one experiment: of analyze or report; of agree, replay.",
            metavar="JSON",
        ),
        options.Reads("the result"),
    ],
    history: _Written,
    shipped: Annotated[
        list[str] | None,
        Option(
            help="The variant that was shipped, or none; repeat for more. Default: the verdict's.",
            metavar="VARIANT",
        ),
    ] = None,
    json: options.JsonFile = None,
) -> None:
    """Add the results of one experiment; adding them twice changes nothing.

    A changed result of the same experiment takes the place of the old one, which is said.

    Examples:
    abeval history add result.json --history history.parquet
    abeval history add result.json agreement.json --history history.parquet
    """
    from abeval.history.history import History

    # `none` alone says that nothing was shipped.
    shipped_variants = [] if shipped == ["none"] else shipped
    options.show(History(history).add(*results, shipped=shipped_variants), json)


def report(
    history: _File,
    metric: Annotated[
        list[str] | None,
        Option(help="An online metric; repeat for more. Default: goals and guardrails."),
    ] = None,
    offline: Annotated[
        list[str] | None,
        Option(help="An offline metric; repeat for more. Default: those most quoted."),
    ] = None,
    holdout: Annotated[
        Path | None,
        Option(help="An experiment file with [holdout]: what did its period gain?"),
        options.Reads(is_experiment=options.is_toml),
    ] = None,
    show_all: options.Whole = False,
    json: options.JsonFile = None,
    report: options.ReportFile = None,
) -> None:
    """Say which metric predicts which, how often each moves, and what was really gained.

    Examples:
    abeval history report --history history.parquet
    abeval history report --history history.parquet --holdout holdout.toml
    """
    from abeval.api import load
    from abeval.history.history import History

    loaded = None if holdout is None else load(holdout)
    result = History(history).report(metrics=metric, offline=offline, holdout=loaded)
    options.show(result, json, report, show_all=show_all)
