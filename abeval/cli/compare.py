"""`abeval compare`: every two variants on one metric.

Calls `LoadedExperiment.compare` of `api/`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import JsonFile, Whole, print_tables, write_json

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment


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
