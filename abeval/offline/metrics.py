"""Define the offline metrics, and the presets of other libraries.

An id carries its definition: `map@10[min]`, `gauc[impressions]`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypedDict, get_args

from abeval.bounds import (
    MAX_BINS,
    MAX_CURVE,
    MAX_VALUE,
    MIN_ALPHA,
    check_between,
)
from abeval.errors import ExperimentError
from abeval.offline.expressions import Expression, read_cutoffs, read_parts
from abeval.packaged import load_toml_next_to

Family = Literal[
    "list", "tied", "cascade", "bpref", "judged", "pairs", "auc", "point", "regression",
    "predicted", "bins", "beyond", "catalogue",
]  # fmt: skip
_Cut = Literal["required", "optional", "none"]
Form = Literal["ratio", "root", "total", "entropy", "information", "explained"]

# Above MAX_CUTOFF, so that no cut-off of a user is the same number.
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
        same: Whether the metric ignores the order of a list once k covers it.
        form: What is computed of the sums over units: their ratio, its square root, the numerator
            only, the ratio over the entropy of the click rate, or one minus that, or the share of
            the spread of relevance that errors leave.
        on_request: Whether it is computed only where it is named.
    """

    name: str
    variant: str
    family: Family
    cut: _Cut
    above: str
    below: str
    formula: str
    same: bool = False
    form: Form = "ratio"
    on_request: bool = False

    @property
    def is_request_mean(self) -> bool:
        """Return whether it is a mean over requests."""
        return self.family in _OF_REQUESTS

    @property
    def column(self) -> str:
        """Join name and variant to one word: `ndcg_lin_list`."""
        return re.sub(r"\W", "_", f"{self.name}_{self.variant}" if self.variant else self.name)


class OfflineMetric(NamedTuple):
    """A definition with its cut-off `k`, which is None for the whole list.

    A cut-off of its own for each request has a name, and a negative number in place of `k`.

    Example:
        >>> metric = OfflineMetric(DEFINITIONS["map", "min"], 10)
        >>> metric.id, metric.k, metric.definition.formula
        ('map@10[min]', 10, 'mean over requests of Σ precision at each hit / min(R, k)')
    """

    definition: Definition
    k: int | None = None
    cutoff_name: str = ""

    @property
    def id(self) -> str:
        """Join name, cut-off and variant."""
        cut = "" if self.k is None else f"@{self.cutoff_name or self.k}"
        variant = f"[{self.definition.variant}]" if self.definition.variant else ""
        return f"{self.definition.name}{cut}{variant}"

    @property
    def cutoff(self) -> int:
        """Return the cut-off as a number: `UNCUT` for the whole list."""
        return UNCUT if self.k is None else self.k


_ROW = re.compile(r"(\w+)(@k\??)?(?:\[(.+)\])?")
_CUTS: Mapping[str | None, _Cut] = {"@k": "required", "@k?": "optional", None: "none"}
_OF_REQUESTS = ("list", "tied", "cascade", "bpref")
_MEANS = dict.fromkeys(_OF_REQUESTS, "mean over requests of ")
_MEANS |= dict.fromkeys(("beyond", "judged"), "mean over lists of ")


def _make_definition(
    pattern: str,
    family: Family,
    formula: str,
    sums: str = "",
    **entries: Any,  # noqa: ANN401
) -> Definition:
    """Make a definition of a row of `metrics.toml`."""
    match = _ROW.fullmatch(pattern)
    name, cut, variant = match.groups() if match else (pattern, None, None)
    above, _, below = sums.partition(" / ")
    text = _MEANS.get(family, "") + formula
    return Definition(name, variant or "", family, _CUTS[cut], above, below, text, **entries)


_TABLE = load_toml_next_to(__file__, "metrics.toml")

RANKING = tuple(_make_definition(pattern, **entry) for pattern, entry in _TABLE["ranking"].items())
_SCORES = tuple(_make_definition(pattern, **entry) for pattern, entry in _TABLE["scores"].items())
_BEYOND = tuple(_make_definition(pattern, **entry) for pattern, entry in _TABLE["beyond"].items())
"""Metrics of lists, of scores, and of what lists hold."""

DEFINITIONS: Mapping[tuple[str, str], Definition] = {
    (d.name, d.variant): d for d in (*RANKING, *_SCORES, *_BEYOND)
}
"""Every definition by name and variant."""

HISTORY = frozenset({"self_information", "miuf", "popularity", "serendipity"})
"""What only earlier choices tell (`above`)."""

GRADED = frozenset({"concordant", "won_graded"})
"""Sums of FCP (`above`): pairs of unequal relevance, whatever its levels."""

_LESS_IS_BETTER = frozenset(
    {"log_loss", "ne", "brier", "mae", "mse", "rmse", "mape", "ece", "gini", "popularity"}
)


def find_direction(metric: str) -> str:
    """Return the good direction of a metric, written as that of an online one.

    Example:
        >>> find_direction("ndcg@10[lin]"), find_direction("ece[mass]"), find_direction("q_ctr")
        ('increase', 'decrease', 'toward 1')
    """
    name = re.split(r"[@[]", metric)[0]
    if name == "q_ctr":
        return "toward 1"
    return "decrease" if name in _LESS_IS_BETTER else "increase"


# Nine digits are all that MAX_CUTOFF has; a word is the name of a cut-off.
_ID = re.compile(r"^([a-z_0-9]+?)(?:@([1-9][0-9]{0,8}|[A-Za-z_]\w*))?(?:\[([A-Za-z_,0-9.]+)\])?$")

_LIBRARIES = ("bin", "bin,list", "bin,k", "lin,ties")
"""Variants that only the numbers of some library need."""

_ON_REQUEST = ("threshold", "vectors")
"""Variants that need an option or a column."""


def parse_metric(text: str, cutoffs: Sequence[Expression] = ()) -> OfflineMetric:
    """Return the metric of an id, which may have one of named cut-offs.

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
    definitions = [d for d in DEFINITIONS.values() if d.name == name]
    if not definitions:
        from abeval.experiment.problems import suggest_name

        names = dict.fromkeys(d.name for d in DEFINITIONS.values())
        raise ExperimentError(f"no offline metric is called {text!r}{suggest_name(name, names)}")
    cut, word = _parse_cutoff(text, k, cutoffs)
    definition = DEFINITIONS.get((name, variant or ""))
    if definition is None:
        lacks = f"{text!r}: there is no definition [{variant}]"
        what = f"{text!r} has several definitions: choose one" if variant is None else lacks
        raise ExperimentError(
            what, f"one of {', '.join(OfflineMetric(d, cut, word).id for d in definitions)}"
        )
    if (definition.cut == "none" and k) or (definition.cut == "required" and k is None):
        problem = "needs a cut-off, such as @10" if k is None else "has no cut-off"
        raise ExperimentError(f"{text!r}: {name} {problem}")
    if word and definition.family == "catalogue":
        what = f"{text!r}: {name} is of all lists together, which need one cut-off"
        raise ExperimentError(what, f"a number, such as {OfflineMetric(definition, 10).id}")
    return OfflineMetric(definition, cut, word)


def _parse_cutoff(
    text: str, k: str | None, cutoffs: Sequence[Expression]
) -> tuple[int | None, str]:
    """Return the number of a cut-off, negative for one with a name, and this name."""
    if k is None or k.isdecimal():
        return None if k is None else int(k), ""
    names = [expression.name for expression in cutoffs]
    if k not in names:
        what = f"{text!r}: no cut-off is called {k!r}"
        raise ExperimentError(what, f'a number, or name one: k = ["{k}: EXPRESSION"]')
    return -1 - names.index(k), k


def parse_metrics(
    texts: Iterable[str], cutoffs: Sequence[Expression] = ()
) -> tuple[OfflineMetric, ...]:
    """Return the metrics of some ids, each once."""
    return tuple(dict.fromkeys(parse_metric(text, cutoffs) for text in texts))


def list_default_metrics(
    ks: Sequence[int], cutoffs: Sequence[Expression] = ()
) -> tuple[OfflineMetric, ...]:
    """Return the default metrics.

    They are those with a cut-off, at each of `ks`, and those of scores.

    Example:
        >>> [m.id for m in list_default_metrics([5])][:4]
        ['precision@5', 'recall@5', 'recall@5[cap]', 'f1@5']
    """
    ranking, scores, beyond = (
        [d for d in every if not d.on_request and d.variant not in _ON_REQUEST]
        for every in (RANKING, _SCORES, _BEYOND)
    )
    cut = [d for d in ranking if d.cut != "none" and d.variant not in _LIBRARIES]
    at = [(k, "") for k in ks]
    at += [(-1 - i, cutoff.name) for i, cutoff in enumerate(cutoffs)]
    at_k = [OfflineMetric(d, *k) for k in at for d in cut]
    uncut = [OfflineMetric(d) for d in scores]
    # Metrics of all lists together need one cut-off for all, so they have none with a name.
    lists = [OfflineMetric(d, *k) for k in at for d in beyond if d.family == "beyond" or not k[1]]
    return (*at_k, *uncut, *lists)


Ties = Literal["item", "text", "position"]
_NoRelevant = Literal["drop", "zero", "one"]
_Missing = Literal["drop", "zero"]
Unjudged = Literal["zero", "drop"]


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
        unjudged: Items of a list that nobody judged are not relevant, as without it (`zero`), or
            leave the list (`drop`): condensed lists (Sakai 2007).
    """

    ties: Ties = "item"
    no_relevant: _NoRelevant = "drop"
    missing: _Missing = "drop"
    missing_in_ndcg: _Missing | None = None
    unjudged: Unjudged | None = None

    def missing_for(self, name: str) -> _Missing:
        """Return how the metric `name` treats requests without a score.

        Example:
            >>> Policy(missing="drop", missing_in_ndcg="zero").missing_for("ndcg")
            'zero'
        """
        return self.missing_in_ndcg or self.missing if name == "ndcg" else self.missing


@dataclass(frozen=True)
class Scoring:
    """Say which metrics a run computes, and how.

    `parts` are parts of the rows, which are computed besides the whole.

    `curve` has metrics at every cut-off, `cutoffs` those that each request has of its own. Scores
    from `threshold` on predict a click; it is None without metrics that need it.
    """

    metrics: tuple[OfflineMetric, ...]
    policy: Policy
    alpha: float = 0.05
    threshold: float | None = None
    bins: int = 10
    parts: tuple[Expression, ...] = ()
    curve: tuple[OfflineMetric, ...] = ()
    cutoffs: tuple[Expression, ...] = ()

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
        k: Cut-offs of metrics such as `ndcg@k[lin]`, from 1; without, 1, 5 and 10. A text
            `viewport: case when device = 'phone' then 5 else 10 end` is a cut-off of its own for
            each request, of `ndcg@viewport[lin]`.
        metrics: Ids of metrics to compute, such as `ndcg@10[exp]`; without, the default ones.
        compat: Library whose metrics and policies to use: `trec`, `ranx`, `rectools`,
            `recommenders`, `sklearn` or `xgboost`; without, abeval's own.
        ties: Which of two equal scores ranks higher: the larger item id (`item`; as text, `text`)
            or the one shown first (`position`); without, that of `compat`, or `item`.
        no_relevant: Requests without a relevant item are left out (`drop`), or count as zero
            (`zero`) or one (`one`, nDCG and MAP only); without, that of `compat`, or `drop`.
        threshold: Scores from here on predict a click; needed by metrics at a threshold.
        bins: Bins of the calibration curve and of the calibration error, from 1; without, 10.
        curve: Compute metrics at each k from 1 to this; without, no curves.
        where: Name → expression: the same metrics of the rows for which it is true, beside the
            whole, such as `{"random": "is_random = 1"}`.
    """

    k: Sequence[int | str]
    metrics: Sequence[str] | None
    compat: str | None
    ties: Ties | None
    no_relevant: _NoRelevant | None
    threshold: float | None
    bins: int
    curve: int | None
    where: Mapping[str, str] | None


def check_keywords(names: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse a keyword that there is not, as Python does.

    Example:
        >>> check_keywords(["metric"], EvaluationOptions.__annotations__)
        Traceback (most recent call last):
        TypeError: unexpected keyword argument 'metric'; did you mean `metrics`?
    """
    for name in names:
        if name not in allowed:
            from abeval.experiment.problems import suggest_name

            raise TypeError(f"unexpected keyword argument {name!r}{suggest_name(name, allowed)}")


class Preset(NamedTuple):
    """A library's policy, and its metrics by their ids here.

    `at_k` has `{}` for the cut-off.
    """

    at_k: str
    uncut: str
    policy: Policy

    def metrics(
        self, ks: Sequence[int], cutoffs: Sequence[Expression] = ()
    ) -> tuple[OfflineMetric, ...]:
        """Return the metrics at the cut-offs `ks`, and at named ones."""
        at = [*ks, *(expression.name for expression in cutoffs)]
        at_k = [text.format(k) for k in at for text in self.at_k.split()]
        return parse_metrics([*at_k, *self.uncut.split()], cutoffs)


PRESETS: Mapping[str, Preset] = {
    name: Preset(entry["at_k"], entry.get("whole", ""), Policy(**entry["policy"]))
    for name, entry in _TABLE["presets"].items()
}
"""Library → its metrics and policy."""


def choose_scoring(
    options: EvaluationOptions, alpha: float = 0.05, unjudged: Unjudged | None = None
) -> Scoring:
    """Return the metrics and the policy that options ask for.

    Intervals are at level `alpha`.

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
    numbers, cutoffs = read_cutoffs(ks)
    if compat is None:
        metrics, policy = list_default_metrics(numbers, cutoffs), Policy()
    elif compat in PRESETS:
        metrics, policy = PRESETS[compat].metrics(numbers, cutoffs), PRESETS[compat].policy
    else:
        from abeval.experiment.problems import suggest_name

        what = f"no preset is called {compat!r}{suggest_name(compat, PRESETS)}"
        raise ExperimentError(what, f"one of {', '.join(PRESETS)}")
    requested = (options.get("ties"), options.get("no_relevant"), unjudged)
    names_of = {"ties": Ties, "no_relevant": _NoRelevant, "unjudged": Unjudged}
    for value, (option, choices) in zip(requested, names_of.items(), strict=True):
        if value is not None and value not in get_args(choices):
            raise ExperimentError(f"{option}: {value!r} is none of {', '.join(get_args(choices))}")
    policy = replace(
        policy,
        ties=options.get("ties") or policy.ties,
        no_relevant=options.get("no_relevant") or policy.no_relevant,
        unjudged=unjudged,
    )
    chosen = parse_metrics(names, cutoffs) if names else metrics
    return Scoring(
        chosen,
        policy,
        alpha,
        options.get("threshold"),
        options.get("bins", 10),
        read_parts(options.get("where")),
        _list_curve_metrics(names, options.get("curve"), cutoffs),
        cutoffs,
    )


# The cut-off of these is not read: a curve has all of them.
_CURVES = ("precision@1", "recall@1", "map@1[min]", "ndcg@1[lin]")


def _list_curve_metrics(
    names: Sequence[str] | None, longest: int | None, cutoffs: Sequence[Expression] = ()
) -> tuple[OfflineMetric, ...]:
    """Return metrics of requests at every cut-off.

    They are those among `names`, or the default ones.

    Example:
        >>> [m.id for m in _list_curve_metrics(["recall@10", "auc"], 3)]
        ['recall@1', 'recall@2', 'recall@3']
    """
    if longest is None:
        return ()
    check_between("curve", longest, 1, MAX_CURVE)
    # ndcg@5[lin] and ndcg@10[lin] have the same curve.
    definitions = dict.fromkeys(m.definition for m in parse_metrics(names or _CURVES, cutoffs))
    cut = [d for d in definitions if d.family == "list" and d.cut != "none"]
    if not cut:
        what = "no metric has a cut-off k, so there is no curve"
        raise ExperimentError(what, "name one, such as ndcg@10[lin], or name no metric")
    return tuple(OfflineMetric(d, k) for d in cut for k in range(1, longest + 1))
