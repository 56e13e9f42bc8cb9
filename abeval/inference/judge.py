"""Aggregates → one frozen result. Pure: no log, no engine, no clock."""

from collections.abc import Sequence

from abeval.aggregates.aggregates import DAY, SEGMENT, Aggregates
from abeval.experiment.model import Experiment
from abeval.inference import context as background
from abeval.inference.beliefs import beliefs
from abeval.inference.compare import compare_all, judged_exactly
from abeval.inference.families import family_intervals
from abeval.inference.scorecard import adjustments, boundaries, scorecard, slice_rows
from abeval.inference.segments import segment_contrasts, segment_tests
from abeval.inference.trust import aa_replays, off_in_aa, trust_checks
from abeval.inference.verdict import decide
from abeval.metrics.definition import Metric
from abeval.results.analysis import SCHEMA_VERSION, Result


def judge(experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates) -> Result:
    """Everything that the aggregates say of an experiment.

    Args:
        experiment: What was planned.
        metrics: The metrics of the scorecard, in order.
        aggregates: What the engine brought back.
    """
    metrics = _shown(experiment, metrics, aggregates)
    found = compare_all(experiment, metrics, aggregates)
    aa = aa_replays(experiment, aggregates, judged_exactly(found))
    trust = trust_checks(experiment, metrics, aggregates, aa)
    trusted = all(check.status != "fail" for check in trust)
    rows = scorecard(experiment, metrics, found, trusted, off_in_aa(aa))
    infos = tuple(background.metric_info(metric) for metric in metrics)
    return Result(
        schema_version=SCHEMA_VERSION,
        experiment=background.experiment_info(experiment, aggregates),
        verdicts=decide(trust, rows, infos),
        trust=trust,
        scorecard=rows,
        metrics=infos,
        daily=slice_rows(experiment, metrics, aggregates, DAY),
        segments=tuple(
            row
            for name in experiment.segments
            for row in slice_rows(experiment, metrics, aggregates, SEGMENT + name)
        ),
        left_out=background.left_out(metrics, aggregates),
        accounting=background.accounting(aggregates),
        notes=background.notes(experiment, aggregates),
        adjustments=adjustments(experiment, metrics, aggregates, found),
        segment_tests=segment_tests(experiment, metrics, aggregates),
        segment_contrasts=segment_contrasts(experiment, metrics, aggregates),
        boundaries=boundaries(experiment, metrics, found),
        beliefs=beliefs(experiment, metrics, found),
        family_intervals=family_intervals(experiment, metrics, found),
        aa=() if aa is None else aa.metrics,
    )


def _shown(
    experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates
) -> Sequence[Metric]:
    """A file that lists metrics sees them all; one that lists none, those its logs can give."""
    if experiment.metrics:
        return metrics
    return [metric for metric in metrics if metric.name not in aggregates.refused]
