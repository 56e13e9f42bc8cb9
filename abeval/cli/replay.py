"""Answer `abeval replay` and `abeval agree`: models offline, and beside the effect online."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.bounds import MAX_BINS, MAX_CURVE
from abeval.cli.options import JsonFile, ReportFile, Whole, print_tables, write_json
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment


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
    list[str] | None, typer.Option(help="A metric, such as ndcg@10\\[exp]; repeat for more.")
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
    whole: Whole = False,
    json_file: JsonFile = None,
    report: ReportFile = None,
) -> None:
    """Evaluate the models offline, on the log of the experiment, and compare them in pairs."""
    from abeval.offline.options import ReplayOptions
    from abeval.progress import steps

    options = ReplayOptions(
        k=whole_numbers(k),
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
    print_tables(result, whole or bool(metric))


def whole_numbers(text: str) -> list[int]:
    """Cut-offs such as `1,5,10`.

    Raises:
        ExperimentError: The text is not like it.
    """
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


def agree(
    loaded: "LoadedExperiment",
    k: Cutoffs = "1,5,10",
    metric: Metrics = None,
    whole: Whole = False,
    json_file: JsonFile = None,
    report: ReportFile = None,
) -> None:
    """Set each model's offline difference beside the effect online, and say why they differ."""
    from abeval.progress import steps

    with steps() as step:
        result = loaded.agree(k=whole_numbers(k), metrics=metric, step=step)
    write_json(json_file, result)
    if report is not None:
        result.report(report)
    print_tables(result, whole or bool(metric))
