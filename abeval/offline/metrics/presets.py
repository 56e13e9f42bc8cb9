"""What other libraries compute: their definitions, and how they treat ties and empty requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from abeval.errors import ExperimentError
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.metrics.ids import default_metrics, metrics_of

Ties = Literal["item", "text", "position"]
NoRelevant = Literal["drop", "zero", "one"]
Missing = Literal["drop", "zero"]


@dataclass(frozen=True)
class Policy:
    """What happens where a definition says nothing.

    Attributes:
        ties: Which of two equal scores stands higher: the larger item id (`item`; as text, `text`),
            or the one listed first (`position`).
        no_relevant: Requests without a relevant item are left out, or count as zero; under `one`,
            nDCG and MAP of them are one, and the other metrics zero.
        missing: Requests that the model has no score for are left out, or count as zero.
        missing_in_ndcg: The same for nDCG, which one library treats otherwise.
    """

    ties: Ties = "item"
    no_relevant: NoRelevant = "drop"
    missing: Missing = "drop"
    missing_in_ndcg: Missing | None = None

    def missing_for(self, name: str) -> Missing:
        """The policy of a metric.

        Example:
            >>> Policy(missing="drop", missing_in_ndcg="zero").missing_for("ndcg")
            'zero'
        """
        return self.missing_in_ndcg or self.missing if name == "ndcg" else self.missing

    def told(self, ties: Ties | None, no_relevant: NoRelevant | None) -> "Policy":
        """The policy with what the user says instead.

        Example:
            >>> Policy(ties="text").told(None, "zero")
            Policy(ties='text', no_relevant='zero', missing='drop', missing_in_ndcg=None)
        """
        ties, no_relevant = ties or self.ties, no_relevant or self.no_relevant
        return replace(self, ties=ties, no_relevant=no_relevant)


@dataclass(frozen=True)
class Preset:
    """A library's metrics, by the ids that stand for them here, and its policy."""

    at_k: tuple[str, ...]
    whole: tuple[str, ...]
    policy: Policy

    def metrics(self, ks: Sequence[int]) -> tuple[OfflineMetric, ...]:
        """The metrics at some cut-offs."""
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


def chosen(
    compat: str | None, ks: Sequence[int], names: Sequence[str] | None
) -> tuple[tuple[OfflineMetric, ...], Policy]:
    """The metrics and the policy of a run.

    Args:
        compat: A library of `PRESETS`.
        ks: Cut-offs.
        names: Ids, instead of every metric that is on offer.

    Raises:
        ExperimentError: An unknown library or metric, or a cut-off that is none.

    Example:
        >>> metrics, policy = chosen("xgboost", [3], None)
        >>> [m.id for m in metrics], policy.no_relevant
        (['precision@3', 'map@3[min]', 'ndcg@3[exp]', 'ndcg[exp]'], 'one')
    """
    if not ks or any(k < 1 for k in ks):
        raise ExperimentError("k must be one or more whole numbers from 1", "such as 1, 5, 10")
    cuts = list(dict.fromkeys(ks))
    if compat is None:
        return metrics_of(names) if names else default_metrics(cuts), Policy()
    if compat not in PRESETS:
        from abeval.experiment.problems import suggestion

        hint = suggestion(compat, PRESETS)
        raise ExperimentError(f"no preset is called {compat!r}{hint}", f"one of {_listed()}")
    preset = PRESETS[compat]
    return metrics_of(names) if names else preset.metrics(cuts), preset.policy


def _listed() -> str:
    return ", ".join(PRESETS)
