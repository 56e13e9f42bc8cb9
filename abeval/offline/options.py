"""The options of a replay: checked, turned into metrics and a policy, and explained to a reader.

`api/` and `cli/replay.py` make `ReplayOptions` of what the user chose; `offline/replay.py` takes
from them the metrics, the columns to read, and the notes of the result.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from abeval.bounds import MAX_BINS, MAX_CURVE, MAX_CUTOFF, check_between
from abeval.errors import ExperimentError
from abeval.offline.metrics import NoRelevant, Scoring, Ties, metrics_and_policy, metrics_of
from abeval.offline.other_logs import SIMILARITY
from abeval.offline.slices import curve_metrics

_AT_THRESHOLD = ("precision[threshold]", "recall[threshold]", "f1[threshold]")


@dataclass(frozen=True)
class ReplayOptions:
    """The options of a replay; the defaults are those of `abeval replay`.

    Attributes:
        k: Cut-offs of metrics such as `ndcg@k[lin]`, from 1.
        metrics: Ids of metrics to compute, such as `ndcg@10[exp]`; None for the default ones.
        compat: Library whose metrics and policies to use: `trec`, `ranx`, `rectools`,
            `recommenders`, `sklearn` or `xgboost`; None for abeval's own.
        relevance: What makes an item relevant: `click`, `long_click`, `dwell` (seconds),
            `similarity` (to the items the unit clicked, by their vectors), `truth` (the truth
            log), or an SQL expression over the impression.
        ties: Which of two equal scores ranks higher: the larger item id (`item`; as text, `text`)
            or the one shown first (`position`); None for that of `compat`, or `item`.
        no_relevant: Requests without a relevant item are left out (`drop`), or count as zero
            (`zero`) or one (`one`, nDCG and MAP only); None for that of `compat`, or `drop`.
        threshold: Scores from here on predict a click; None without metrics at a threshold.
        kept_negatives: Share of non-clicks, in (0, 1], that the models were trained on; scores are
            corrected for it. None where all were kept.
        blend: Shares, in [0, 1], of a treatment's model in blends with control's model.
        bins: Bins of the calibration curve and of the calibration error, from 1.
        split: A column of the impressions that names the split of each, or name → first and last
            day (`2026-09-01`); None for no splits.
        curve: Compute metrics at each k from 1 to this; None for no curves.
        k_by: A column of the impressions, and its value → cut-off; None for the same k everywhere.
    """

    k: Sequence[int] = (1, 5, 10)
    metrics: Sequence[str] | None = None
    compat: str | None = None
    relevance: str = "click"
    ties: Ties | None = None
    no_relevant: NoRelevant | None = None
    threshold: float | None = None
    kept_negatives: float | None = None
    blend: Sequence[float] = ()
    bins: int = 10
    split: str | Mapping[str, tuple[str, str]] | None = None
    curve: int | None = None
    k_by: tuple[str, Mapping[str, int]] | None = None


def slice_columns(options: ReplayOptions) -> list[str]:
    """The columns of the impressions that divide the log into parts."""
    by_split = [options.split] if isinstance(options.split, str) else []
    return [*by_split, *([] if options.k_by is None else [options.k_by[0]])]


def scoring_of(options: ReplayOptions, alpha: float) -> Scoring:
    """The metrics and the policy of a replay, with intervals at level `alpha`.

    Raises:
        ExperimentError: An unknown metric or preset, or a number out of range.
    """
    _check_split(options.split)
    _check_numbers(options)
    metrics, policy = metrics_and_policy(
        options.compat, options.k, options.metrics, options.ties, options.no_relevant
    )
    if options.threshold is not None and options.metrics is None:
        metrics += metrics_of(_AT_THRESHOLD)
    if options.threshold is None and any(m.definition.variant == "threshold" for m in metrics):
        raise ExperimentError("a [threshold] metric needs a threshold", "such as threshold=0.5")
    return Scoring(metrics, policy, alpha, options.threshold, options.bins)


def _check_split(split: object) -> None:
    """Refuse a split that is neither a column nor periods by name."""
    if split is None or isinstance(split, str):
        return
    hint = 'such as split="fold", or split={"train": ("2026-09-01", "2026-09-07"), "test": …}'
    if not isinstance(split, Mapping):
        what = f"split is {type(split).__name__}; it is a column, or name → first and last day"
        raise ExperimentError(what, hint)
    for name, days in split.items():
        if isinstance(days, str) or not isinstance(days, Sequence) or len(days) != 2:
            raise ExperimentError(f"split {name!r}: {days!r} is not a first and a last day", hint)


def _check_numbers(options: ReplayOptions) -> None:
    if options.kept_negatives is not None and not 0 < options.kept_negatives <= 1:
        what = f"kept_negatives {options.kept_negatives} is not a share between 0 and 1"
        raise ExperimentError(what, "0.1 if one non-click in ten was kept")
    if options.threshold is not None and not math.isfinite(options.threshold):
        raise ExperimentError(
            f"threshold {options.threshold} is not a finite number", "such as threshold=0.5"
        )
    check_between("bins", options.bins, 1, MAX_BINS)
    for k in [] if options.k_by is None else options.k_by[1].values():
        check_between("k_by", k, 1, MAX_CUTOFF)
    if options.curve is not None:
        check_between("curve", options.curve, 1, MAX_CURVE)
    if options.curve is not None and not curve_metrics(options.metrics, options.curve):
        what = "no metric has a cut-off k, so there is no curve"
        raise ExperimentError(what, "name one, such as ndcg@10[lin], or name no metric")


def notes_of(options: ReplayOptions, has_requests: bool) -> list[str]:
    """Notes that a reader of the result needs."""
    notes = [
        "offline values rest on what was shown: only shown items can be clicked",
        f"relevance: {options.relevance}",
    ]
    if options.relevance == SIMILARITY:
        notes.append(
            "a model that was trained on these vectors judges itself; metrics of binary "
            "relevance count every item with a cosine above 0 as relevant"
        )
    if not has_requests:
        notes.append("the log has no request_id: all items shown to a unit form one list")
    if options.kept_negatives is not None:
        notes.append(f"scores corrected for negatives sampled at {options.kept_negatives:g}")
    return notes
