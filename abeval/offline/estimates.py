"""Make the result of a replay: every model on every traffic, and models in pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from abeval.offline.groups import ByGroup, GroupValues
from abeval.offline.groups import compare as compare_groups
from abeval.offline.inference import Columns, Value, columns_of, compare, estimate
from abeval.offline.metrics import OfflineMetric, Policy, Scoring
from abeval.offline.queried import needs_history
from abeval.offline.sums import Sums
from abeval.results.replay import (
    POOLED,
    REPLAY_SCHEMA_VERSION,
    CalibrationBin,
    PairRow,
    ReplayModel,
    ReplayResult,
    ReplayRow,
)
from abeval.stats import proportions
from abeval.stats.records import Bools, Effect

_OF_PROBABILITIES = frozenset(
    {"log_loss", "log_likelihood", "ne", "rig", "q_ctr", "brier", "ece"},
)
"""Metrics without meaning for scores outside [0, 1]."""

_LARGEST_EXPONENT = 20
"""Relevance above this has no exponential gain: one such item would dominate every sum."""


def refusal(metric: OfflineMetric, model: str, sums: Sums) -> str | None:
    """The reason why a metric has no value for a model with scores; None if it has one."""
    definition, of_model = metric.definition, sums.models[model]
    if definition.same_for_all and sums.same_lists and metric.cutoff >= sums.longest > 0:
        return "k_covers_list"
    if definition.name in _OF_PROBABILITIES and not of_model.probabilities:
        return "not_probabilities"
    if "exp" in definition.variant and sums.largest_grade > _LARGEST_EXPONENT:
        return "gain_too_large"
    if needs_history(metric) and not sums.has_history:
        return "no_history"
    if definition.family == "point" and "point_rows" not in of_model.values.columns:
        return "scores_too_large"
    return None


def left_out(
    metric: OfflineMetric, total: Callable[[str], int], policy: Policy
) -> tuple[tuple[str, int], ...]:
    """Requests, units or rows that the definition leaves out; `total` sums a column over units."""
    match metric.definition.family:
        case "list" | "r_precision" | "tied":
            counts = _left_out_requests(metric, total, policy)
        case "pairs" if metric.definition.name == "gauc" and "half" not in metric.id:
            counts = _left_out_pairs(total)
        case _:
            counts = []
    return tuple((what, count) for what, count in counts if count)


def _left_out_requests(
    metric: OfflineMetric, total: Callable[[str], int], policy: Policy
) -> list[tuple[str, int]]:
    listed = total("listed")
    dropped = policy.missing_for(metric.definition.name) == "drop"
    irrelevant = listed - total("listed_relevant") if policy.no_relevant == "drop" else 0
    return [
        ("requests_without_relevant", irrelevant),
        ("requests_without_scores", total("requests") - listed if dropped else 0),
    ]


def _left_out_pairs(total: Callable[[str], int]) -> list[tuple[str, int]]:
    return [
        ("single_class_units", total("single_class_units")),
        ("single_class_impressions", total("all_impressions") - total("impressions")),
        ("single_class_clicks", total("all_clicks") - total("gauc_clicks")),
    ]


BY_GROUP = frozenset({"bins", "catalogue"})
"""Families whose values are not sums over units: their intervals are jackknives."""


class Estimates:
    """The values of a replay, or of a part of one.

    Args:
        sums: The sums per unit.
        scoring: The metrics and their options.
    """

    def __init__(self, sums: Sums, scoring: Scoring) -> None:
        self.metrics = scoring.metrics
        self.alpha = scoring.alpha
        self._sums = sums
        self._policy = scoring.policy
        self._masks = sums.units.masks
        self._by_group = ByGroup(sums)
        self._known: dict[tuple[str, str, str], tuple[Value, float]] = {}
        self._totals: dict[tuple[str, str, str], int] = {}

    @property
    def models(self) -> list[str]:
        """The models that have any score."""
        return list(self._sums.models)

    @property
    def traffics(self) -> list[str]:
        """Each variant, and `pooled` where there are several."""
        return list(self._masks)

    def mask(self, traffic: str) -> Bools:
        """The units of a traffic."""
        return self._masks[traffic]

    def cells(self) -> Iterator[tuple[str, str, OfflineMetric]]:
        """Model, traffic and metric of every row."""
        for model in (covered.model for covered in self._sums.coverage):
            for traffic in self._masks:
                for metric in self.metrics:
                    yield model, traffic, metric

    def rows(self) -> Iterator[ReplayRow]:
        """A row per model, traffic and metric."""
        return (self._row(*cell) for cell in self.cells())

    def value(self, model: str, metric: OfflineMetric, traffic: str) -> Value:
        """A value with its interval, or the reason why there is none."""
        return self._counted(model, metric, traffic)[0]

    def columns(self, model: str, metric: OfflineMetric, traffic: str) -> Columns:
        """The variables of a metric, of all units."""
        by = "pooled" if traffic == POOLED else "traffic"
        return columns_of(metric, self._sums.models[model].values, self._policy, by)

    def groups(self, model: str, metric: OfflineMetric, traffic: str) -> GroupValues | str:
        """The value with and without each group of units; a reason where there is none."""
        return self._by_group.values(model, metric, traffic)

    def _row(self, model: str, traffic: str, metric: OfflineMetric) -> ReplayRow:
        value, counted = self._counted(model, metric, traffic)
        excluded: tuple[tuple[str, int], ...] = ()
        if model in self._sums.models:
            excluded = left_out(metric, partial(self._total, model, traffic), self._policy)
        units = int(self._masks[traffic].sum())
        return value.row((model, traffic, metric.id), units, counted, excluded)

    def _total(self, model: str, traffic: str, column: str) -> int:
        """The sum of a column over the units of a traffic, computed once."""
        key = (model, traffic, column)
        if key not in self._totals:
            values = self._sums.models[model].values[column]
            self._totals[key] = int(values[self._masks[traffic]].sum())
        return self._totals[key]

    def _counted(self, model: str, metric: OfflineMetric, traffic: str) -> tuple[Value, float]:
        """A value and its denominator, computed once: rows and pairs both read it."""
        key = (model, metric.id, traffic)
        if key not in self._known:
            self._known[key] = self._estimate(model, metric, traffic)
        return self._known[key]

    def _estimate(self, model: str, metric: OfflineMetric, traffic: str) -> tuple[Value, float]:
        if model not in self._sums.models:
            return Value(None, reason="no_scores"), 0.0
        reason = refusal(metric, model, self._sums)
        if reason is not None:
            return Value(None, reason=reason), 0.0
        mask = self._masks[traffic]
        if metric.definition.family not in BY_GROUP:
            columns = self.columns(model, metric, traffic)
            return estimate(columns, mask, self.alpha), float(columns.below[mask].sum())
        values = self.groups(model, metric, traffic)
        if isinstance(values, str):
            return Value(None, reason=values), 0.0
        return values.estimate(int(mask.sum()), self.alpha), values.counted


class Side(NamedTuple):
    """One side of a comparison: a model, over the rows of some estimates."""

    estimates: Estimates
    model: str

    def value(self, metric: OfflineMetric, traffic: str) -> Value:
        """Its value with its interval, or the reason why there is none."""
        return self.estimates.value(self.model, metric, traffic)


class Difference(NamedTuple):
    """A difference with its interval and test, or the reason why there is none."""

    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    reason: str | None

    @classmethod
    def of(cls, effect: Effect | str, difference: float | None) -> Difference:
        """From an effect, or from a reason and the difference without an interval."""
        if isinstance(effect, str):
            return cls(difference, None, None, None, effect)
        return cls(effect.difference, effect.low, effect.high, effect.p_value, None)

    def row(
        self, head: tuple[str, str, str, str, float | None, float | None], units: int
    ) -> PairRow:
        """The row of the result; `head` is control, model, traffic, metric and both values."""
        return PairRow(*head, *self[:4], units, self.reason)


def compare_sides(
    before: Side, after: Side, metric: OfflineMetric, traffic: str, reason: str | None
) -> Difference:
    """`after` minus `before` over the same units, with its interval and test.

    With a `reason`, only the difference, if both values are known, without interval and test.
    """
    effect = reason or _effect(before, after, metric, traffic)
    first, second = before.value(metric, traffic).value, after.value(metric, traffic).value
    known = None if first is None or second is None else second - first
    return Difference.of(effect, known)


def pairs(estimates: Estimates, control: str | None) -> Iterator[PairRow]:
    """Each model against the control model, at its own stage if there are stages.

    A model without scores is not compared.
    """
    models = estimates.models
    against = [(_control_of(model, control, models), model) for model in models]
    for first, second in (pair for pair in against if pair[0] != pair[1]):
        for traffic in estimates.traffics:
            for metric in estimates.metrics:
                yield _pair(Side(estimates, first), Side(estimates, second), metric, traffic)


def _pair(before: Side, after: Side, metric: OfflineMetric, traffic: str) -> PairRow:
    values = [side.value(metric, traffic) for side in (before, after)]
    # A missing value is a better reason than a missing interval.
    values_first = sorted(values, key=lambda value: value.value is not None)
    reasons = [value.why_not_compared for value in values_first]
    difference = compare_sides(before, after, metric, traffic, reasons[0] or reasons[1])
    head = (before.model, after.model, traffic, metric.id, values[0].value, values[1].value)
    return difference.row(head, int(before.estimates.mask(traffic).sum()))


def _effect(before: Side, after: Side, metric: OfflineMetric, traffic: str) -> Effect | str:
    sides = (before, after)
    mask, alpha = before.estimates.mask(traffic), before.estimates.alpha
    if metric.definition.family not in BY_GROUP:
        first, second = (s.estimates.columns(s.model, metric, traffic) for s in sides)
        return compare(first, second, mask, alpha)
    found = [s.estimates.groups(s.model, metric, traffic) for s in sides]
    known = [g for g in found if isinstance(g, GroupValues)]
    if len(known) < len(found) or known[0].without.size != known[1].without.size:
        return "no_lists"
    values, without = [g.value for g in known], [g.without for g in known]
    return compare_groups(values, without, int(mask.sum()), alpha)


def _control_of(model: str, control: str | None, models: Sequence[str]) -> str:
    """What a model is compared with: control at its own stage, else control, else the first."""
    same_stage = f"{model.rpartition('/')[0]}/{control}"
    return next((name for name in (same_stage, control) if name in models), models[0]) or models[0]


def result_of(
    sums: Sums,
    scoring: Scoring,
    *,
    name: str,
    models: Sequence[ReplayModel],
    control: str | None,
    accounting: Sequence[tuple[str, int]],
    notes: Sequence[str] = (),
) -> ReplayResult:
    """The result of a replay.

    Args:
        sums: The sums per unit.
        scoring: The metrics and their options.
        name: Of the experiment.
        models: The models that were replayed.
        control: The model that the others are compared with.
        accounting: What was left out or merged before the models were replayed.
        notes: What a reader must know.
    """
    estimates = Estimates(sums, scoring)
    return ReplayResult(
        schema_version=REPLAY_SCHEMA_VERSION,
        name=name,
        alpha=scoring.alpha,
        models=tuple(models),
        definitions=tuple((m.id, m.definition.formula) for m in scoring.metrics),
        policy=tuple(_policy(scoring.policy)),
        rows=tuple(estimates.rows()),
        pairs=tuple(pairs(estimates, control)),
        coverage=sums.coverage,
        accounting=(*accounting, ("requests_only_some_models_score", sums.uncompared)),
        calibration=tuple(_calibration(sums, scoring.alpha)),
        notes=(*notes, *_notes(sums)),
    )


def _notes(sums: Sums) -> Iterator[str]:
    """Notes about unusual scores."""
    if sums.uncompared:
        yield (
            "models are compared over the requests that all of them score: "
            f"{sums.uncompared:,} that only some score are left out"
        )
    for covered in sums.coverage:
        model = sums.models.get(covered.model)
        if model is None:
            yield f"{covered.model} has no usable score and is not compared"
        elif model.low == model.high:
            yield (
                f"every score of {covered.model} is {model.low:g}: its items are ordered by the "
                "tie rule only"
            )


def _policy(policy: Policy) -> Iterator[tuple[str, str]]:
    yield "ties", policy.ties
    yield "no_relevant", policy.no_relevant
    yield "missing", policy.missing
    if policy.missing_in_ndcg:
        yield "missing_in_ndcg", policy.missing_in_ndcg


def _calibration(sums: Sums, alpha: float) -> Iterator[CalibrationBin]:
    for model, of_model in sums.models.items():
        if of_model.curve is None:
            continue
        keys = ["traffic", "kind", "bin"]
        curve = of_model.curve.groupby(keys, as_index=False)[["rows", "clicks", "predicted"]].sum()
        for row in curve.to_dict("records"):
            rows, clicks = int(row["rows"]), int(row["clicks"])
            yield CalibrationBin(
                *(model, str(row["traffic"]), str(row["kind"]), int(row["bin"]), rows),
                *(clicks, float(row["predicted"]) / rows),
                *proportions.interval(proportions.Count(clicks, rows), alpha),
            )
