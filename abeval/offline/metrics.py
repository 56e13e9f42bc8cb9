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
        name: Such as `map`.
        variant: The text in brackets; empty where the name is enough.
        family: How its values are computed: by which queries or kernel, and which estimate.
        cut: Whether the id has an `@k`.
        above: What it sums: of a request (family `list`, a column of `list_values.sql`), or of a
            unit (a column of the family's query).
        below: What that is divided by, of the same; of a request, the product of these columns
            (`fine` says that `above` counts multiples of 1e-12).
        formula: In words, with R the relevant items of a request.
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
        """Whether it is a mean over requests."""
        return self.family in ("list", "tied")

    @property
    def column(self) -> str:
        """Name and variant as one word: `ndcg_lin_list`."""
        return re.sub(r"\W", "_", f"{self.name}_{self.variant}" if self.variant else self.name)


class OfflineMetric(NamedTuple):
    """A definition with its cut-off.

    Attributes:
        definition: The metric without its cut-off.
        k: The cut-off; None for the whole list.

    Example:
        >>> metric = OfflineMetric(DEFINITIONS["map", "min"], 10)
        >>> metric.id, metric.k, metric.definition.formula
        ('map@10[min]', 10, 'mean over requests of Σ precision at each hit / min(R, k)')
    """

    definition: Definition
    k: int | None = None

    @property
    def id(self) -> str:
        """The name, the cut-off and the variant."""
        cut = "" if self.k is None else f"@{self.k}"
        variant = f"[{self.definition.variant}]" if self.definition.variant else ""
        return f"{self.definition.name}{cut}{variant}"

    @property
    def cutoff(self) -> int:
        """The cut-off as a number: `UNCUT` for the whole list."""
        return UNCUT if self.k is None else self.k


def _list(
    name: str, variant: str, cut: Cut, above: str, below: str, formula: str, same: bool = False
) -> Definition:
    text = f"mean over requests of {formula}"
    return Definition(name, variant, "list", cut, above, below, text, same)


_GAINS = (("bin", "1 if relevant"), ("lin", "relevance"), ("exp", "2^relevance − 1"))
_AP, _ALL = "Σ precision at each hit", "DCG of all relevant items"
_STEPS, _BEST = "Σ recall at each of the first k places of the list", "DCG of the list in its best"
_TIES = "mean over requests of nDCG averaged over the orders of equal scores, ideal over the list"

RANKING = (
    _list("precision", "", "required", "hits", "k", "hits / k", True),
    _list("recall", "", "required", "hits", "relevant", "hits / R", True),
    _list("recall", "cap", "required", "hits", "best", "hits / min(R, k)", True),
    _list("f1", "", "required", "hits", "mean_size", "2·hits / (k + R)", True),
    _list("hit", "", "required", "any_hit", "", "1 if there is a hit, else 0", True),
    _list("map", "R", "optional", "precisions", "fine relevant", f"{_AP} / R"),
    _list("map", "min", "required", "precisions", "fine best", f"{_AP} / min(R, k)"),
    _list("map", "hits", "optional", "precisions", "fine hits", f"{_AP} / hits"),
    _list("map", "k", "required", "precisions", "fine k", f"{_AP} / k"),
    _list("mar", "mean", "required", "steps", "k relevant", f"{_STEPS} / k"),
    _list("mar", "R", "optional", "recalls", "relevant relevant", "Σ recall at each hit / R", True),
    _list(
        *("mar", "min", "required", "recalls", "relevant best"),
        *("Σ recall at each hit / min(R, k)", True),
    ),
    _list("mrr", "", "optional", "first", "", "1 / place of the first hit, 0 without one"),
    _list("arhr", "", "optional", "reciprocals", "fine", "Σ 1 / place over hits"),
    _list("cg", "", "required", "gain", "fine", "Σ relevance over the first k", True),
    *(
        _list("dcg", gain, "optional", f"dcg_{gain}", "fine", f"Σ ({text}) / log2(1 + place)")
        for gain, text in _GAINS
    ),
    *(
        _list("ndcg", gain, "optional", f"dcg_{gain}", f"ideal_{gain}", f"DCG ({text}) / {_ALL}")
        for gain, text in _GAINS
    ),
    *(
        _list(
            *("ndcg", f"{gain},list", "optional", f"dcg_{gain}", f"list_{gain}"),
            f"DCG ({text}) / {_BEST} order",
        )
        for gain, text in _GAINS
    ),
    _list(
        *("ndcg", "bin,k", "required", "dcg_bin", "full_ideal"),
        "DCG (1 if relevant) / DCG of k relevant",
    ),
    Definition("ndcg", "lin,ties", "tied", "optional", "", "", _TIES),
    _list("rprec", "", "none", "early", "relevant", "hits in the first R / R"),
)
"""Metrics of lists: means over requests of `above / below`."""


def _ratio(
    family: Family, name: str, variant: str, y: str, x: str, formula: str, form: Form = "ratio"
) -> Definition:
    return Definition(name, variant, family, "none", y, x, formula, form=form)


_AUC = "pairs of a click and a non-click ordered correctly by the score, ties count half"
_GAUC = "Σ impressions·AUC / Σ impressions"
_ECE = "Σ rows·|mean score − CTR| / rows over equal"
_AT = "clicks at or above the threshold"

SCORES = (
    _ratio("auc", "auc", "", "auc", "units", f"share of {_AUC}, over all impressions"),
    _ratio(
        *("pairs", "gauc", "impressions", "auc_impressions", "impressions"),
        f"{_GAUC} over units with both classes",
    ),
    _ratio(
        *("pairs", "gauc", "clicks", "auc_clicks", "clicks"),
        "Σ clicks·AUC / Σ clicks over units with both classes",
    ),
    _ratio(
        *("pairs", "gauc", "units", "auc_units", "units"),
        "mean AUC of the units with both classes",
    ),
    _ratio("pairs", "gauc", "pairs", "won_pairs", "pairs", f"share of {_AUC}, within units"),
    _ratio(
        *("pairs", "gauc", "impressions,half", "auc_impressions_half", "all_impressions"),
        f"{_GAUC}, AUC ½ for units with one class",
    ),
    _ratio(
        *("pairs", "fcp", "", "concordant", "ordered"),
        "concordant / (concordant + discordant) pairs within units, equal scores left out",
    ),
    _ratio(
        *("pairs", "fcp", "half", "won_graded", "graded"),
        "(concordant + ½ tied) / all pairs of different relevance within units",
    ),
    _ratio("point", "log_loss", "", "log_loss", "rows", "−mean ln(probability of the outcome)"),
    _ratio(
        *("point", "log_likelihood", "", "log_likelihood", "rows"),
        *("Σ ln(probability of the outcome)", "total"),
    ),
    _ratio(
        *("point", "ne", "", "log_loss", "rows"),
        *("log loss / entropy of the click rate of the same rows", "entropy"),
    ),
    _ratio("point", "rig", "", "log_loss", "rows", "1 − normalised entropy", "information"),
    _ratio("point", "q_ctr", "", "predicted", "clicks", "Σ score / Σ clicks"),
    _ratio("point", "brier", "", "squared_error", "rows", "mean (score − click)²"),
    _ratio("point", "mae", "", "absolute_residual", "rows", "mean |score − relevance|"),
    _ratio("point", "rmse", "", "squared_residual", "rows", "√ mean (score − relevance)²", "root"),
    _ratio(
        *("point", "precision", "threshold", "true_positive", "predicted_positive"),
        f"{_AT} / impressions at or above it",
    ),
    _ratio("point", "recall", "threshold", "true_positive", "clicks", f"{_AT} / clicks"),
    _ratio(
        *("point", "f1", "threshold", "twice_true_positive", "both_positive"),
        f"2·{_AT} / (clicks + impressions at or above it)",
    ),
    _ratio("bins", "ece", "mass", "", "", f"{_ECE} counts"),
    _ratio("bins", "ece", "width", "", "", f"{_ECE} widths"),
)
"""Metrics of scores: ratios of sums over units, and calibration."""


def _beyond(name: str, variant: str, above: str, formula: str, below: str = "lists") -> Definition:
    text = f"mean over lists of {formula}"
    return Definition(name, variant, "beyond", "required", above, below, text)


def _catalogue(name: str, variant: str, column: str, formula: str) -> Definition:
    return Definition(name, variant, "catalogue", "required", column, "", formula)


BEYOND = (
    _beyond(
        *("novelty", "self_information", "self_information"),
        "the mean of −log2(an item's share of earlier choices)",
    ),
    _beyond("novelty", "miuf", "miuf", "the mean of −log2(share of earlier units that chose it)"),
    _beyond("popularity", "", "popularity", "the mean number of earlier choices"),
    _beyond(
        *("serendipity", "", "serendipity"),
        "the mean over relevant items of how much higher they rank than by popularity / catalogue",
    ),
    _beyond(
        *("ild", "category", "ild"),
        *("the share of pairs of items of different categories", "categorised_lists"),
    ),
    _beyond(
        *("ild", "vectors", "ild_vectors"),
        *("1 − the mean cosine of two items' vectors (`embedding`)", "vector_lists"),
    ),
    _catalogue("coverage", "", "coverage", "items in a list / items of the catalogue"),
    _catalogue(
        *("coverage", "equal", "coverage_equal"),
        "expected items in the lists of as many units as the smallest traffic has / catalogue",
    ),
    _catalogue("gini", "catalogue", "gini", "Gini of lists per item, over the whole catalogue"),
    _catalogue("gini", "listed", "gini_listed", "Gini of lists per item, over items in a list"),
    _catalogue("entropy", "", "entropy", "entropy of lists per item, in bits"),
    _catalogue("personalisation", "", "personalisation", "1 − mean cosine of two lists"),
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


class Preset(NamedTuple):
    """A library's metrics, by their ids here, and its policy.

    Attributes:
        at_k: Ids with `{}` in the place of the cut-off.
        whole: Ids without a cut-off.
        policy: How the library treats the cases that definitions leave open.
    """

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

        what = f"no preset is called {compat!r}{suggestion(compat, PRESETS)}"
        raise ExperimentError(what, f"one of {', '.join(PRESETS)}")
    policy = replace(
        policy, ties=ties or policy.ties, no_relevant=no_relevant or policy.no_relevant
    )
    return metrics_of(names) if names else metrics, policy
