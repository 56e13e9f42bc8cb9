"""`abeval check`: the trust checks alone.

Calls `LoadedExperiment.check` of `api/`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import JsonFile, print_tables, write_json

if TYPE_CHECKING:
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
