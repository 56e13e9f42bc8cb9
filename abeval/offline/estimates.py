"""Make the result of a replay: of the whole log, of its parts, and over k.

Every model has a value on every traffic, and models are compared in pairs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, product
from typing import NamedTuple

import numpy as np

from abeval.offline.expressions import Expression
from abeval.offline.groups import ByGroup, GroupValues, compare_groups, find_run_edges
from abeval.offline.inference import MetricValues, Value, compare, compute_metric_values, estimate
from abeval.offline.metrics import HISTORY, UNCUT, OfflineMetric, Scoring
from abeval.offline.sums import SCALE, ModelSums, Sums
from abeval.progress import Step
from abeval.results import replay
from abeval.stats import proportions
from abeval.stats.records import Effect

_BY_GROUP = frozenset({"bins", "catalogue"})
"""Families whose values are not sums over units: their intervals are jackknives."""

_OF_PROBABILITIES = frozenset({"log_loss", "log_likelihood", "ne", "rig", "q_ctr", "brier", "ece"})
"""Metrics without meaning for scores outside [0, 1]."""

_LARGEST_EXPONENT = 20
"""Relevance above this has no exponential gain: one such item would dominate every sum."""


_TESTED = ("difference", "low", "high", "p_value")
"""What a comparison tells beside both values."""


class Cell(NamedTuple):
    """Hold a metric of a model on one traffic, and what it was estimated from.

    `counted` is its denominator.
    """

    value: Value
    counted: float = 0.0
    basis: MetricValues | GroupValues | None = None


class Estimates:
    """The values of a replay, or of a part of one."""

    def __init__(self, sums: Sums, scoring: Scoring) -> None:
        self.metrics, self.alpha = scoring.metrics, scoring.alpha
        self.models, self.masks = list(sums.models), sums.units.masks
        self._policy = scoring.policy
        self._sums = sums
        self._by_group = ByGroup(sums)
        self._known: dict[tuple[str, str, str], Cell] = {}
        self._totals: dict[tuple[str, str, str, str], int] = {}

    def list_keys(self) -> Iterator[tuple[str, str, OfflineMetric]]:
        """Yield model, traffic and metric of every row."""
        for model in (covered.model for covered in self._sums.coverage):
            for traffic in self.masks:
                for metric in self.metrics:
                    yield model, traffic, metric

    def rows(self) -> Iterator[replay.ReplayRow]:
        """Yield a row per model, traffic and metric."""
        for model, traffic, metric in self.list_keys():
            (value, low, high, reason), counted, _ = self.cell(model, traffic, metric)
            left_out = self._count_left_out(model, traffic, metric) if model in self.models else ()
            yield replay.ReplayRow(
                model=model,
                traffic=traffic,
                metric=metric.id,
                value=value,
                low=low,
                high=high,
                units=int(self.masks[traffic].sum()),
                counted=counted,
                left_out=left_out,
                reason=reason,
            )

    def cell(self, model: str, traffic: str, metric: OfflineMetric) -> Cell:
        """Return a value and what it was estimated from, computed once."""
        key = (model, traffic, metric.id)
        # Rows, pairs and curves all ask for the same values.
        if key not in self._known:
            self._known[key] = self._estimate_cell(model, traffic, metric)
        return self._known[key]

    def compare(
        self, control: str, model: str, traffic: str, metric: OfflineMetric
    ) -> replay.PairRow:
        """Compare a model with another over the same units, with an interval and a test.

        Where a value has no interval, there is only the difference.
        """
        before, after = (self.cell(name, traffic, metric) for name in (control, model))
        # A missing value is a better reason than a missing interval.
        values = sorted((before.value, after.value), key=lambda v: v.value is not None)
        reason = values[0].why_not_compared or values[1].why_not_compared
        first, second, mask = before.basis, after.basis, self.masks[traffic]
        # Without a reason, what is left to refuse are values that are not of one kind.
        effect: Effect | str = reason or "no_lists"
        if reason is None and isinstance(first, MetricValues) and isinstance(second, MetricValues):
            effect = compare(first, second, mask, self.alpha)
        elif reason is None and isinstance(first, GroupValues) and isinstance(second, GroupValues):
            effect = compare_groups(first, second, self.alpha)
        change = None
        if before.value.value is not None and after.value.value is not None:
            change = after.value.value - before.value.value
        row = replay.PairRow(
            control=control,
            model=model,
            traffic=traffic,
            metric=metric.id,
            value_control=before.value.value,
            value=after.value.value,
            difference=change,
            low=None,
            high=None,
            p_value=None,
            units=int(mask.sum()),
            reason=None,
        )
        if isinstance(effect, str):
            return replace(row, reason=effect)
        return replace(row, **{name: getattr(effect, name) for name in _TESTED})

    def mean(self, cells: Sequence[Cell], traffic: str) -> Value:
        """Return the mean of metrics over the same requests.

        Of DCG at 1 … k it is MDCG.
        """
        columns = [cell.basis for cell in cells if isinstance(cell.basis, MetricValues)]
        if len(columns) < len(cells):
            # One unknown value makes the mean unknown, for the same reason.
            return next(cell.value for cell in cells if not isinstance(cell.basis, MetricValues))
        # All of them divide by the same requests, so their mean is one ratio, with an interval.
        above = sum((column.above for column in columns), np.zeros(1)) / len(columns)
        return estimate(MetricValues(above, columns[0].below), self.masks[traffic], self.alpha)

    def _estimate_cell(self, model: str, traffic: str, metric: OfflineMetric) -> Cell:
        reason = self._find_refusal(model, metric)
        if reason is not None:
            return Cell(Value(None, reason=reason))
        mask = self.masks[traffic]
        if metric.definition.family not in _BY_GROUP:
            # AUC pairs rows, and pairs across variants are in no variant's own sums.
            by = "pooled" if traffic == replay.POOLED else "traffic"
            columns = compute_metric_values(metric, self._sums.models[model], self._policy, by)
            value = estimate(columns, mask, self.alpha)
            return Cell(value, float(columns.below[mask].sum()), columns)
        values = self._by_group.values(model, metric, traffic)
        if isinstance(values, str):
            return Cell(Value(None, reason=values))
        return Cell(values.estimate(int(mask.sum()), self.alpha), values.counted, values)

    def _find_refusal(self, model: str, metric: OfflineMetric) -> str | None:
        """Return the reason why a metric has no value for a model; None if it has one."""
        sums, definition = self._sums, metric.definition
        if model not in sums.models:
            return "no_scores"
        # A value that every order of a list has tells nothing about the models.
        # With points all models order the same items of a request.
        same_lists = definition.same and sums.candidates.points
        if same_lists and sums.least_cutoff(metric) >= sums.longest > 0:
            return "k_covers_list"
        if definition.name in _OF_PROBABILITIES and not sums.models[model].probabilities:
            return "not_probabilities"
        is_exponential = "exp" in definition.variant or definition.name == "err"
        if is_exponential and sums.largest_grade > _LARGEST_EXPONENT:
            return "gain_too_large"
        if definition.above in HISTORY and sums.candidates.history is None:
            return "no_history"
        family, columns = definition.family, sums.models[model].columns
        # `sum_models` does not sum these of scores that would overflow the sums.
        if family in ("point", "regression") and (family, "rows", UNCUT) not in columns:
            return "scores_too_large"
        # An error relative to a relevance of 0 is undefined.
        is_share = definition.name == "mape"
        return "zero_truth" if is_share and columns[family, "zero_rows", UNCUT].any() else None

    def _count_left_out(
        self, model: str, traffic: str, metric: OfflineMetric
    ) -> tuple[tuple[str, int], ...]:
        """Count the requests, units or rows that the definition leaves out."""

        def total(family: str, name: str) -> int:
            key = (model, traffic, family, name)
            if key not in self._totals:
                sums = self._sums.models[model].column(family, name)
                self._totals[key] = int(sums[self.masks[traffic]].sum())
            return self._totals[key]

        definition, policy, counts = metric.definition, self._policy, {}
        if definition.is_request_mean:
            listed = total("requests", "listed")
            if policy.no_relevant == "drop":
                counts["requests_without_relevant"] = listed - total("requests", "listed_relevant")
            if policy.missing_for(definition.name) == "drop":
                counts["requests_without_scores"] = total("requests", "requests") - listed
        elif definition.name == "gauc" and "half" not in definition.variant:
            impressions, clicks = total("pairs", "impressions"), total("pairs", "clicks")
            counts = {
                "single_class_units": total("pairs", "single_class_units"),
                "single_class_impressions": total("pairs", "all_impressions") - impressions,
                "single_class_clicks": total("pairs", "all_clicks") - clicks,
            }
        return tuple((what, count) for what, count in counts.items() if count)


def _compare_models(estimates: Estimates, control: str | None) -> Iterator[replay.PairRow]:
    """Compare each scored model with control, else with the first."""
    # The model of control may have no usable score, and so no values to compare with.
    first = control if control in estimates.models else next(iter(estimates.models), "")
    for model in estimates.models:
        if model != first:
            for traffic, metric in product(estimates.masks, estimates.metrics):
                yield estimates.compare(first, model, traffic, metric)


SumPart = Callable[[Scoring, Expression | None], Sums]
"""Sums metrics of a part, or of the whole for None."""


def evaluate_parts(
    sum_part: SumPart,
    scoring: Scoring,
    step: Step,
    *,
    name: str,
    control: str | None,
    notes: Sequence[str] = (),
    part_sources: Mapping[str, str] | None = None,
) -> tuple[replay.ReplayResult, Sums]:
    """Return the result of the whole and its parts, and the sums of the whole.

    The models are compared with that of `control`. `part_sources` says whose columns a part reads,
    by its name; without, they are those of the log.
    """
    # Curves have metrics and cut-offs of their own, which are summed along.
    summed = replace(scoring, metrics=tuple(dict.fromkeys((*scoring.metrics, *scoring.curve))))
    # Each call replaces the relations of the engine, so a part is summed before the next begins.
    sums = sum_part(summed, None)
    parts = [(part, sum_part(summed, part)) for part in scoring.parts]
    step("inference")
    every = {"": sums} | {part.name: part_sums for part, part_sums in parts}
    over_k = replace(scoring, metrics=scoring.curve)
    estimates = [Estimates(entry, scoring) for entry in every.values()]
    result = replay.ReplayResult(
        schema_version=replay.REPLAY_SCHEMA_VERSION,
        name=name,
        alpha=scoring.alpha,
        models=tuple(map(replay.ReplayModel, sums.candidates.sql)),
        definitions=tuple((m.id, m.definition.formula) for m in scoring.metrics),
        policy=tuple((option, choice) for option, choice in vars(scoring.policy).items() if choice),
        rows=tuple(row for entry in estimates for row in entry.rows()),
        pairs=tuple(pair for entry in estimates for pair in _compare_models(entry, control)),
        coverage=sums.coverage,
        accounting=(
            *sums.candidates.accounts.items(),
            ("requests_only_some_models_score", sums.uncompared),
        ),
        calibration=tuple(
            curve_bin
            for entry in every.values()
            for curve_bin in _build_calibration_bins(entry, scoring.alpha)
        ),
        notes=(*notes, *_note_unusual_scores(sums, scoring.policy.unjudged == "drop")),
        judged=tuple(
            replay.JudgedShare(model, part_name, model_sums.items, model_sums.unjudged)
            for part_name, entry in every.items()
            for model, model_sums in entry.models.items()
            if model_sums.items
        ),
        parts=tuple(
            replay.ReplayPart(
                *part,
                (part_sources or {}).get(part.name, "log"),
                entry.units.ids.size,
                entry.coverage,
            )
            for part, entry in parts
        ),
        curves=tuple(
            curve for entry in every.values() for curve in _compute_curves(Estimates(entry, over_k))
        ),
    )
    return result, sums


def _compute_curves(estimates: Estimates) -> Iterator[replay.Curve]:
    """Yield the curve over k of each model, traffic and definition."""
    # The keys come by model, traffic and definition, so groupby needs no sort.
    by_curve = groupby(estimates.list_keys(), key=lambda entry: (*entry[:2], entry[2].definition))
    for (model, traffic, definition), keys in by_curve:
        cells = [(key[2].cutoff, estimates.cell(*key)) for key in keys]
        points = tuple(replay.CurvePoint(k, *cell.value) for k, cell in cells)
        name = OfflineMetric(definition).id
        estimated = [(p.k, p.value) for p in points if p.value is not None]
        mean = estimates.mean([cell for _, cell in cells], traffic)
        yield replay.Curve(model, traffic, name, points, find_elbow(estimated), *mean)


def find_elbow(points: Sequence[tuple[int, float]]) -> int | None:
    """Return the cut-off furthest from the line between both ends.

    It is the elbow of Satopää et al. (2011).

    None where there are fewer than three points, or they lie on the line.

    Example:
        >>> find_elbow([(1, 0.2), (2, 0.5), (3, 0.55), (4, 0.6)])
        2
    """
    # Ends of equal height have no rise to level off, and would divide by zero below.
    if len(points) < 3 or points[0][1] == points[-1][1]:
        return None
    (k0, v0), (k1, v1) = points[0], points[-1]
    # Both axes are scaled to [0, 1], so that the units of k and of the value do not matter.
    away = {k: abs((k - k0) / (k1 - k0) - (v - v0) / (v1 - v0)) for k, v in points}
    best = max(away, key=lambda k: away[k])
    # On a line all distances are rounding, and the largest of them means nothing.
    return best if away[best] > 1e-9 else None


def _note_unusual_scores(sums: Sums, is_condensed: bool) -> Iterator[str]:
    """Note unusual scores and relevance, and how much of the lists nobody judged."""
    if any(model.lowest_grade < 0 for model in sums.models.values()):
        yield "metrics of lists count relevance below 0 as none; errors and pairs have it as it is"
    if sums.uncompared:
        yield (
            "models are compared over the requests that all of them score: "
            f"{sums.uncompared:,} that only some score are left out"
        )
    for covered in sums.coverage:
        model = sums.models.get(covered.model)
        if model is None:
            yield f"{covered.model} has no usable score and is not compared"
            continue
        if model.items:
            yield f"{covered.model}: {_describe_judged(model, is_condensed)}"
        if model.low == model.high:
            yield (
                f"every score of {covered.model} is {model.low:g}: its items are ordered by the "
                "tie rule only"
            )


def _describe_judged(model: ModelSums, is_condensed: bool) -> str:
    """Say how many of the listed items somebody judged."""
    if not model.unjudged:
        return f"all {model.items:,} listed items are judged"
    fate = "leave the lists" if is_condensed else "count as not relevant"
    share = model.unjudged / model.items
    return f"nobody judged {share:.1%} of the {model.items:,} listed items, which {fate}"


def _build_calibration_bins(sums: Sums, alpha: float) -> Iterator[replay.CalibrationBin]:
    names = sums.units.names
    for model, curve in ((model, model_sums.curve) for model, model_sums in sums.models.items()):
        if curve is None or not curve["rows"].size:
            continue
        keys = [curve[name] for name in ("traffic", "kind", "bin")]
        # Groups of units of one bin follow each other.
        first = find_run_edges(*keys)[:-1]
        counts = (np.add.reduceat(curve[name], first) for name in ("rows", "clicks", "predicted"))
        columns = (column.tolist() for column in (*(key[first] for key in keys), *counts))
        bins = zip(*columns, strict=True)
        for traffic, kind, number, rows, clicks, predicted in bins:
            low, high = proportions.compute_share_interval(proportions.Count(clicks, rows), alpha)
            yield replay.CalibrationBin(
                model=model,
                traffic=names[traffic],
                kind=kind,
                bin=number,
                rows=rows,
                clicks=clicks,
                mean_score=predicted * SCALE / rows,
                low=low,
                high=high,
            )
