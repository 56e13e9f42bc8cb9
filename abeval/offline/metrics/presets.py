"""Presets of other libraries: their metrics, and how they treat ties and empty requests.

`offline/options.py` and `offline/evaluation.py` ask for the metrics and the policy of the user's
options. Kept in a `Scoring`, they go with a run through `offline/sums/` and `offline/estimates/`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from abeval.bounds import MAX_CUTOFF
from abeval.errors import ExperimentError
from abeval.offline.metrics import OfflineMetric, default_metrics, metrics_of

Ties = Literal["item", "text", "position"]
NoRelevant = Literal["drop", "zero", "one"]
Missing = Literal["drop", "zero"]


@dataclass(frozen=True)
class Policy:
    """Cases that a metric's definition leaves open.

    Attributes:
        ties: Which of two equal scores ranks higher: the larger item id (`item`; as text, `text`),
            or the one listed first (`position`).
        no_relevant: Requests without a relevant item are left out, or count as zero; under `one`,
            their nDCG and MAP are one, and their other metrics zero.
        missing: Requests without a score of the model are left out, or count as zero.
        missing_in_ndcg: The same for nDCG, where a library treats it differently.
    """

    ties: Ties = "item"
    no_relevant: NoRelevant = "drop"
    missing: Missing = "drop"
    missing_in_ndcg: Missing | None = None

    def missing_for(self, name: str) -> Missing:
        """How the metric `name` treats requests without a score.

        Example:
            >>> Policy(missing="drop", missing_in_ndcg="zero").missing_for("ndcg")
            'zero'
        """
        return self.missing_in_ndcg or self.missing if name == "ndcg" else self.missing

    def override(self, ties: Ties | None, no_relevant: NoRelevant | None) -> "Policy":
        """The policy with the user's choices; None keeps what it says.

        Example:
            >>> Policy(ties="text").override(None, "zero")
            Policy(ties='text', no_relevant='zero', missing='drop', missing_in_ndcg=None)
        """
        ties, no_relevant = ties or self.ties, no_relevant or self.no_relevant
        return replace(self, ties=ties, no_relevant=no_relevant)


@dataclass(frozen=True)
class Scoring:
    """Which metrics a run computes, and how.

    Attributes:
        metrics: In the order of the result.
        policy: Which requests count, and how ties are broken.
        alpha: Level of the intervals.
        threshold: Scores from here on predict a click; None without metrics that need it.
        bins: Bins of the calibration curve and of the calibration error.
    """

    metrics: tuple[OfflineMetric, ...]
    policy: Policy
    alpha: float = 0.05
    threshold: float | None = None
    bins: int = 10


@dataclass(frozen=True)
class Preset:
    """A library's metrics, by their ids here, and its policy.

    Attributes:
        at_k: Ids with `{}` in the place of the cut-off.
        whole: Ids without a cut-off.
        policy: How the library treats the cases that definitions leave open.
    """

    at_k: tuple[str, ...]
    whole: tuple[str, ...]
    policy: Policy

    def metrics(self, ks: Sequence[int]) -> tuple[OfflineMetric, ...]:
        """The metrics at the cut-offs `ks`."""
        return metrics_of([*(text.format(k) for k in ks for text in self.at_k), *self.whole])


PRESETS: Mapping[str, Preset] = {
    "trec": Preset(
        ("precision@{}", "recall@{}", "hit@{}", "map@{}[R]", "ndcg@{}[lin]"),
        ("map[R]", "mrr", "ndcg[lin]", "rprec"),
        Policy(ties="text", no_relevant="zero", missing="drop"),
    ),
    "ranx": Preset(
        (
            *("precision@{}", "recall@{}", "f1@{}", "hit@{}", "map@{}[R]", "mrr@{}"),
            *("dcg@{}[lin]", "dcg@{}[exp]", "ndcg@{}[lin]", "ndcg@{}[exp]"),
        ),
        ("map[R]", "mrr", "ndcg[lin]", "ndcg[exp]", "rprec"),
        Policy(ties="position", no_relevant="zero", missing="zero"),
    ),
    "rectools": Preset(
        (
            *("precision@{}", "recall@{}", "recall@{}[cap]", "f1@{}", "hit@{}", "map@{}[R]"),
            *("map@{}[k]", "ndcg@{}[bin,k]", "ndcg@{}[bin]", "mrr@{}"),
        ),
        (),
        Policy(ties="position", no_relevant="drop", missing="zero"),
    ),
    "recommenders": Preset(
        (
            *("precision@{}", "recall@{}", "map@{}[R]", "map@{}[min]"),
            *("ndcg@{}[bin]", "ndcg@{}[lin]", "ndcg@{}[exp]"),
        ),
        (),
        Policy(ties="position", no_relevant="drop", missing="drop", missing_in_ndcg="zero"),
    ),
    "sklearn": Preset(
        ("ndcg@{}[lin,ties]", "ndcg@{}[lin,list]"),
        ("ndcg[lin,ties]", "auc", "log_loss", "brier"),
        Policy(ties="position", no_relevant="zero", missing="drop"),
    ),
    "xgboost": Preset(
        ("precision@{}", "map@{}[min]", "ndcg@{}[exp]"),
        ("ndcg[exp]",),
        Policy(ties="position", no_relevant="one", missing="drop"),
    ),
}


def metrics_and_policy(
    compat: str | None,
    ks: Sequence[int],
    names: Sequence[str] | None,
    ties: Ties | None = None,
    no_relevant: NoRelevant | None = None,
) -> tuple[tuple[OfflineMetric, ...], Policy]:
    """The metrics and the policy of a run.

    Args:
        compat: A library of `PRESETS`.
        ks: Cut-offs.
        names: Ids of metrics; None for those of the library, or for the default ones.
        ties: Overrides the policy of the library.
        no_relevant: Overrides the policy of the library.

    Raises:
        ExperimentError: An unknown library or metric, or a cut-off below 1.

    Example:
        >>> metrics, policy = metrics_and_policy("xgboost", [3], None)
        >>> [m.id for m in metrics], policy.no_relevant
        (['precision@3', 'map@3[min]', 'ndcg@3[exp]', 'ndcg[exp]'], 'one')
    """
    if not ks or not all(1 <= k <= MAX_CUTOFF for k in ks):
        what = f"k must be one or more whole numbers from 1 to {MAX_CUTOFF:,}"
        raise ExperimentError(what, "such as 1, 5, 10")
    cuts = list(dict.fromkeys(ks))
    if compat is None:
        metrics, policy = default_metrics(cuts), Policy()
    elif compat in PRESETS:
        metrics, policy = PRESETS[compat].metrics(cuts), PRESETS[compat].policy
    else:
        from abeval.experiment.problems import suggestion

        hint = suggestion(compat, PRESETS)
        what = f"no preset is called {compat!r}{hint}"
        raise ExperimentError(what, f"one of {', '.join(PRESETS)}")
    return metrics_of(names) if names else metrics, policy.override(ties, no_relevant)
