"""Aggregates → one frozen result. Pure: no log, no engine, no clock."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from abeval.aggregates import DAY, LEFT_OUT, SEGMENT, USED, USED_BEFORE, WHOLE, Aggregates
from abeval.comparison import Comparison, Reason, compare_catalogue, compare_moments, refused, scales
from abeval.experiment.model import ROW_UNIT, Experiment
from abeval.judgement import goodness_p_value, status_of
from abeval.metrics import Metric
from abeval.result import (
    SCHEMA_VERSION,
    Account,
    ExperimentInfo,
    LeftOut,
    MetricInfo,
    Result,
    Row,
    SliceRow,
    VariantInfo,
)
from abeval.stats import multiplicity
from abeval.trust import trust_checks
from abeval.verdict import decide

Key = tuple[str, str]

_USED = (USED, USED_BEFORE)
_HOUR_MS = 3_600_000


def judge(experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates) -> Result:
    """Everything that the aggregates say of an experiment.

    Args:
        experiment: What was planned.
        metrics: The metrics of the scorecard, in order.
        aggregates: What the engine brought back.
    """
    metrics = _shown(experiment, metrics, aggregates)
    trust = trust_checks(experiment, metrics, aggregates)
    trusted = all(check.status != "fail" for check in trust)
    scorecard = _scorecard(experiment, metrics, aggregates, trusted)
    infos = tuple(_metric_info(metric) for metric in metrics)
    return Result(
        schema_version=SCHEMA_VERSION,
        experiment=_experiment_info(experiment, aggregates),
        verdicts=decide(trust, scorecard, infos),
        trust=trust,
        scorecard=scorecard,
        metrics=infos,
        daily=_slices(experiment, metrics, aggregates, DAY),
        segments=tuple(
            row
            for name in experiment.segments
            for row in _slices(experiment, metrics, aggregates, SEGMENT + name)
        ),
        left_out=_left_out(metrics, aggregates),
        accounting=_accounting(aggregates),
        notes=_notes(experiment, aggregates),
    )


def _shown(
    experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates
) -> Sequence[Metric]:
    """A file that lists metrics sees them all; one that lists none, those its logs can give."""
    if experiment.metrics:
        return metrics
    return [metric for metric in metrics if metric.name not in aggregates.refused]


def _scorecard(
    experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates, trusted: bool
) -> tuple[Row, ...]:
    found = {
        (metric.name, variant): _compare(experiment, metric, variant, aggregates)
        for metric in metrics
        for variant in experiment.treatments
    }
    adjusted = _adjusted(metrics, found)
    return tuple(
        _row(metric, variant, found[metric.name, variant], adjusted, experiment.alpha, trusted)
        for metric in metrics
        for variant in experiment.treatments
    )


def _compare(
    experiment: Experiment, metric: Metric, variant: str, aggregates: Aggregates
) -> Comparison:
    units = dict(zip(aggregates.units["variant"], aggregates.units["units"], strict=True))
    counts = int(units.get(experiment.control, 0)), int(units.get(variant, 0))
    if metric.name in aggregates.refused:
        return refused(*counts, "missing_columns")
    empty = _emptiness(metric, aggregates)
    if empty is not None:
        return refused(*counts, empty)
    if metric.kind == "catalogue":
        return compare_catalogue(metric, aggregates, experiment.control, variant, experiment.alpha)
    arms = aggregates.of(metric.name, WHOLE, "", scales(metric))
    return compare_moments(metric, arms.get(experiment.control), arms.get(variant), experiment.alpha)


def _emptiness(metric: Metric, aggregates: Aggregates) -> Reason | None:
    """Why a metric has nothing to measure in the whole log."""
    if "score" in metric.needs and aggregates.facts["scored"] == 0:
        return "no_scores"
    if "click" in metric.needs and aggregates.facts["clicks"] == 0:
        return "no_clicks"
    return None


def _adjusted(metrics: Sequence[Metric], found: Mapping[Key, Comparison]) -> dict[Key, float]:
    """Holm over goals × variants, on the p-values that statuses follow."""
    by_name = {metric.name: metric for metric in metrics}
    family = {
        key: goodness_p_value(by_name[key[0]].direction, comparison.effect)
        for key, comparison in found.items()
        if by_name[key[0]].role == "goal" and comparison.effect is not None
    }
    if not family:
        return {}
    holm = multiplicity.adjust(list(family.values()), "holm")
    return dict(zip(family, (float(p) for p in holm), strict=True))


def _row(
    metric: Metric,
    variant: str,
    found: Comparison,
    adjusted: Mapping[Key, float],
    alpha: float,
    trusted: bool,
) -> Row:
    effect, lift = found.effect, found.lift
    own = None if effect is None else goodness_p_value(metric.direction, effect)
    p_adjusted = adjusted.get((metric.name, variant))
    status = status_of(metric, found, own if p_adjusted is None else p_adjusted, alpha)
    return Row(
        metric=metric.name,
        kind=metric.kind,
        role=metric.role,
        direction=metric.direction.label,
        variant=variant,
        units_control=found.units_control,
        units=found.units,
        control=found.control,
        treatment=found.treatment,
        difference=None if effect is None else effect.difference,
        difference_low=None if effect is None else effect.low,
        difference_high=None if effect is None else effect.high,
        lift=None if lift is None else lift.value,
        lift_low=lift.low if lift is not None and lift.bounded else None,
        lift_high=lift.high if lift is not None and lift.bounded else None,
        p_value=None if effect is None else effect.p_value,
        p_adjusted=p_adjusted,
        method=None if effect is None else effect.method,
        status=status if trusted else "untrusted",
        reason=found.reason if trusted or found.reason is not None else "failed_trust_check",
    )


def _slices(
    experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates, name: str
) -> tuple[SliceRow, ...]:
    return tuple(
        _slice_row(experiment, metric, variant, aggregates, name, cell)
        for metric in metrics
        for cell in aggregates.cells(metric.name, name)
        for variant in experiment.treatments
    )


def _slice_row(
    experiment: Experiment,
    metric: Metric,
    variant: str,
    aggregates: Aggregates,
    name: str,
    cell: str,
) -> SliceRow:
    arms = aggregates.of(metric.name, name, cell, scales(metric))
    found = compare_moments(metric, arms.get(experiment.control), arms.get(variant), experiment.alpha)
    effect, lift = found.effect, found.lift
    return SliceRow(
        metric=metric.name,
        variant=variant,
        slice=name.removeprefix(SEGMENT),
        cell=cell,
        partial=name == DAY and cell in _partial_days(experiment, aggregates),
        units_control=found.units_control,
        units=found.units,
        control=found.control,
        treatment=found.treatment,
        difference=None if effect is None else effect.difference,
        difference_low=None if effect is None else effect.low,
        difference_high=None if effect is None else effect.high,
        lift=None if lift is None else lift.value,
        lift_low=lift.low if lift is not None and lift.bounded else None,
        lift_high=lift.high if lift is not None and lift.bounded else None,
        p_value=None if effect is None else effect.p_value,
        reason=found.reason,
    )


def _left_out(metrics: Sequence[Metric], aggregates: Aggregates) -> tuple[LeftOut, ...]:
    return tuple(
        LeftOut(metric.name, variant, what, count)
        for metric in metrics
        for what, variant, count in aggregates.sums(metric.name, LEFT_OUT)
    )


def _partial_days(experiment: Experiment, aggregates: Aggregates) -> frozenset[str]:
    """Days of which the log, or the period, covers only a part, by more than an hour."""
    zone = ZoneInfo(experiment.timezone)
    days = aggregates.days
    partial: set[str] = set()
    for day, first, last in zip(days["day"], days["first_ms"], days["last_ms"], strict=True):
        start = datetime.fromisoformat(day).replace(tzinfo=zone)
        end = start + timedelta(days=1)
        late = first - start.timestamp() * 1000 > _HOUR_MS and day == days["day"].iloc[0]
        early = end.timestamp() * 1000 - last > _HOUR_MS and day == days["day"].iloc[-1]
        if late or early:
            partial.add(day)
    return frozenset(partial)


def _accounting(aggregates: Aggregates) -> tuple[Account, ...]:
    accounts = []
    for log, rows in aggregates.accounts.groupby("log", sort=False):
        pairs = [(str(r), int(n)) for r, n in zip(rows["reason"], rows["rows"], strict=True)]
        used = sum(n for reason, n in pairs if reason in _USED)
        aside = tuple((reason, n) for reason, n in pairs if reason not in _USED and n)
        accounts.append(Account(str(log), used + sum(n for _, n in aside), used, aside))
    return tuple(accounts)


def _notes(experiment: Experiment, aggregates: Aggregates) -> tuple[str, ...]:
    """What a reader of the numbers must know and no number says."""
    exposed = experiment.logs.exposures is not None
    units = "exposed units, zeros included" if exposed else "units with an impression in the period"
    notes = [
        f"Metrics per unit divide by {units}.",
        "Intervals are not adjusted for the number of metrics; the status of a goal follows its "
        "p-value after Holm over goals × variants.",
    ]
    if experiment.unit == ROW_UNIT:
        notes.append("Every row is its own unit: rows of one user, if there are any, count as independent.")
    what = "is refused" if experiment.metrics else "is not shown"
    notes += [
        f"{metric} {what}: the logs lack {', '.join(lacking)}."
        for metric, lacking in aggregates.refused.items()
    ]
    before = aggregates.accounts.loc[aggregates.accounts["reason"] == USED_BEFORE, "rows"].sum()
    if before:
        notes.append(f"{int(before):,} of the used impressions lie before the period and serve only to compare the groups before it.")
    return tuple(notes)


def _experiment_info(experiment: Experiment, aggregates: Aggregates) -> ExperimentInfo:
    units = dict(zip(aggregates.units["variant"], aggregates.units["units"], strict=True))
    period, before = experiment.period, experiment.pre_period
    return ExperimentInfo(
        name=experiment.name,
        unit=experiment.unit,
        control=experiment.control,
        timezone=experiment.timezone,
        start=None if period is None else str(period.start),
        end=None if period is None else str(period.end),
        pre_start=None if before is None else str(before.start),
        pre_end=None if before is None else str(before.end),
        alpha=experiment.alpha,
        variants=tuple(
            VariantInfo(name, variant.weight, variant.model, int(units.get(name, 0)))
            for name, variant in experiment.variants.items()
        ),
    )


def _metric_info(metric: Metric) -> MetricInfo:
    margin = metric.margin
    return MetricInfo(
        name=metric.name,
        kind=metric.kind,
        formula=metric.formula,
        unit=metric.unit,
        direction=metric.direction.label,
        role=metric.role,
        margin=None if margin is None else margin.size,
        margin_relative=None if margin is None else margin.relative,
    )
