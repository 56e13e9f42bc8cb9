"""The sums of a replay → its result: every model on every traffic, and models in pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.offline import jackknife
from abeval.offline.beyond import Listed, needs_history
from abeval.offline.definitions import OfflineMetric
from abeval.offline.inference import Columns, Found, columns_of, compare, estimate
from abeval.offline.models import ReplayModel
from abeval.offline.presets import Policy
from abeval.offline.result import (
    POOLED,
    REPLAY_SCHEMA_VERSION,
    CalibrationBin,
    PairRow,
    ReplayResult,
    ReplayRow,
)
from abeval.offline.run import ModelSums, Sums
from abeval.offline.scores import Bins
from abeval.offline.units import Floats, UnitValues
from abeval.stats.records import Effect

Masks = dict[str, NDArray[np.bool_]]

_OF_PROBABILITIES = frozenset(
    {"log_loss", "log_likelihood", "ne", "rig", "q_ctr", "brier", "ece"},
)
"""Metrics that mean nothing of scores outside [0, 1]."""

_LARGEST_EXPONENT = 20
"""Relevance above this has no exponential gain: one such item would be all there is."""

_LEFT_OUT_PAIRS = ("single_class_units", "single_class_impressions", "single_class_clicks")


_LARGEST_BIAS = 0.25
"""Share of its standard error by which a calibration error may be too large."""


class Groups(NamedTuple):
    """A value, and what it is without each group of units."""

    value: float
    without: Floats
    bias: float
    counted: float


class Judge:
    """Makes the rows of a result.

    Args:
        sums: What the queries brought back.
        metrics: In the order of the result.
        policy: Which requests count.
        alpha: Level of the intervals.
        same_lists: Whether all models order the same items of a request.
    """

    def __init__(
        self,
        sums: Sums,
        metrics: Sequence[OfflineMetric],
        policy: Policy,
        alpha: float,
        same_lists: bool,
    ) -> None:
        self._sums = sums
        self._metrics = metrics
        self._policy = policy
        self._alpha = alpha
        self._same_lists = same_lists
        self._masks = _masks(sums.traffic)
        self._known: dict[tuple[str, str, str], tuple[Found, float]] = {}
        self._groups: dict[tuple[str, str, str], Groups | str] = {}
        self._held: dict[tuple[str, int, str], Listed] = {}

    @property
    def models(self) -> list[str]:
        """Those with any score."""
        return list(self._sums.models)

    @property
    def traffics(self) -> list[str]:
        """Each variant's, and all."""
        return list(self._masks)

    def mask(self, traffic: str) -> NDArray[np.bool_]:
        """Which units a traffic has."""
        return self._masks[traffic]

    def cells(self) -> Iterator[tuple[str, str, OfflineMetric]]:
        """Model, traffic and metric of every row."""
        for model in (covered.model for covered in self._sums.coverage):
            for traffic in self._masks:
                for metric in self._metrics:
                    yield model, traffic, metric

    def rows(self) -> Iterator[ReplayRow]:
        """Every model, traffic and metric."""
        for model, traffic, metric in self.cells():
            yield self._row(model, traffic, metric, self._masks[traffic])

    def found(self, model: str, metric: OfflineMetric, traffic: str) -> Found:
        """A value with its interval, or why there is none."""
        if model not in self._sums.models:
            return Found(None, reason="no_scores")
        return self._found(model, metric, traffic, self._masks[traffic])[0]

    def columns(self, model: str, metric: OfflineMetric, traffic: str) -> Columns:
        """The variables of a metric per unit, of all units."""
        return self._columns(self._sums.models[model], metric, traffic)

    def pairs(self, control: str | None) -> Iterator[PairRow]:
        """The control model, at the same stage if there are any, against each other.

        A model without scores is not compared.
        """
        models = list(self._sums.models)
        against = [(_control_of(model, control, models), model) for model in models]
        for first, second in (pair for pair in against if pair[0] != pair[1]):
            for traffic, mask in self._masks.items():
                for metric in self._metrics:
                    yield self._pair(first, second, traffic, metric, mask)

    def _row(
        self, model: str, traffic: str, metric: OfflineMetric, mask: NDArray[np.bool_]
    ) -> ReplayRow:
        sums = self._sums.models.get(model)
        found, counted = Found(None, reason="no_scores"), 0.0
        left_out: tuple[tuple[str, int], ...] = ()
        if sums is not None:
            found, counted = self._found(model, metric, traffic, mask)
            left_out = _left_out(metric, sums.values, mask, self._policy)
        return ReplayRow(
            *(model, traffic, metric.id, found.value, found.low, found.high, int(mask.sum())),
            *(counted, left_out, found.reason),
        )

    def _found(
        self, model: str, metric: OfflineMetric, traffic: str, mask: NDArray[np.bool_]
    ) -> tuple[Found, float]:
        """A value, worked out once: rows and pairs both ask for it."""
        key = (model, metric.id, traffic)
        if key not in self._known:
            self._known[key] = self._made(model, metric, traffic, mask)
        return self._known[key]

    def _made(
        self, model: str, metric: OfflineMetric, traffic: str, mask: NDArray[np.bool_]
    ) -> tuple[Found, float]:
        sums = self._sums.models[model]
        reason = self._refused(metric, sums)
        if reason is not None:
            return Found(None, reason=reason), 0.0
        if metric.definition.family in ("bins", "catalogue"):
            return self._of_groups(model, metric, traffic, mask)
        columns = self._columns(sums, metric, traffic)
        return estimate(columns, mask, self._alpha), float(columns.below[mask].sum())

    def _pair(
        self,
        first: str,
        second: str,
        traffic: str,
        metric: OfflineMetric,
        mask: NDArray[np.bool_],
    ) -> PairRow:
        values = [self._found(name, metric, traffic, mask)[0] for name in (first, second)]
        reasons = [found.reason for found in sorted(values, key=lambda f: f.value is not None)]
        reason = reasons[0] or reasons[1]
        head = (first, second, traffic, metric.id, values[0].value, values[1].value)
        units = int(mask.sum())
        if reason is not None:
            return PairRow(*head, _difference(values), None, None, None, units, reason)
        effect = compared(Side(self, first), Side(self, second), metric, traffic, self._alpha)
        if isinstance(effect, str):
            return PairRow(*head, _difference(values), None, None, None, units, effect)
        found = (effect.difference, effect.low, effect.high, effect.p_value)
        return PairRow(*head, *found, units, None)

    def _of_groups(
        self, model: str, metric: OfflineMetric, traffic: str, mask: NDArray[np.bool_]
    ) -> tuple[Found, float]:
        """A value of a whole traffic, its interval by leaving out groups of units."""
        known = self.groups(model, metric, traffic)
        if isinstance(known, str):
            return Found(None, reason=known), 0.0
        found = jackknife.estimate(known.value, known.without, int(mask.sum()), self._alpha)
        if known.bias > _LARGEST_BIAS * jackknife.standard_error(known.without):
            found = Found(known.value, reason="biased_by_noise")
        return found, known.counted

    def groups(self, model: str, metric: OfflineMetric, traffic: str) -> Groups | str:
        """The value with and without each group of units; a reason where there is none."""
        key, mask = (model, metric.id, traffic), self._masks[traffic]
        if key not in self._groups:
            by = self._bins if metric.definition.family == "bins" else self._lists
            self._groups[key] = (
                "not_pooled" if traffic == POOLED else by(model, metric, traffic, mask)
            )
        return self._groups[key]

    def _bins(
        self, model: str, metric: OfflineMetric, traffic: str, mask: NDArray[np.bool_]
    ) -> Groups | str:
        curve, kind = self._sums.models[model].curve, metric.definition.variant
        if curve is None:
            return "no_scores"
        rows = curve[(curve["kind"] == kind) & (curve["traffic"] == traffic)]
        if rows.empty:
            return "no_scores"
        bins = Bins.of(rows, jackknife.UNIT_GROUPS)
        groups = jackknife.used(self._sums.group[mask])
        groups = groups[bins.rows.sum() > bins.rows[groups]]
        bias = bins.bias(groups) if groups.size > 1 else 0.0
        return Groups(bins.error(), bins.errors_without(groups), bias, float(bins.rows.sum()))

    def _lists(
        self, model: str, metric: OfflineMetric, traffic: str, mask: NDArray[np.bool_]
    ) -> Groups | str:
        listed = self._listed(model, metric.cutoff, traffic, mask)
        whole = None if listed is None else listed.whole().values(metric.definition.numerator)
        if listed is None or whole is None:
            return "no_lists"
        groups = jackknife.used(self._sums.group[mask])
        left = listed.without(groups).values(metric.definition.numerator)
        without = np.zeros(0) if left is None else left
        return Groups(float(whole[0]), without, 0.0, float(listed.total.sum()))

    def _listed(self, model: str, k: int, traffic: str, mask: NDArray[np.bool_]) -> Listed | None:
        key = (model, k, traffic)
        if key not in self._held:
            sums = self._sums.models[model]
            if sums.listed is None:
                return None
            where = (sums.listed["traffic"] == traffic) & (sums.listed["k"] == k)
            group, lists = self._sums.group[mask], sums.values["listed"][mask]
            size = jackknife.UNIT_GROUPS
            total = np.bincount(group, weights=lists, minlength=size).astype(np.float64)
            units = np.bincount(group, weights=lists > 0, minlength=size).astype(np.float64)
            equal = min(
                int((sums.values["listed"][other] > 0).sum()) for other in self._masks.values()
            )
            held = Listed.of(sums.listed[where], total, units, equal, self._sums.catalogue)
            self._held[key] = held
        return self._held[key]

    def _columns(self, sums: ModelSums, metric: OfflineMetric, traffic: str) -> Columns:
        by = "pooled" if traffic == POOLED else "traffic"
        return columns_of(metric, sums.values, self._policy, by)

    def _refused(self, metric: OfflineMetric, sums: ModelSums) -> str | None:
        definition = metric.definition
        if definition.same_for_all and self._same_lists and metric.cutoff >= self._sums.longest > 0:
            return "k_covers_list"
        if definition.name in _OF_PROBABILITIES and not sums.probabilities:
            return "not_probabilities"
        if "exp" in definition.variant and self._sums.largest_grade > _LARGEST_EXPONENT:
            return "gain_too_large"
        if needs_history(metric) and not self._sums.has_history:
            return "no_history"
        if definition.family == "point" and "point_rows" not in sums.values.columns:
            return "scores_too_large"
        return None


class Side(NamedTuple):
    """One side of a comparison: a model, over the rows of a judge."""

    judge: Judge
    model: str


def compared(
    before: Side, after: Side, metric: OfflineMetric, traffic: str, alpha: float
) -> Effect | str:
    """Two sides over the same units, in pairs; a reason where they cannot be compared."""
    sides = (before, after)
    mask = before.judge.mask(traffic)
    if metric.definition.family not in ("bins", "catalogue"):
        first, second = (side.judge.columns(side.model, metric, traffic) for side in sides)
        return compare(first, second, mask, alpha)
    groups = [side.judge.groups(side.model, metric, traffic) for side in sides]
    known = [g for g in groups if isinstance(g, Groups)]
    if len(known) < len(groups) or known[0].without.size != known[1].without.size:
        return "no_lists"
    values, without = [g.value for g in known], [g.without for g in known]
    return jackknife.compare(values, without, int(mask.sum()), alpha)


def _difference(values: Sequence[Found]) -> float | None:
    before, after = values[0].value, values[1].value
    return None if before is None or after is None else after - before


def _control_of(model: str, control: str | None, models: Sequence[str]) -> str:
    """What a model is compared with: control at its own stage, else control, else the first."""
    same_stage = f"{model.rpartition('/')[0]}/{control}"
    return next((name for name in (same_stage, control) if name in models), models[0]) or models[0]


def _masks(traffic: NDArray[np.str_]) -> Masks:
    """The units of each traffic, and of all where there are several."""
    names = sorted(set(traffic.tolist()))
    every = {POOLED: np.ones(len(traffic), dtype=np.bool_)} if len(names) > 1 else {}
    return {name: traffic == name for name in names} | every


def _left_out(
    metric: OfflineMetric, values: UnitValues, mask: NDArray[np.bool_], policy: Policy
) -> tuple[tuple[str, int], ...]:
    """What the definition does not count, counted."""

    def total(name: str) -> int:
        return int(values[name][mask].sum())

    match metric.definition.family:
        case "list" | "r_precision" | "tied":
            missing = total("requests") - total("listed")
            none = total("listed") - total("listed_relevant")
            counts = [("requests_without_relevant", none if policy.no_relevant == "drop" else 0)]
            dropped = policy.missing_for(metric.definition.name) == "drop"
            counts.append(("requests_without_scores", missing if dropped else 0))
        case "pairs" if metric.definition.name == "gauc" and "half" not in metric.id:
            used = (total("single_class_units"), total("all_impressions") - total("impressions"))
            clicks = total("all_clicks") - total("gauc_clicks")
            counts = list(zip(_LEFT_OUT_PAIRS, (*used, clicks), strict=True))
        case _:
            counts = []
    return tuple((what, count) for what, count in counts if count)


def result_of(
    sums: Sums,
    metrics: Sequence[OfflineMetric],
    policy: Policy,
    *,
    name: str,
    alpha: float,
    models: Sequence[ReplayModel],
    same_lists: bool,
    control: str | None,
    accounting: Sequence[tuple[str, int]],
    notes: Sequence[str] = (),
) -> ReplayResult:
    """The result of a replay.

    Args:
        sums: What the queries brought back.
        metrics: In the order of the result.
        policy: Which requests count.
        name: Of the experiment.
        alpha: Level of the intervals.
        models: What was replayed.
        same_lists: Whether all models order the same items of a request.
        control: The model that the others are compared with.
        accounting: What was set aside or merged before the models were replayed.
        notes: What a reader must know.
    """
    judge = Judge(sums, metrics, policy, alpha, same_lists)
    return ReplayResult(
        schema_version=REPLAY_SCHEMA_VERSION,
        name=name,
        alpha=alpha,
        models=tuple(models),
        definitions=tuple((m.id, m.definition.formula) for m in metrics),
        policy=_policy(policy),
        rows=tuple(judge.rows()),
        pairs=tuple(judge.pairs(control)),
        coverage=sums.coverage,
        accounting=(*accounting, ("requests_only_some_models_score", sums.uncompared)),
        calibration=tuple(_bins(sums)),
        notes=(*notes, *_notes(sums)),
    )


def _notes(sums: Sums) -> Iterator[str]:
    """What is odd about the scores, in words."""
    if sums.uncompared:
        yield (
            "models are compared over the requests that all of them score: "
            f"{sums.uncompared:,} that only some score are left out"
        )
    for covered in sums.coverage:
        found = sums.models.get(covered.model)
        if found is None:
            yield f"{covered.model} has no usable score and is not compared"
        elif found.low == found.high:
            yield f"every score of {covered.model} is {found.low:g}: its order is that of ties"


def _policy(policy: Policy) -> tuple[tuple[str, str], ...]:
    named = [("ties", policy.ties), ("no_relevant", policy.no_relevant)]
    named.append(("missing", policy.missing))
    if policy.missing_in_ndcg:
        named.append(("missing_in_ndcg", policy.missing_in_ndcg))
    return tuple((name, str(value)) for name, value in named)


def _bins(sums: Sums) -> Iterator[CalibrationBin]:
    for model, found in sums.models.items():
        if found.curve is None:
            continue
        keys = ["traffic", "kind", "bin"]
        curve = found.curve.groupby(keys, as_index=False)[["rows", "clicks", "predicted"]].sum()
        for row in curve.to_dict("records"):
            rows = int(row["rows"])
            yield CalibrationBin(
                *(model, str(row["traffic"]), str(row["kind"]), int(row["bin"]), rows),
                *(int(row["clicks"]), float(row["predicted"]) / rows),
            )
