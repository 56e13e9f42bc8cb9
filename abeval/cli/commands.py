"""Define the commands that call a method of `LoadedExperiment`, by their options.

The lines below `Options:` are the help of each, those below `Examples:` end that of the command; a
test runs them.
"""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from abeval.bounds import MAX_BINS, MAX_CURVE, MAX_DAYS, MAX_REPLAYS, MIN_DAYS
from abeval.cli.options import (
    Column,
    JsonFile,
    Reads,
    ReportFile,
    To,
    Variant,
    Whole,
    command_from_method,
    is_toml,
    parse_pairs,
)
from abeval.errors import ExperimentError
from abeval.files import resolve_path

if TYPE_CHECKING:
    import pandas as pd

    from abeval.api import LoadedExperiment

_Metrics = Annotated[list[str] | None, To("metrics")]
By = StrEnum("By", ["hour", "weekday"])


def _parse_fraction(text: str) -> float:
    """Read `1%` or `0.01` as a number."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ExperimentError(f"--mde: {text!r} is not a number such as 1% or 0.01") from None


def _load_other_experiments(options: list[str]) -> "dict[str, LoadedExperiment | pd.Series[str]]":
    """Read `NAME=FILE` pairs: experiment files, or tables of units and variants."""
    from abeval.api import load
    from abeval.assignment.plan import read_assignment

    entries = parse_pairs("--against", options, "NAME=FILE", "other_experiment=units.csv")
    files = {name: Path(file) for name, file in entries.items()}
    return {n: load(f) if is_toml(f) else read_assignment(f) for n, f in files.items()}


def _parse_cutoffs(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ExperimentError(f"--k: {text!r} is not like 1,5,10") from None


def _parse_cutoff_options(texts: list[str]) -> list[int | str]:
    """Read cut-offs such as `1,5,10`; keep `NAME: EXPRESSION` as it is."""
    read: list[int | str] = []
    for text in texts:
        read += [text] if ":" in text else _parse_cutoffs(text)
    return read


def _parse_parts(texts: list[str]) -> dict[str, str]:
    """Read `NAME: EXPRESSION` pairs."""
    parts = {}
    for text in texts:
        name, colon, expression = (part.strip() for part in text.partition(":"))
        # `a::int = 1` is a cast without a name, not a part called `a`.
        if not colon or not name or not expression or expression.startswith(":"):
            what = f"--where: {text!r} is not NAME: EXPRESSION"
            raise ExperimentError(what, 'such as --where "random: is_random = 1"')
        parts[name] = expression
    return parts


# The API would read it from the experiment's folder, the command line from the current one.
_File = Annotated[Path | None, Option(metavar="FILE"), Reads(), To(read=resolve_path)]


@command_from_method
def power(
    mde: Annotated[str | None, To(read=_parse_fraction)] = None,
    days: Annotated[float | None, Option(min=MIN_DAYS, max=MAX_DAYS)] = None,
    power: float = 0.8,
    metric: _Metrics = None,
    whole: Whole = False,
    json: JsonFile = None,
) -> None:
    """Find the smallest effect an experiment can detect, or the days it needs.

    The answer comes from the experiment's own logs. The command also says how often the experiment
    ships, with all of its goals and guardrails.

    Options:
        mde: Relative effect to detect, such as 1% or 0.01.
        days: Length of the experiment in days.
        power: Probability of detecting the effect.
        metric: A metric; repeat for more. Default: goals and guardrails.

    Examples:
    abeval power experiment.toml --mde 1%
    abeval power experiment.toml --days 14 --metric ctr
    """


@command_from_method
def aa(
    runs: Annotated[int, Option(min=1, max=MAX_REPLAYS)] = 10_000,
    seed: Annotated[int, Option(min=0)] = 0,
    metric: _Metrics = None,
    whole: Whole = False,
    json: JsonFile = None,
) -> None:
    """Replay A/A tests on the logs: does each metric's test keep its level?

    Options:
        runs: Number of replays.
        seed: Seed of the random splits.
        metric: A metric; repeat for more. Default: the whole scorecard.

    Examples:
    abeval aa experiment.toml
    abeval aa experiment.toml --runs 1000 --metric ctr
    """


def _run_windows_and_replays(
    loaded: "LoadedExperiment",
    **keywords: Any,  # noqa: ANN401 (keywords of the method)
) -> tuple[object, object]:
    replays = {name: value for name, value in keywords.items() if name in ("metrics", "step")}
    return loaded.windows(**keywords), loaded.aa(**replays)


@partial(command_from_method, for_page=_run_windows_and_replays)
def windows(
    metric: _Metrics = None,
    width: Annotated[list[int] | None, To("widths")] = None,
    look: Annotated[list[int] | None, To("looks")] = None,
    by: list[By] | None = None,
    whole: Whole = False,
    json: JsonFile = None,
    report: ReportFile = None,
) -> None:
    """Effects over time: is each stable, since when, and does it wear off?

    The report has windows, what daily looks would have declared, and A/A replays too.

    Options:
        metric: A metric; repeat for more. Default: the whole scorecard.
        width: Days of a rolling window; repeat for more. Default: 3 and 7.
        look: Day of a planned look; repeat for more.
        by: Also effects by hour or weekday; repeat for both.

    Examples:
    abeval windows experiment.toml --report windows.html
    abeval windows experiment.toml --metric ctr --by weekday
    """


@command_from_method
def audit(
    against: Annotated[
        list[str] | None,
        Option(metavar="NAME=FILE"),
        Reads(path=lambda text: Path(text.partition("=")[2]), is_experiment=is_toml),
        To("others", _load_other_experiments),
    ] = None,
    json: JsonFile = None,
) -> None:
    """Compare each unit's logged variant with that of the assignment rule.

    Options:
        against: Another experiment: its file, or a CSV of unit and variant; repeat for more.

    Examples:
    abeval audit experiment.toml
    abeval audit experiment.toml --against other=units.csv
    """


@command_from_method
def off_policy(
    source: Annotated[str, Option("--from")],
    to: Variant = None,
    probability: Column = None,
    policy: _File = None,
    reward: Column = None,
    clip: list[float] | None = None,
    switch: list[float] | None = None,
    shrink: list[float] | None = None,
    min_ess: float = 100.0,
    whole: Whole = False,
    json: JsonFile = None,
    report: ReportFile = None,
) -> None:
    """Estimate a policy's clicks or reward from a variant's log with propensities.

    Options:
        source: The variant whose log is used.
        to: The variant whose policy is evaluated.
        probability: Or a column with the policy's probability of the logged item.
        policy: Or a file with item_id, position and probability.
        reward: Reward column, instead of the click.
        clip: Cap of clipped IPS; repeat for more. Default: 10.
        switch: Threshold of SwitchDR; repeat for more. Default: 10.
        shrink: λ of DRos; repeat for more. Default: 100.
        min_ess: Effective sample size below which nothing is estimated.

    Examples:
    abeval off-policy experiment.toml --from control --to treatment
    abeval off-policy experiment.toml --from control --policy policy.csv
    """


def _replay_beside_gap(
    loaded: "LoadedExperiment",
    **keywords: Any,  # noqa: ANN401 (keywords of the method)
) -> tuple[object, object]:
    from abeval.study import replay_beside_gap

    return replay_beside_gap(loaded.experiment, **keywords)


@partial(command_from_method, widened_by="metric", for_page=_replay_beside_gap)
def replay(
    k: Annotated[list[str] | None, To(read=_parse_cutoff_options)] = None,
    metric: _Metrics = None,
    compat: str | None = None,
    relevance: str = "click",
    ties: Literal["item", "text", "position"] | None = None,
    no_relevant: Literal["drop", "zero", "one"] | None = None,
    threshold: float | None = None,
    kept_negatives: float | None = None,
    bins: Annotated[int, Option(min=1, max=MAX_BINS)] = 10,
    curve: Annotated[int | None, Option(min=3, max=MAX_CURVE)] = None,
    where: Annotated[list[str] | None, Option(metavar="NAME: SQL"), To(read=_parse_parts)] = None,
    whole: Whole = False,
    json: JsonFile = None,
    report: ReportFile = None,
) -> None:
    r"""Evaluate the models offline on the experiment's log; compare them in pairs.

    The page begins with what the candidate promised, what came online, and why they differ.

    Options:
        k: Cut-offs, such as 1,5,10, or of a request: "viewport: case when device = 'phone' then 5
            else 10 end"; repeat for both.  [default: 1,5,10]
        metric: A metric, such as ndcg@10\[exp]; repeat for more.
        compat: Compute metrics as trec, ranx, rectools, recommenders, sklearn or xgboost does.
        relevance: click, long_click, dwell, similarity, or an expression of the impression.
        ties: Order of items with equal scores.
        no_relevant: Value of a request without a relevant item.
        threshold: Lowest score that predicts a click.
        kept_negatives: Share of non-clicks kept in training; scores are corrected for it.
        bins: Number of bins of the calibration curve and error.
        curve: Metrics at each k up to this one, with their elbow.
        where: A part beside the whole, such as "random: is_random = 1"; repeat for more.

    Examples:
    abeval replay experiment.toml --report replay.html
    abeval replay experiment.toml --k 1,5,10 --metric auc
    """


@partial(command_from_method, widened_by="metric")
def agree(
    k: Annotated[str, To(read=_parse_cutoffs)] = "1,5,10",
    history: _File = None,
    metric: _Metrics = None,
    whole: Whole = False,
    json: JsonFile = None,
    report: ReportFile = None,
) -> None:
    r"""Set models' offline differences beside effects online; say why they differ.

    Options:
        k: Cut-offs, such as 1,5,10.
        history: Past experiments, which say what was promised where the logs cannot.
        metric: A metric, such as ndcg@10\[exp]; repeat for more.

    Examples:
    abeval agree experiment.toml --report agreement.html
    abeval agree experiment.toml --all --json agreement.json
    """
