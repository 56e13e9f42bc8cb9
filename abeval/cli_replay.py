"""`abeval replay`: the experiment's models, scored offline on its own log."""

from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli_options import JsonFile, on_engine
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment
    from abeval.offline.result import ReplayResult


def replay(
    loaded: "LoadedExperiment",
    k: Annotated[str, typer.Option(help="Cut-offs, such as 1,5,10.")] = "1,5,10",
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric, such as ndcg@10[exp]; again for more.")
    ] = None,
    compat: Annotated[
        str | None,
        typer.Option(help="trec, ranx, rectools, recommenders, sklearn or xgboost: its numbers."),
    ] = None,
    relevance: Annotated[
        str, typer.Option(help="click, long_click, dwell, or an expression of the impression.")
    ] = "click",
    threshold: Annotated[
        float | None, typer.Option(help="The score from which on a click is predicted.")
    ] = None,
    kept_negatives: Annotated[
        float | None, typer.Option(help="Share of non-clicks kept in training, to be undone.")
    ] = None,
    blend: Annotated[
        str | None, typer.Option(help="Shares of the treatment's model, such as 0.25,0.5,0.75.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Score the models offline, on the log of the experiment, and compare them in pairs."""
    from abeval.files import write_text
    from abeval.progress import steps

    cuts, shares = _whole(k), _shares(blend)
    with steps() as step:
        found = loaded.replay(
            k=cuts,
            metrics=metric,
            compat=compat,
            relevance=relevance,
            threshold=threshold,
            kept_negatives=kept_negatives,
            blend=shares,
            step=step,
        )
    if json_file is not None:
        write_text(json_file, found.to_json())
    show(found)


def _whole(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ExperimentError(f"--k: {text!r} is not like 1,5,10") from None


def _shares(text: str | None) -> list[float]:
    try:
        return [] if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise ExperimentError(f"--blend: {text!r} is not like 0.25,0.5,0.75") from None


def show(found: "ReplayResult") -> None:
    """Print the models side by side, then their differences, then what is not counted."""
    frame = found.to_frame()
    names = list(dict.fromkeys(frame["metric"]))
    table = frame.pivot(index="metric", columns=["traffic", "model"], values="value").loc[names]
    typer.echo(table.to_string(na_rep="-", float_format=lambda x: f"{x:.6g}"))
    _show_pairs(found, names)
    for model in found.coverage:
        share = model.scored_requests / model.requests if model.requests else 0
        missing = f"{model.unscored_rows:,} of {model.rows:,} items without a score"
        typer.echo(f"{model.model} scores {share:.2%} of requests; {missing}", err=True)
    for what, count in found.accounting:
        if count:
            typer.echo(f"{what}: {count:,}", err=True)
    for note in found.notes:
        typer.echo(note, err=True)


def _show_pairs(found: "ReplayResult", names: list[str]) -> None:
    """Differences with their intervals, a line a metric; a value without one has its reason."""
    pairs = found.pairs_frame()
    if pairs.empty:
        return
    said = [
        f"{pair.difference:+.4g} [{pair.low:+.4g}, {pair.high:+.4g}]"
        if pair.difference is not None and pair.low is not None
        else str(pair.reason)
        for pair in found.pairs
    ]
    pairs["difference"] = said
    pairs["pair"] = pairs["model"] + " - " + pairs["control"]
    table = pairs.pivot(index="metric", columns=["pair", "traffic"], values="difference").loc[names]
    typer.echo("\nDifferences, paired by unit\n")
    typer.echo(table.to_string(na_rep="-"))


def register(app: typer.Typer) -> None:
    """Add the command to a command line.

    Example:
        >>> app = typer.Typer()
        >>> register(app)
        >>> [command.name for command in app.registered_commands]
        ['replay']
    """
    app.command("replay")(on_engine(replay))
