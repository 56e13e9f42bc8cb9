"""`abeval simulate`: logs with known truth.

Calls `simulate/`.
"""

from pathlib import Path
from typing import Annotated

import typer

from abeval.progress import steps


def simulate(
    directory: Annotated[Path, typer.Argument(help="Where to write; made if it is not there.")],
    impressions: Annotated[int, typer.Option(help="How many, the pre-period included.")] = 200_000,
    seed: Annotated[int, typer.Option(help="Another seed, other logs.")] = 7,
) -> None:
    """Write logs with known truth: logs, experiment.toml and truth.json."""
    from abeval.simulate import simulate as write_logs

    with steps() as step:
        step("simulating")
        write_logs(
            directory, impressions, seed, lambda done, total: step(f"simulating {done / total:.0%}")
        )
    typer.echo(f"{directory / 'experiment.toml'}")
