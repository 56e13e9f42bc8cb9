"""`abeval compare`: every two variants on one metric.

Calls `LoadedExperiment.compare` of `api.py`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import JsonFile, print_frame, write_json

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment


def compare(
    loaded: "LoadedExperiment",
    metric: Annotated[str, typer.Option(help="The metric to compare variants on.")],
    json_file: JsonFile = None,
) -> None:
    """Compare every pair of variants: adjusted p-values as a matrix, and each effect."""
    from abeval.progress import steps

    with steps() as step:
        result = loaded.compare(metric, step=step)
    write_json(json_file, result)
    family = "unadjusted" if result.family == "none" else f"adjusted by {result.family}"
    typer.echo(f"{metric}: p-values, {family} over {len(result.pairs)} pairs\n")
    typer.echo(result.matrix().to_string(float_format=lambda p: f"{p:.4g}", na_rep="-"))
    typer.echo()
    print_frame(result.to_frame())
    for check in result.trust:
        if check.status == "fail" and check.touches([metric]):
            typer.echo(f"do not trust this result: {check.message}", err=True)
