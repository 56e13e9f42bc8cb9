"""Define the offline metrics: formulas, ids, what each sums, and the presets of other libraries.

An id carries its definition: `map@10[min]`, `gauc[impressions]`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from abeval.bounds import MAX_CUTOFF
from abeval.errors import ExperimentError

Family = Literal["list", "tied", "pairs", "auc", "point", "bins", "beyond", "catalogue"]
Cut = Literal["required", "optional", "none"]
Form = Literal["ratio", "root", "total", "entropy", "information"]

UNCUT = 1_000_000_000
"""The cut-off that stands for the whole list."""


class Definition(NamedTuple):
    """A metric without its cut-off.

    Attributes:
        family: How its values are computed: by which queries or kernel, and which estimate.
        above: What it sums: of a request (family `list`, a column of `list_values.sql`), or of a
            unit (a column of the family's query).
        below: What that is divided by, of the same; of a request, the product of these columns
            (`fine` says that `above` counts multiples of 1e-12).
        same_for_all: Whether every order of a list has the same value once k covers the list.
        form: What is computed of the sums over units: their ratio, its square root, the numerator
            only, the ratio over the entropy of the click rate, or one minus that.
    """

    name: str
    variant: str
    family: Family
    cut: Cut
    above: str
    below: str
    formula: str
    same_for_all: bool = False
    form: Form = "ratio"

    @property
    def of_requests(self) -> bool:
        """Return whether it is a mean over requests."""
        return self.family in ("list", "tied")

    @property
    def column(self) -> str:
        """Join name and variant to one word: `ndcg_lin_list`."""
        return re.sub(r"\W", "_", f"{self.name}_{self.variant}" if self.variant else self.name)


class OfflineMetric(NamedTuple):
    """A definition with its cut-off `k`, which is None for the whole list.

    Example:
        >>> metric = OfflineMetric(DEFINITIONS["map", "min"], 10)
        >>> metric.id, metric.k, metric.definition.formula
        ('map@10[min]', 10, 'mean over requests of Σ precision at each hit / min(R, k)')
    """

    definition: Definition
    k: int | None = None

    @property
    def id(self) -> str:
        """Join name, cut-off and variant."""
        cut = "" if self.k is None else f"@{self.k}"
        variant = f"[{self.definition.variant}]" if self.definition.variant else ""
        return f"{self.definition.name}{cut}{variant}"

    @property
    def cutoff(self) -> int:
        """Return the cut-off as a number: `UNCUT` for the whole list."""
        return UNCUT if self.k is None else self.k


_ROW = re.compile(r"(\w+)(@k\??)?(?:\[(.+)\])?")
_CUTS: Mapping[str | None, Cut] = {"@k": "required", "@k?": "optional", None: "none"}
_MEANS = {"list": "mean over requests of ", "tied": "mean over requests of "}
_MEANS |= {"beyond": "mean over lists of "}


def _row(
    family: Family, pattern: str, sums: str, formula: str, form: Form = "ratio", same: bool = False
) -> Definition:
    """Make a definition; `@k?` is an optional cut-off, `sums` is `above / below`."""
    match = _ROW.fullmatch(pattern)
    name, cut, variant = match.groups() if match else (pattern, None, None)
    above, _, below = sums.partition(" / ")
    text = _MEANS.get(family, "") + formula
    return Definition(name, variant or "", family, _CUTS[cut], above, below, text, same, form)


_AP, _AR, _ALL = "Σ precision at each hit", "Σ recall at each hit", "DCG of all relevant items"
_STEPS = "Σ recall at each of the first k places of the list"
_BEST = "DCG of the list in its best order"
_TIES = "nDCG averaged over the orders of equal scores, ideal over the list"
_GAINS = (("bin", "1 if relevant"), ("lin", "relevance"), ("exp", "2^relevance − 1"))

RANKING = (
    _row("list", "precision@k", "hits / k", "hits / k", same=True),
    _row("list", "recall@k", "hits / relevant", "hits / R", same=True),
    _row("list", "recall@k[cap]", "hits / best", "hits / min(R, k)", same=True),
    _row("list", "f1@k", "hits / mean_size", "2·hits / (k + R)", same=True),
    _row("list", "hit@k", "any_hit", "1 if there is a hit, else 0", same=True),
    _row("list", "map@k?[R]", "precisions / fine relevant", f"{_AP} / R"),
    _row("list", "map@k[min]", "precisions / fine best", f"{_AP} / min(R, k)"),
    _row("list", "map@k?[hits]", "precisions / fine hits", f"{_AP} / hits"),
    _row("list", "map@k[k]", "precisions / fine k", f"{_AP} / k"),
    _row("list", "mar@k[mean]", "steps / k relevant", f"{_STEPS} / k"),
    _row("list", "mar@k?[R]", "recalls / relevant relevant", f"{_AR} / R", same=True),
    _row("list", "mar@k[min]", "recalls / relevant best", f"{_AR} / min(R, k)", same=True),
    _row("list", "mrr@k?", "first", "1 / place of the first hit, 0 without one"),
    _row("list", "arhr@k?", "reciprocals / fine", "Σ 1 / place over hits"),
    _row("list", "cg@k", "gain / fine", "Σ relevance over the first k", same=True),
    *(
        _row("list", f"dcg@k?[{of}]", f"dcg_{of} / fine", f"Σ ({gain}) / log2(1 + place)")
        for of, gain in _GAINS
    ),
    *(
        _row("list", f"ndcg@k?[{of}]", f"dcg_{of} / ideal_{of}", f"DCG ({gain}) / {_ALL}")
        for of, gain in _GAINS
    ),
    *(
        _row("list", f"ndcg@k?[{of},list]", f"dcg_{of} / list_{of}", f"DCG ({gain}) / {_BEST}")
        for of, gain in _GAINS
    ),
    _row(
        "list", "ndcg@k[bin,k]", "dcg_bin / full_ideal", "DCG (1 if relevant) / DCG of k relevant"
    ),
    _row("tied", "ndcg@k?[lin,ties]", "", _TIES),
    _row("list", "rprec", "early / relevant", "hits in the first R / R"),
)
"""Metrics of lists: means over requests of `above / below`."""

_AUC = "pairs of a click and a non-click ordered correctly by the score, ties count half"
_GAUC = "Σ impressions·AUC / Σ impressions"
_BOTH = "units with both classes"
_HALF = "auc_impressions_half / all_impressions"
_ORDERED = "concordant / (concordant + discordant) pairs within units, equal scores left out"
_UNEQUAL = "(concordant + ½ tied) / all pairs of different relevance within units"
_LIKELIHOOD, _ENTROPY = "Σ ln(probability of the outcome)", "entropy of the click rate"
_AT, _SAID = "clicks at or above the threshold", "impressions at or above it"
_F1 = "twice_true_positive / both_positive"
_ECE = "Σ rows·|mean score − CTR| / rows over equal"

SCORES = (
    _row("auc", "auc", "auc / units", f"share of {_AUC}, over all impressions"),
    _row("pairs", "gauc[impressions]", "auc_impressions / impressions", f"{_GAUC} over {_BOTH}"),
    _row("pairs", "gauc[clicks]", "auc_clicks / clicks", f"Σ clicks·AUC / Σ clicks over {_BOTH}"),
    _row("pairs", "gauc[units]", "auc_units / units", f"mean AUC of the {_BOTH}"),
    _row("pairs", "gauc[pairs]", "won_pairs / pairs", f"share of {_AUC}, within units"),
    _row("pairs", "gauc[impressions,half]", _HALF, f"{_GAUC}, AUC ½ for units with one class"),
    _row("pairs", "fcp", "concordant / ordered", _ORDERED),
    _row("pairs", "fcp[half]", "won_graded / graded", _UNEQUAL),
    _row("point", "log_loss", "log_loss / rows", "−mean ln(probability of the outcome)"),
    _row("point", "log_likelihood", "log_likelihood / rows", _LIKELIHOOD, "total"),
    _row("point", "ne", "log_loss / rows", f"log loss / {_ENTROPY} of the same rows", "entropy"),
    _row("point", "rig", "log_loss / rows", "1 − normalised entropy", "information"),
    _row("point", "q_ctr", "predicted / clicks", "Σ score / Σ clicks"),
    _row("point", "brier", "squared_error / rows", "mean (score − click)²"),
    _row("point", "mae", "absolute_residual / rows", "mean |score − relevance|"),
    _row("point", "rmse", "squared_residual / rows", "√ mean (score − relevance)²", "root"),
    _row("point", "precision[threshold]", "true_positive / predicted_positive", f"{_AT} / {_SAID}"),
    _row("point", "recall[threshold]", "true_positive / clicks", f"{_AT} / clicks"),
    _row("point", "f1[threshold]", _F1, f"2·{_AT} / (clicks + {_SAID})"),
    _row("bins", "ece[mass]", "", f"{_ECE} counts"),
    _row("bins", "ece[width]", "", f"{_ECE} widths"),
)
"""Metrics of scores: ratios of sums over units, and calibration."""

_SHARE = "the mean of −log2(an item's share of earlier choices)"
_USERS = "the mean of −log2(share of earlier units that chose it)"
_UNLIKE = "the share of pairs of items of different categories"
_HIGHER = "the mean over relevant items of how much higher they rank than by popularity / catalogue"
_COSINE = "1 − the mean cosine of two items' vectors (`embedding`)"
_EQUAL = "expected items in the lists of as many units as the smallest traffic has / catalogue"
_GINI = "Gini of lists per item, over"

BEYOND = (
    _row("beyond", "novelty@k[self_information]", "self_information / lists", _SHARE),
    _row("beyond", "novelty@k[miuf]", "miuf / lists", _USERS),
    _row("beyond", "popularity@k", "popularity / lists", "the mean number of earlier choices"),
    _row("beyond", "serendipity@k", "serendipity / lists", _HIGHER),
    _row("beyond", "ild@k[category]", "ild / categorised_lists", _UNLIKE),
    _row("beyond", "ild@k[vectors]", "ild_vectors / vector_lists", _COSINE),
    _row("catalogue", "coverage@k", "coverage", "items in a list / items of the catalogue"),
    _row("catalogue", "coverage@k[equal]", "coverage_equal", _EQUAL),
    _row("catalogue", "gini@k[catalogue]", "gini", f"{_GINI} the whole catalogue"),
    _row("catalogue", "gini@k[listed]", "gini_listed", f"{_GINI} items in a list"),
    _row("catalogue", "entropy@k", "entropy", "entropy of lists per item, in bits"),
    _row("catalogue", "personalisation@k", "personalisation", "1 − mean cosine of two lists"),
)
"""Metrics of what lists hold."""

DEFINITIONS: Mapping[tuple[str, str], Definition] = {
    (d.name, d.variant): d for d in (*RANKING, *SCORES, *BEYOND)
}
"""Every definition by name and variant."""

HISTORY = frozenset({"self_information", "miuf", "popularity", "serendipity"})
"""What only earlier choices tell (`above`)."""

GRADED = frozenset({"concordant", "won_graded"})
"""Sums of FCP (`above`): pairs of unequal relevance, whatever its levels."""

_LESS_IS_BETTER = ("log_loss", "ne", "brier", "mae", "rmse", "ece", "gini", "popularity")


def direction_of(metric: str) -> str:
    """Return the good direction of the metric with this id, as an online metric's is written.

    Example:
        >>> direction_of("ndcg@10[lin]"), direction_of("ece[mass]"), direction_of("q_ctr")
        ('increase', 'decrease', 'toward 1')
    """
    name = re.split(r"[@[]", metric)[0]
    if name == "q_ctr":
        return "toward 1"
    return "decrease" if name in _LESS_IS_BETTER else "increase"


_ID = re.compile(r"^([a-z_0-9]+?)(?:@([1-9][0-9]{0,8}))?(?:\[([A-Za-z_,]+)\])?$")

_LIBRARIES = ("bin", "bin,list", "bin,k", "lin,ties")
"""Variants that only the numbers of some library need."""

_ON_REQUEST = ("threshold", "vectors")
"""Variants that need an option or a column."""


def parse_metric(text: str) -> OfflineMetric:
    """Return the metric of an id.

    Raises:
        ExperimentError: There is no such metric, or the id leaves its definition open.

    Example:
        >>> parse_metric("ndcg@10")
        Traceback (most recent call last):
        abeval.errors.ExperimentError: 'ndcg@10' has several definitions: choose one
          hint: one of ndcg@10[bin], ndcg@10[lin], ndcg@10[exp], ndcg@10[bin,list], \
ndcg@10[lin,list], ndcg@10[exp,list], ndcg@10[bin,k], ndcg@10[lin,ties]
    """
    match = _ID.match(text)
    name, k, variant = match.groups() if match else (text, None, None)
    named = [d for d in DEFINITIONS.values() if d.name == name]
    if not named:
        from abeval.experiment.problems import suggestion

        known = dict.fromkeys(d.name for d in DEFINITIONS.values())
        raise ExperimentError(f"no offline metric is called {text!r}{suggestion(name, known)}")
    cut = None if k is None else int(k)
    definition = DEFINITIONS.get((name, variant or ""))
    if definition is None:
        lacks = f"{text!r}: there is no definition [{variant}]"
        what = f"{text!r} has several definitions: choose one" if variant is None else lacks
        raise ExperimentError(what, f"one of {', '.join(OfflineMetric(d, cut).id for d in named)}")
    if (definition.cut == "none" and k) or (definition.cut == "required" and k is None):
        wanted = "needs a cut-off, such as @10" if k is None else "has no cut-off"
        raise ExperimentError(f"{text!r}: {name} {wanted}")
    return OfflineMetric(definition, cut)


def metrics_of(texts: Iterable[str]) -> tuple[OfflineMetric, ...]:
    """Return the metrics of some ids, each once."""
    return tuple(dict.fromkeys(parse_metric(text) for text in texts))


def default_metrics(ks: Sequence[int]) -> tuple[OfflineMetric, ...]:
    """Return the default metrics: those with a cut-off at each of `ks`, and those of scores.

    Example:
        >>> [m.id for m in default_metrics([5])][:4]
        ['precision@5', 'recall@5', 'recall@5[cap]', 'f1@5']
    """
    cut = [d for d in RANKING if d.cut != "none" and d.variant not in _LIBRARIES]
    at_k = [OfflineMetric(d, k) for k in ks for d in cut]
    whole = [OfflineMetric(d) for d in SCORES if d.variant not in _ON_REQUEST]
    lists = [OfflineMetric(d, k) for k in ks for d in BEYOND if d.variant not in _ON_REQUEST]
    return (*at_k, *whole, *lists)


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
        """Return how the metric `name` treats requests without a score.

        Example:
            >>> Policy(missing="drop", missing_in_ndcg="zero").missing_for("ndcg")
            'zero'
        """
        return self.missing_in_ndcg or self.missing if name == "ndcg" else self.missing


@dataclass(frozen=True)
class Scoring:
    """Which metrics a run computes, and how.

    Scores from `threshold` on predict a click; it is None without metrics that need it.
    """

    metrics: tuple[OfflineMetric, ...]
    policy: Policy
    alpha: float = 0.05
    threshold: float | None = None
    bins: int = 10


class Preset(NamedTuple):
    """A library's policy, and its metrics by their ids here; `at_k` has `{}` for the cut-off."""

    at_k: str
    whole: str
    policy: Policy

    def metrics(self, ks: Sequence[int]) -> tuple[OfflineMetric, ...]:
        """Return the metrics at the cut-offs `ks`."""
        at_k = [text.format(k) for k in ks for text in self.at_k.split()]
        return metrics_of([*at_k, *self.whole.split()])


PRESETS: Mapping[str, Preset] = {
    "trec": Preset(
        "precision@{} recall@{} hit@{} map@{}[R] ndcg@{}[lin]",
        "map[R] mrr ndcg[lin] rprec",
        Policy(ties="text", no_relevant="zero"),
    ),
    "ranx": Preset(
        "precision@{} recall@{} f1@{} hit@{} map@{}[R] mrr@{} "
        "dcg@{}[lin] dcg@{}[exp] ndcg@{}[lin] ndcg@{}[exp]",
        "map[R] mrr ndcg[lin] ndcg[exp] rprec",
        Policy(ties="position", no_relevant="zero", missing="zero"),
    ),
    "rectools": Preset(
        "precision@{} recall@{} recall@{}[cap] f1@{} hit@{} map@{}[R] "
        "map@{}[k] ndcg@{}[bin,k] ndcg@{}[bin] mrr@{}",
        "",
        Policy(ties="position", missing="zero"),
    ),
    "recommenders": Preset(
        "precision@{} recall@{} map@{}[R] map@{}[min] ndcg@{}[bin] ndcg@{}[lin] ndcg@{}[exp]",
        "",
        Policy(ties="position", missing_in_ndcg="zero"),
    ),
    "sklearn": Preset(
        "ndcg@{}[lin,ties] ndcg@{}[lin,list]",
        "ndcg[lin,ties] auc log_loss brier",
        Policy(ties="position", no_relevant="zero"),
    ),
    "xgboost": Preset(
        "precision@{} map@{}[min] ndcg@{}[exp]",
        "ndcg[exp]",
        Policy(ties="position", no_relevant="one"),
    ),
}
"""Library → its metrics and policy."""


def metrics_and_policy(
    compat: str | None,
    ks: Sequence[int],
    names: Sequence[str] | None,
    ties: Ties | None = None,
    no_relevant: NoRelevant | None = None,
) -> tuple[tuple[OfflineMetric, ...], Policy]:
    """Return the metrics and the policy of a run.

    They are those of the library `compat`, or the default ones, unless they have `names`; `ties`
    and `no_relevant` override its policy.

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

        what = f"no preset is called {compat!r}{suggestion(compat, PRESETS)}"
        raise ExperimentError(what, f"one of {', '.join(PRESETS)}")
    policy = replace(
        policy, ties=ties or policy.ties, no_relevant=no_relevant or policy.no_relevant
    )
    return metrics_of(names) if names else metrics, policy
