"""Aggregates → one frozen result. Pure: no log, no engine, no clock.

`pipeline.py` hands it the aggregates, just collected or read from where they were saved, and
returns the result to `api/`.
"""

from collections.abc import Sequence
from dataclasses import replace

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import DAY
from abeval.errors import masked
from abeval.experiment.model import Experiment
from abeval.inference import context
from abeval.inference.aa import aa_of
from abeval.inference.compare import Analysis
from abeval.inference.families import family_intervals
from abeval.inference.scorecard import (
    adjustments,
    beliefs,
    boundaries,
    gains,
    scorecard,
    segment_rows,
    slice_rows,
    winners_curse,
)
from abeval.inference.segments import (
    cut_rows,
    cut_splits,
    segment_contrasts,
    segment_tests,
    without_cuts,
)
from abeval.inference.spreads import catalogue_uses, quantile_effects, spreads, unit_aucs
from abeval.inference.trust.checks import trust_checks, untrusted
from abeval.inference.trust.groups import moved_denominators
from abeval.inference.trust.influence import influences
from abeval.inference.trust.split import moved_segments, split_days, split_places
from abeval.inference.verdict import decide
from abeval.logs.placing import entry_stretches
from abeval.metrics.definition import Metric
from abeval.results.analysis import SCHEMA_VERSION, Result


def judge(experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates) -> Result:
    """The result of an experiment: verdicts, trust checks and every row of numbers.

    Args:
        experiment: The plan.
        metrics: The metrics of the scorecard, in order.
        aggregates: What the logs add up to.
    """
    if not experiment.metrics:
        # A file that lists no metrics shows those that its logs can give.
        metrics = [metric for metric in metrics if metric.name not in aggregates.refused]
    analysis = Analysis(experiment, metrics, aggregates)
    aa = aa_of(analysis)
    # Messages and notes may name files, whose addresses may hold secrets.
    trust = tuple(replace(c, message=masked(c.message)) for c in trust_checks(analysis, aa))
    moved = moved_segments(experiment, trust)
    beside = moved_denominators(analysis, trust)
    totals = {key: one.total for key, one in beside.items()}
    moved_words = {key: one.words for key, one in beside.items()}
    is_fixed = experiment.inference.looks == "fixed"
    early = context.early_end(experiment, aggregates) if is_fixed else ""
    rows = scorecard(analysis, untrusted(analysis, trust, aa), totals)
    infos = tuple(context.metric_info(metric) for metric in metrics)
    return Result(
        schema_version=SCHEMA_VERSION,
        experiment=context.experiment_info(experiment, aggregates),
        verdicts=decide(trust, rows, infos, moved_words, early),
        trust=trust,
        scorecard=rows,
        metrics=infos,
        daily=slice_rows(analysis, DAY),
        segments=segment_rows(analysis, moved),
        left_out=context.left_out(metrics, aggregates),
        accounting=context.accounting(aggregates),
        notes=tuple(
            map(
                masked,
                (*winners_curse(analysis, rows), *context.notes(experiment, metrics, aggregates)),
            )
        ),
        adjustments=adjustments(analysis),
        segment_tests=segment_tests(analysis),
        segment_contrasts=segment_contrasts(analysis, moved),
        boundaries=boundaries(analysis),
        beliefs=beliefs(analysis),
        family_intervals=family_intervals(analysis),
        aa=() if aa is None else aa.metrics,
        ramps=context.ramps(entry_stretches(experiment, aggregates.entered)),
        influence=influences(analysis),
        split_days=split_days(experiment, aggregates),
        split_places=split_places(experiment, aggregates),
        cuts=cut_rows(analysis),
        cut_splits=cut_splits(analysis),
        without_cuts=without_cuts(analysis),
        spreads=spreads(analysis),
        quantile_effects=quantile_effects(analysis),
        unit_aucs=unit_aucs(analysis),
        catalogue_uses=catalogue_uses(analysis),
        gains=gains(analysis),
    )
