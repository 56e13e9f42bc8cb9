"""`abeval power`: the smallest effect that an experiment can detect, or how long it needs.

Calls `LoadedExperiment.power` of `api.py`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from abeval.bounds import MAX_DAYS, MIN_DAYS
from abeval.cli.options import JsonFile, print_frame, write_json
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment
    from abeval.results.power import DecisionPlan


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
    print_frame(result.to_frame())
    if result.decision is not None:
        typer.echo("\n" + _in_words(result.decision))


def _in_words(plan: "DecisionPlan") -> str:
    """How often the plan ends in each decision."""
    metrics = f"{plan.goals} goal{'s' * (plan.goals > 1)}"
    if plan.guardrails:
        metrics += f" and {plan.guardrails} guardrail{'s' * (plan.guardrails > 1)}"
    if plan.units is None or plan.ship is None:
        return f"No plan for the decision on {metrics}: {plan.reason}."
    size = f"{plan.units:,.0f} units" + ("" if plan.days is None else f", {plan.days:.1f} days")
    none = f"where nothing moves it ships in {plan.ship_none:.1%} and stops in {plan.stop_none:.1%}"
    if plan.mde is None:
        return f"{size}: ships in {plan.ship:.1%} at most ({plan.reason}); {none}."
    one = "" if plan.goals == 1 else f" ({plan.ship_one:.1%} if only the first goal does)"
    return (
        f"The decision on {metrics}, {size}: it ships in {plan.ship:.1%} if every goal moves by "
        f"{plan.mde:.2%} and no guardrail does{one}; {none}."
    )


def _fraction(text: str) -> float:
    """`1%` or `0.01` as a number."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ExperimentError(f"--mde: {text!r} is not a number such as 1% or 0.01") from None
