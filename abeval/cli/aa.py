"""`abeval aa`: A/A replays on the experiment's own logs.

Calls `LoadedExperiment.aa` of `api/`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from abeval.bounds import MAX_REPLAYS
from abeval.cli.options import JsonFile, MetricNames, Whole, print_tables, write_json

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment


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
