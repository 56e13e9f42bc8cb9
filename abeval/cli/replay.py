"""`abeval replay`: the experiment's models, scored offline on its own log.

Calls `LoadedExperiment.replay` of `api.py`.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.bounds import MAX_BINS, MAX_CURVE
from abeval.cli.options import JsonFile, ReportFile, write_json
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment
    from abeval.results.replay import ModelCoverage, ReplayResult


class Ties(StrEnum):
    """Which of two equal scores stands higher."""

    item = "item"
    text = "text"
    position = "position"


class NoRelevant(StrEnum):
    """How requests without a relevant item count."""

    drop = "drop"
    zero = "zero"
    one = "one"


Cutoffs = Annotated[str, typer.Option(help="Cut-offs, such as 1,5,10.")]
Metrics = Annotated[
    list[str] | None, typer.Option(help="A metric, such as ndcg@10[exp]; repeat for more.")
]
Compat = Annotated[
    str | None,
    typer.Option(
        help="Compute metrics as trec, ranx, rectools, recommenders, sklearn or xgboost does."
    ),
]
Relevance = Annotated[
    str,
    typer.Option(
        help="click, long_click, dwell, similarity, truth, or an expression of the impression."
    ),
]
TieOrder = Annotated[Ties | None, typer.Option(help="Order of items with equal scores.")]
Irrelevant = Annotated[
    NoRelevant | None, typer.Option(help="Value of a request without a relevant item.")
]
Threshold = Annotated[float | None, typer.Option(help="Lowest score that predicts a click.")]
KeptNegatives = Annotated[
    float | None,
    typer.Option(help="Share of non-clicks kept in training; scores are corrected for it."),
]
BinCount = Annotated[
    int,
    typer.Option(help="Number of bins of the calibration curve and error.", min=1, max=MAX_BINS),
]
Blend = Annotated[
    str | None, typer.Option(help="Shares of the treatment's model, such as 0.25,0.5,0.75.")
]
Split = Annotated[
    list[str] | None,
    typer.Option(
        help="A column that names splits, or train=2026-09-01/2026-09-07; repeat for more."
    ),
]
LongestCurve = Annotated[
    int | None,
    typer.Option(help="Metrics at each k up to this one, with their elbow.", min=3, max=MAX_CURVE),
]
CutoffsBy = Annotated[
    str | None, typer.Option(help="k by a column, such as device:phone=5,desktop=10.")
]


def replay(
    loaded: "LoadedExperiment",
    k: Cutoffs = "1,5,10",
    metric: Metrics = None,
    compat: Compat = None,
    relevance: Relevance = "click",
    ties: TieOrder = None,
    no_relevant: Irrelevant = None,
    threshold: Threshold = None,
    kept_negatives: KeptNegatives = None,
    bins: BinCount = 10,
    blend: Blend = None,
    split: Split = None,
    curve: LongestCurve = None,
    k_by: CutoffsBy = None,
    json_file: JsonFile = None,
    report: ReportFile = None,
) -> None:
    """Evaluate the models offline, on the log of the experiment, and compare them in pairs."""
    from abeval.offline.options import ReplayOptions
    from abeval.progress import steps

    options = ReplayOptions(
        k=_whole(k),
        metrics=metric,
        compat=compat,
        relevance=relevance,
        ties=None if ties is None else ties.value,
        no_relevant=None if no_relevant is None else no_relevant.value,
        threshold=threshold,
        kept_negatives=kept_negatives,
        blend=_shares(blend),
        bins=bins,
        split=_splits(split),
        curve=curve,
        k_by=_cut_by(k_by),
    )
    with steps() as step:
        result = loaded.replay(**vars(options), step=step)
    write_json(json_file, result)
    if report is not None:
        result.report(report)
    _print(result)


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


def _splits(texts: list[str] | None) -> str | dict[str, tuple[str, str]] | None:
    """A column, or `name=first/last` for each."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    splits = {}
    for text in texts:
        name, _, days = text.partition("=")
        first, _, last = days.partition("/")
        if not last:
            what = f"--split: {text!r} is not like train=2026-09-01/2026-09-07"
            raise ExperimentError(what)
        splits[name] = (first, last)
    return splits


def _cut_by(text: str | None) -> tuple[str, dict[str, int]] | None:
    """`column:value=k,value=k`."""
    if text is None:
        return None
    column, _, listed = text.partition(":")
    try:
        pairs = [part.rsplit("=", 1) for part in listed.split(",")]
        return column, {value: int(k) for value, k in pairs}
    except ValueError:
        what = f"--k-by: {text!r} is not like device:phone=5,desktop=10"
        raise ExperimentError(what) from None


def _print(result: "ReplayResult") -> None:
    """Print the models side by side, their differences, and what is not counted."""
    from abeval.results.format import words

    frame = result.to_frame()
    names = list(dict.fromkeys(frame["metric"]))
    frame["shown"] = [
        words(str(row.reason)) if row.value is None else f"{row.value:.6g}" for row in result.rows
    ]
    table = frame.pivot(index="metric", columns=["traffic", "model"], values="shown").loc[names]
    typer.echo(table.to_string(na_rep="-"))
    _print_pairs(result, names)
    _print_extras(result)
    for model in result.coverage:
        typer.echo(_coverage_line(model), err=True)
    for what, count in result.accounting:
        if count:
            typer.echo(f"{words(what)}: {count:,}", err=True)
    for note in result.notes:
        typer.echo(note, err=True)


def _coverage_line(model: "ModelCoverage") -> str:
    shares = (
        (model.scored_requests, model.requests, "requests"),
        (model.scored_units, model.units, "units"),
        (model.rows - model.unscored_rows, model.rows, "pairs of a request and an item"),
    )
    parts = (f"{some / of if of else 0:.2%} of {of:,} {what}" for some, of, what in shares)
    return f"{model.model} scores {', '.join(parts)}"


def _print_pairs(result: "ReplayResult", names: list[str]) -> None:
    """Differences with their intervals, one line per metric; the reason if there is none."""
    from abeval.results.format import words

    pairs = result.pairs_frame()
    if pairs.empty:
        return
    pairs["difference"] = [
        f"{pair.difference:+.4g} [{pair.low:+.4g}, {pair.high:+.4g}]"
        if pair.difference is not None and pair.low is not None
        else words(str(pair.reason))
        for pair in result.pairs
    ]
    pairs["pair"] = pairs["model"] + " - " + pairs["control"]
    table = pairs.pivot(index="metric", columns=["pair", "traffic"], values="difference").loc[names]
    typer.echo("\nDifferences, paired by unit\n")
    typer.echo(table.to_string(na_rep="-"))


def _print_extras(result: "ReplayResult") -> None:
    """Gaps between splits, elbows of curves, cut-offs by value."""
    from abeval.results.format import words

    if result.gaps:
        typer.echo("\nGaps between splits, paired by unit\n")
    for gap in result.gaps:
        what = f"{gap.metric} of {gap.model} on {gap.traffic}, {gap.first} - {gap.other}"
        if gap.difference is not None and gap.low is not None:
            typer.echo(f"{what}: {gap.difference:+.4g} [{gap.low:+.4g}, {gap.high:+.4g}]")
        else:
            typer.echo(f"{what}: {words(str(gap.reason))}")
    for curve in result.curves:
        where = "none" if curve.elbow is None else f"at {curve.elbow}"
        typer.echo(f"{curve.metric} of {curve.model} on {curve.traffic}: elbow {where}")
    if result.by_value is not None:
        typer.echo(f"\nk by {result.by_value.column}: {dict(result.by_value.ks)}\n")
        for row in result.by_value.rows:
            shown = "-" if row.value is None else f"{row.value:.6g}"
            typer.echo(f"{row.metric} of {row.model} on {row.traffic}: {shown}")
