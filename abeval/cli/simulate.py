"""`abeval simulate`: logs with known truth.

Calls `simulate/`.
"""

from pathlib import Path
from typing import Annotated

import typer

from abeval.bounds import MAX_IMPRESSIONS
from abeval.cli.options import Writes, place


def simulate(
    directory: Annotated[
        Path,
        typer.Argument(help="Folder to write to; created if missing.", parser=place),
        Writes("the folder", holds=lambda: ("*",)),
    ],
    impressions: Annotated[
        int,
        typer.Option(help="Number of impressions, including the pre-period.", max=MAX_IMPRESSIONS),
    ] = 200_000,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 7,
) -> None:
    """Simulate logs with known effects: write the logs, experiment.toml and truth.json."""
    from abeval.progress import steps
    from abeval.simulate import simulate as write_logs

    with steps() as step:
        step("simulating")
        write_logs(
            directory, impressions, seed, lambda done, total: step(f"simulating {done / total:.0%}")
        )
    typer.echo(f"{directory / 'experiment.toml'}")
