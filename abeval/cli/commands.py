"""Define the commands that call a method of `LoadedExperiment`, by their options.

The lines below `Examples:` end the help of a command; a test runs them.
"""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from abeval.bounds import MAX_BINS, MAX_CURVE, MAX_DAYS, MAX_REPLAYS, MIN_DAYS
from abeval.cli.options import (
    ALL,
    JSON,
    NEEDED,
    REPORT,
    Flag,
    Reads,
    command_from_method,
    flag,
    is_toml,
    parse_pairs,
)
from abeval.errors import ExperimentError
from abeval.files import resolve_path

if TYPE_CHECKING:
    import pandas as pd

    from abeval.api import LoadedExperiment

By = StrEnum("By", ["hour", "weekday"])
_Ties = Literal["item", "text", "position"]
_NoRelevant = Literal["drop", "zero", "one"]


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


_metrics = partial(flag, "metric", list[str], to="metrics")
_METRICS = _metrics("A metric; repeat for more. Default: the whole scorecard.")
_OFFLINE_METRICS = _metrics("A metric, such as ndcg@10\\[exp]; repeat for more.")
_WIDTHS = "Days of a rolling window; repeat for more. Default: 3 and 7."


def _column(name: str, text: str) -> Flag:
    return flag(name, str, text, metavar="COLUMN")


def _file(name: str, text: str) -> Flag:
    # The API would read it from the experiment's folder, the command line from the current one.
    return flag(name, Path, text, read=resolve_path, marks=[Reads()], metavar="FILE")


power = command_from_method(
    "power",
    """The smallest effect the experiment can detect, or the days it needs, from its own logs.

    And how often it ships, with all of its goals and guardrails.

    Examples:
    abeval power experiment.toml --mde 1%
    abeval power experiment.toml --days 14 --metric ctr
    """,
    flag("mde", str, "Relative effect to detect, such as 1% or 0.01.", read=_parse_fraction),
    flag("days", float, "Length of the experiment in days.", min=MIN_DAYS, max=MAX_DAYS),
    flag("power", float, "Probability of detecting the effect.", 0.8),
    _metrics("A metric; repeat for more. Default: goals and guardrails."),
    *(ALL, JSON),
)

aa = command_from_method(
    "aa",
    """Replay A/A tests on the experiment's own logs: does each metric's test keep its level?

    Examples:
    abeval aa experiment.toml
    abeval aa experiment.toml --runs 1000 --metric ctr
    """,
    flag("runs", int, "Number of replays.", 10_000, min=1, max=MAX_REPLAYS),
    flag("seed", int, "Seed of the random splits.", 0, min=0),
    *(_METRICS, ALL, JSON),
)


def _run_windows_and_replays(
    loaded: "LoadedExperiment",
    **keywords: Any,  # noqa: ANN401 (keywords of the method)
) -> tuple[object, object]:
    replays = {name: value for name, value in keywords.items() if name in ("metrics", "step")}
    return loaded.windows(**keywords), loaded.aa(**replays)


windows = command_from_method(
    "windows",
    """Effects over time: is each stable, since when, and does it wear off?

    The report has windows, what daily looks would have declared, and A/A replays too.

    Examples:
    abeval windows experiment.toml --report windows.html
    abeval windows experiment.toml --metric ctr --by weekday
    """,
    _METRICS,
    flag("width", list[int], _WIDTHS, to="widths"),
    flag("look", list[int], "Day of a planned look; repeat for more.", to="looks"),
    flag("by", list[By], "Also effects by hour or weekday; repeat for both."),
    *(ALL, JSON, REPORT),
    for_page=_run_windows_and_replays,
)

audit = command_from_method(
    "audit",
    """Compute each unit's variant by the rule of assignment, and compare it with the log.

    Examples:
    abeval audit experiment.toml
    abeval audit experiment.toml --against other=units.csv
    """,
    flag(
        "against",
        list[str],
        "Another experiment: its file, or a CSV of unit and variant; repeat for more.",
        to="others",
        read=_load_other_experiments,
        marks=[Reads(path=lambda text: Path(text.partition("=")[2]), is_experiment=is_toml)],
        metavar="NAME=FILE",
    ),
    JSON,
)

off_policy = command_from_method(
    "off_policy",
    """Estimate the clicks or reward of a policy from the log of a variant with propensities.

    Examples:
    abeval off-policy experiment.toml --from control --to treatment
    abeval off-policy experiment.toml --from control --policy policy.csv
    """,
    flag("source", str, "The variant whose log is used.", NEEDED, "--from"),
    flag("to", str, "The variant whose policy is evaluated.", metavar="VARIANT"),
    _column("probability", "Or a column with the policy's probability of the logged item."),
    _file("policy", "Or a file with item_id, position and probability."),
    _column("reward", "Reward column, instead of the click."),
    flag("clip", list[float], "Cap of clipped IPS; repeat for more. Default: 10."),
    flag("switch", list[float], "Threshold of SwitchDR; repeat for more. Default: 10."),
    flag("shrink", list[float], "λ of DRos; repeat for more. Default: 100."),
    flag("min_ess", float, "Effective sample size below which nothing is estimated.", 100.0),
    *(ALL, JSON, REPORT),
)


def _replay_beside_gap(
    loaded: "LoadedExperiment",
    **keywords: Any,  # noqa: ANN401 (keywords of the method)
) -> tuple[object, object]:
    from abeval.study import replay_beside_gap

    return replay_beside_gap(loaded.experiment, **keywords)


replay = command_from_method(
    "replay",
    """Evaluate the models offline, on the log of the experiment, and compare them in pairs.

    The page begins with what the candidate promised, what came online, and why they differ.

    Examples:
    abeval replay experiment.toml --report replay.html
    abeval replay experiment.toml --k 1,5,10 --metric auc
    """,
    flag(
        "k",
        list[str],
        "Cut-offs, such as 1,5,10, or of a request: \"viewport: case when device = 'phone' then 5 "
        'else 10 end"; repeat for both.  [default: 1,5,10]',
        read=_parse_cutoff_options,
    ),
    _OFFLINE_METRICS,
    flag(
        "compat",
        str,
        "Compute metrics as trec, ranx, rectools, recommenders, sklearn or xgboost does.",
    ),
    flag(
        "relevance",
        str,
        "click, long_click, dwell, similarity, or an expression of the impression.",
        "click",
    ),
    flag("ties", _Ties, "Order of items with equal scores."),
    flag("no_relevant", _NoRelevant, "Value of a request without a relevant item."),
    flag("threshold", float, "Lowest score that predicts a click."),
    flag(
        "kept_negatives",
        float,
        "Share of non-clicks kept in training; scores are corrected for it.",
    ),
    flag(
        "bins", int, "Number of bins of the calibration curve and error.", 10, min=1, max=MAX_BINS
    ),
    flag("curve", int, "Metrics at each k up to this one, with their elbow.", min=3, max=MAX_CURVE),
    flag(
        "where",
        list[str],
        'A part beside the whole, such as "random: is_random = 1"; repeat for more.',
        read=_parse_parts,
        metavar="NAME: SQL",
    ),
    *(ALL, JSON, REPORT),
    widened_by="metric",
    for_page=_replay_beside_gap,
)

agree = command_from_method(
    "agree",
    """Set each model's offline difference beside the effect online, and say why they differ.

    Examples:
    abeval agree experiment.toml --report agreement.html
    abeval agree experiment.toml --all --json agreement.json
    """,
    flag("k", str, "Cut-offs, such as 1,5,10.", "1,5,10", read=_parse_cutoffs),
    _file("history", "Past experiments, which say what was promised where the logs cannot."),
    *(_OFFLINE_METRICS, ALL, JSON, REPORT),
    widened_by="metric",
)
