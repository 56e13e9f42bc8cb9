"""`abeval power`: the smallest effect that an experiment can detect, or how long it needs.

Calls `LoadedExperiment.power` of `api/`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from abeval.bounds import MAX_DAYS, MIN_DAYS
from abeval.cli.options import JsonFile, Whole, print_tables, write_json
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment


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
