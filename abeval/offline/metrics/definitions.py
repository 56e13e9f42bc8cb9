"""The offline metrics. An id carries its definition: `map@10[min]`, `gauc[impressions]`.

`offline/metrics/ids.py` finds the definition of an id; `offline/sums/`, `offline/kernels/` and
`offline/estimates/` read from it what to sum and how to estimate.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Family = Literal[
    "list", "r_precision", "tied", "pairs", "auc", "point", "bins", "beyond", "catalogue"
]
Cut = Literal["required", "optional", "none"]
Form = Literal["ratio", "root", "total", "entropy", "information"]

UNCUT = 1_000_000_000
"""The cut-off that stands for the whole list."""


@dataclass(frozen=True)
class Definition:
    """A metric without its cut-off.

    Attributes:
        name: Such as `map`.
        variant: The text in brackets; empty where the name is enough.
        family: How its values are computed: by which queries or kernel, and which estimate.
        numerator: Column that is summed over units.
        denominator: Column that it is divided by; empty where the family decides: the requests that
            count, the rows, or no such sum.
        cut: Whether the id has an `@k`.
        formula: In words, with R the relevant items of a request.
        same_for_all: Whether every order of a list has the same value once k covers the list.
        form: What is computed from the two sums: their ratio, its square root, the numerator only,
            the ratio over the entropy of the click rate, or one minus that.
    """

    name: str
    variant: str
    family: Family
    numerator: str
    denominator: str
    cut: Cut
    formula: str
    same_for_all: bool = False
    form: Form = "ratio"


@dataclass(frozen=True)
class OfflineMetric:
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
    name: str, variant: str, column: str, cut: Cut, formula: str, same: bool = False
) -> Definition:
    return Definition(
        name, variant, "list", column, "", cut, f"mean over requests of {formula}", same
    )


_GAINS: Mapping[str, str] = {"bin": "1 if relevant", "lin": "relevance", "exp": "2^relevance − 1"}

RANKING = (
    _list("precision", "", "precision", "required", "hits / k", True),
    _list("recall", "", "recall", "required", "hits / R", True),
    _list("recall", "cap", "recall_cap", "required", "hits / min(R, k)", True),
    _list("f1", "", "f1", "required", "2·hits / (k + R)", True),
    _list("hit", "", "hit", "required", "1 if there is a hit, else 0", True),
    _list("map", "R", "map_all", "optional", "Σ precision at each hit / R"),
    _list("map", "min", "map_min", "required", "Σ precision at each hit / min(R, k)"),
    _list("map", "hits", "map_hits", "optional", "Σ precision at each hit / hits"),
    _list("map", "k", "map_k", "required", "Σ precision at each hit / k"),
    _list(
        "mar",
        "mean",
        "mar_mean",
        "required",
        "Σ recall at each of the first k places of the list / k",
    ),
    _list("mar", "R", "mar_all", "optional", "Σ recall at each hit / R", True),
    _list("mar", "min", "mar_min", "required", "Σ recall at each hit / min(R, k)", True),
    _list("mrr", "", "mrr", "optional", "1 / place of the first hit, 0 without one"),
    _list("arhr", "", "arhr", "optional", "Σ 1 / place over hits"),
    _list("cg", "", "cg", "required", "Σ relevance over the first k", True),
    *(
        _list("dcg", gain, f"dcg_{gain}", "optional", f"Σ ({text}) / log2(1 + place)")
        for gain, text in _GAINS.items()
    ),
    *(
        _list("ndcg", gain, f"ndcg_{gain}", "optional", f"DCG ({text}) / DCG of all relevant items")
        for gain, text in _GAINS.items()
    ),
    *(
        _list(
            *("ndcg", f"{gain},list", f"ndcg_{gain}_list", "optional"),
            f"DCG ({text}) / DCG of the list in its best order",
        )
        for gain, text in _GAINS.items()
    ),
    _list("ndcg", "bin,k", "ndcg_bin_k", "required", "DCG (1 if relevant) / DCG of k relevant"),
    Definition(
        *("ndcg", "lin,ties", "tied", "ndcg_lin_ties", "", "optional"),
        "mean over requests of nDCG averaged over the orders of equal scores, ideal over the list",
    ),
    Definition(
        *("rprec", "", "r_precision", "rprec", "", "none"),
        "mean over requests of hits in the first R / R",
    ),
)


def _ratio(
    family: Family, name: str, variant: str, y: str, x: str, formula: str, form: Form = "ratio"
) -> Definition:
    return Definition(name, variant, family, y, x, "none", formula, form=form)


_AUC = "pairs of a click and a non-click ordered correctly by the score, ties count half"
SCORES = (
    _ratio("auc", "auc", "", "auc", "units", f"share of {_AUC}, over all impressions"),
    _ratio(
        *("pairs", "gauc", "impressions", "auc_impressions", "impressions"),
        "Σ impressions·AUC / Σ impressions over units with both classes",
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
        "Σ impressions·AUC / Σ impressions, AUC ½ for units with one class",
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
        "point",
        "log_likelihood",
        "",
        "log_likelihood",
        "",
        "Σ ln(probability of the outcome)",
        "total",
    ),
    _ratio(
        *("point", "ne", "", "log_loss", "rows"),
        "log loss / entropy of the click rate of the same rows",
        "entropy",
    ),
    _ratio("point", "rig", "", "log_loss", "rows", "1 − normalised entropy", "information"),
    _ratio("point", "q_ctr", "", "predicted", "clicks", "Σ score / Σ clicks"),
    _ratio("point", "brier", "", "squared_error", "rows", "mean (score − click)²"),
    _ratio("point", "mae", "", "absolute_residual", "rows", "mean |score − relevance|"),
    _ratio("point", "rmse", "", "squared_residual", "rows", "√ mean (score − relevance)²", "root"),
    _ratio(
        *("point", "precision", "threshold", "true_positive", "predicted_positive"),
        "clicks at or above the threshold / impressions at or above it",
    ),
    _ratio(
        *("point", "recall", "threshold", "true_positive", "clicks"),
        "clicks at or above the threshold / clicks",
    ),
    _ratio(
        *("point", "f1", "threshold", "twice_true_positive", "both_positive"),
        "2·clicks at or above the threshold / (clicks + impressions at or above it)",
    ),
    _ratio("bins", "ece", "mass", "", "", "Σ rows·|mean score − CTR| / rows over equal counts"),
    _ratio("bins", "ece", "width", "", "", "Σ rows·|mean score − CTR| / rows over equal widths"),
)


def _beyond(name: str, variant: str, column: str, formula: str) -> Definition:
    below = {"ild": "categorised_lists", "ild_vectors": "vector_lists"}.get(column, "lists")
    return Definition(
        name, variant, "beyond", column, below, "required", f"mean over lists of {formula}"
    )


def _catalogue(name: str, variant: str, column: str, formula: str) -> Definition:
    return Definition(name, variant, "catalogue", column, "", "required", formula)


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
    _beyond("ild", "category", "ild", "the share of pairs of items of different categories"),
    _beyond(
        "ild", "vectors", "ild_vectors", "1 − the mean cosine of two items' vectors (`embedding`)"
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

DEFINITIONS: Mapping[tuple[str, str], Definition] = {
    (d.name, d.variant): d for d in (*RANKING, *SCORES, *BEYOND)
}
"""Every definition by name and variant."""
