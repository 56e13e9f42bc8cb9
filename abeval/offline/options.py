"""How a replay is done: what may be asked, checked, and what it means for a reader."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from abeval.errors import ExperimentError
from abeval.offline.candidates.vectors import SIMILARITY
from abeval.offline.estimates.curves import curve_metrics
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.metrics.ids import metrics_of
from abeval.offline.metrics.presets import NoRelevant, Policy, Ties, chosen

_AT_THRESHOLD = ("precision[threshold]", "recall[threshold]", "f1[threshold]")


@dataclass(frozen=True)
class ReplayOptions:
    """How a replay is done.

    Attributes:
        k: Cut-offs.
        metrics: Ids, instead of all on offer.
        compat: The library whose definitions and policies to follow.
        relevance: `click`, `long_click`, `dwell` (seconds), `similarity` (to what the unit
            clicked, by the vectors of items), `truth` (as the truth log has it), or an
            expression over the impression.
        ties: Instead of the policy's.
        no_relevant: Instead of the policy's.
        threshold: The score from which on a click is predicted.
        kept_negatives: Share of non-clicks that the models were trained on, to be undone.
        bins: Of the calibration curve and error.
        blend: Shares of the treatment's model in a blend with control's.
        split: A column that names the split of each impression, or name → its first and last day.
        curve: The largest cut-off of curves over 1, 2, …
        k_by: A column of the impressions, and its value → the cut-off there.
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


def sliced_by(options: ReplayOptions) -> list[str]:
    """The columns of the impressions that say which part a row is of."""
    by_split = [options.split] if isinstance(options.split, str) else []
    return [*by_split, *([] if options.k_by is None else [options.k_by[0]])]


def wanted(options: ReplayOptions) -> tuple[tuple[OfflineMetric, ...], Policy]:
    """The metrics and the policy of a replay.

    Raises:
        ExperimentError: An unknown metric or preset, or a number that makes no sense.
    """
    _check_numbers(options)
    metrics, policy = chosen(options.compat, options.k, options.metrics)
    if options.threshold is not None and options.metrics is None:
        metrics += metrics_of(_AT_THRESHOLD)
    if options.threshold is None and any(m.definition.variant == "threshold" for m in metrics):
        raise ExperimentError("a [threshold] metric needs a threshold", "such as threshold=0.5")
    return metrics, policy.told(options.ties, options.no_relevant)


def _check_numbers(options: ReplayOptions) -> None:
    if options.kept_negatives is not None and not 0 < options.kept_negatives <= 1:
        what = f"kept_negatives {options.kept_negatives} is not a share between 0 and 1"
        raise ExperimentError(what, "0.1 where one non-click in ten was kept")
    if options.threshold is not None and not math.isfinite(options.threshold):
        raise ExperimentError(f"threshold {options.threshold} is no score", "such as threshold=0.5")
    if options.bins < 1:
        raise ExperimentError(f"{options.bins} bins", "10 are usual, 1 is the least")
    if options.curve is not None and not curve_metrics(options.metrics, options.curve):
        what = "a curve is over k, and none of the metrics has a cut-off of requests"
        raise ExperimentError(what, "name one, such as ndcg@10[lin], or name no metric")


def notes_of(options: ReplayOptions, has_requests: bool) -> list[str]:
    """What a reader of the result must know."""
    notes = [
        "offline values rest on what was shown: an item that no variant showed has no click",
        f"relevance: {options.relevance}",
    ]
    if options.relevance == SIMILARITY:
        notes.append(
            "a model that was trained on these vectors is graded by itself; "
            "metrics that know only relevant or not count every item with a cosine above 0"
        )
    if not has_requests:
        notes.append("the log has no request_id: all that a unit was shown is one list")
    if options.kept_negatives is not None:
        notes.append(f"scores corrected for negatives sampled at {options.kept_negatives:g}")
    return notes
