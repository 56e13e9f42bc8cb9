"""Define the offline metrics: formulas, ids, what each sums, and the presets of other libraries.

An id carries its definition: `map@10[min]`, `gauc[impressions]`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal, NamedTuple, TypedDict, get_args

from abeval.bounds import MAX_BINS, MAX_CUTOFF, MAX_VALUE, MIN_ALPHA, check_between
from abeval.errors import ExperimentError
from abeval.packaged import table_beside

Family = Literal[
    "list", "tied", "pairs", "auc", "point", "predicted", "bins", "beyond", "catalogue"
]
Cut = Literal["required", "optional", "none"]
Form = Literal["ratio", "root", "total", "entropy", "information"]

UNCUT = 1_000_000_000
"""The cut-off that stands for the whole list."""


class Definition(NamedTuple):
    """A metric without its cut-off.

    Attributes:
        family: How its values are computed: by which queries, and which estimate.
        above: What it sums: of a request (family `list`, a column of `list_values.sql`), or of a
            unit (a column of the family's query).
        below: What that is divided by, of the same; of a request, the product of these columns
            (`fine` says that `above` counts multiples of 1e-12).
        same: Whether every order of a list has the same value once k covers the list.
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
    same: bool = False
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


def _row(pattern: str, family: Family, formula: str, sums: str = "", **own: Any) -> Definition:  # noqa: ANN401
    """Make a definition of a row of `metrics.toml`."""
    match = _ROW.fullmatch(pattern)
    name, cut, variant = match.groups() if match else (pattern, None, None)
    above, _, below = sums.partition(" / ")
    text = _MEANS.get(family, "") + formula
    return Definition(name, variant or "", family, _CUTS[cut], above, below, text, **own)


_TABLE = table_beside(__file__, "metrics.toml")

RANKING = tuple(_row(pattern, **own) for pattern, own in _TABLE["ranking"].items())
SCORES = tuple(_row(pattern, **own) for pattern, own in _TABLE["scores"].items())
BEYOND = tuple(_row(pattern, **own) for pattern, own in _TABLE["beyond"].items())
"""Metrics of lists, of scores, and of what lists hold."""

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

_NAMED = ("predicted",)
"""Families that only who names a metric gets: most logs have a score for every row."""


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
    match = _ID.match(text) if isinstance(text, str) else None
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
    of_scores = (d for d in SCORES if d.variant not in _ON_REQUEST and d.family not in _NAMED)
    whole = [OfflineMetric(d) for d in of_scores]
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

    def __post_init__(self) -> None:
        check_between("alpha", self.alpha, MIN_ALPHA, 1 - MIN_ALPHA)
        check_between("bins", self.bins, 1, MAX_BINS)
        if self.threshold is not None:
            check_between("threshold", self.threshold, -MAX_VALUE, MAX_VALUE)


CUTS = (1, 5, 10)
"""Cut-offs, unless others are named."""


class EvaluationOptions(TypedDict, total=False):
    """Keywords of `evaluate` and `evaluate_log`; a replay has them too.

    Attributes:
        k: Cut-offs of metrics such as `ndcg@k[lin]`, from 1; without, 1, 5 and 10.
        metrics: Ids of metrics to compute, such as `ndcg@10[exp]`; without, the default ones.
        compat: Library whose metrics and policies to use: `trec`, `ranx`, `rectools`,
            `recommenders`, `sklearn` or `xgboost`; without, abeval's own.
        ties: Which of two equal scores ranks higher: the larger item id (`item`; as text, `text`)
            or the one shown first (`position`); without, that of `compat`, or `item`.
        no_relevant: Requests without a relevant item are left out (`drop`), or count as zero
            (`zero`) or one (`one`, nDCG and MAP only); without, that of `compat`, or `drop`.
        threshold: Scores from here on predict a click; needed by metrics at a threshold.
        bins: Bins of the calibration curve and of the calibration error, from 1; without, 10.
    """

    k: Sequence[int]
    metrics: Sequence[str] | None
    compat: str | None
    ties: Ties | None
    no_relevant: NoRelevant | None
    threshold: float | None
    bins: int


def check_keywords(names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a keyword that there is not, as Python does.

    Example:
        >>> check_keywords(["metric"], EvaluationOptions.__annotations__)
        Traceback (most recent call last):
        TypeError: unexpected keyword argument 'metric'; did you mean `metrics`?
    """
    for name in names:
        if name not in known:
            from abeval.experiment.problems import suggestion

            raise TypeError(f"unexpected keyword argument {name!r}{suggestion(name, known)}")


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
    name: Preset(own["at_k"], own.get("whole", ""), Policy(**own["policy"]))
    for name, own in _TABLE["presets"].items()
}
"""Library → its metrics and policy."""


def choose_scoring(options: EvaluationOptions, alpha: float = 0.05) -> Scoring:
    """Return the metrics and the policy that options ask for, with intervals at level `alpha`.

    They are those of the library `compat`, or the default ones, unless metrics are named; `ties`
    and `no_relevant` override its policy.

    Raises:
        ExperimentError: An unknown library or metric, or a cut-off below 1.

    Example:
        >>> scoring = choose_scoring({"compat": "xgboost", "k": [3]})
        >>> [m.id for m in scoring.metrics], scoring.policy.no_relevant
        (['precision@3', 'map@3[min]', 'ndcg@3[exp]', 'ndcg[exp]'], 'one')
    """
    ks, compat, names = options.get("k", CUTS), options.get("compat"), options.get("metrics")
    are_numbers = isinstance(ks, Iterable) and all(isinstance(k, Integral) for k in ks)
    if not are_numbers or not ks or not all(1 <= k <= MAX_CUTOFF for k in ks):
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
    for option, choices in (("ties", Ties), ("no_relevant", NoRelevant)):
        value = options.get(option)
        if value is not None and value not in get_args(choices):
            raise ExperimentError(f"{option}: {value!r} is none of {', '.join(get_args(choices))}")
    policy = replace(
        policy,
        ties=options.get("ties") or policy.ties,
        no_relevant=options.get("no_relevant") or policy.no_relevant,
    )
    chosen = metrics_of(names) if names else metrics
    return Scoring(chosen, policy, alpha, options.get("threshold"), options.get("bins", 10))
