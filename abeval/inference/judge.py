"""Turn aggregates into one frozen result, without log, engine or clock."""

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import DAY, SEGMENT
from abeval.errors import ExperimentError, mask_secrets
from abeval.experiment.model import Experiment
from abeval.experiment.sections import Family
from abeval.inference import clustered, context, scorecard, segments, spreads
from abeval.inference.aa import replay_scorecard
from abeval.inference.compare import Analysis, compare, compare_all
from abeval.inference.comparison import Arms, adjust_p_values
from abeval.inference.families import estimate_family_intervals
from abeval.inference.trust.checks import find_untrusted_metrics, run_trust_checks
from abeval.inference.trust.groups import find_moved_denominators
from abeval.inference.trust.influence import measure_influences
from abeval.inference.trust.split import find_moved_segments, split_days, split_places
from abeval.inference.verdict import decide
from abeval.inference.worth import compute_worth
from abeval.logs.placing import find_enrollment_periods
from abeval.metrics.definition import Metric
from abeval.results.analysis import SCHEMA_VERSION, Pair, Pairwise, Result
from abeval.stats.multiplicity import Method


def judge(experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates) -> Result:
    """Build the result of an experiment: verdicts, trust checks and all rows."""
    experiment = context.add_questions(experiment, aggregates)
    if not experiment.metrics:
        # A file that lists no metrics shows those that its logs can give.
        metrics = [metric for metric in metrics if metric.name not in aggregates.refused]
    if not metrics:
        hint = "its logs have no clicks, so CTR is none; give a metric a name and a value or a log"
        raise ExperimentError("no metric yet: name one in [[metrics]]", hint)
    analysis = Analysis(experiment, metrics, aggregates)

    # Compare each metric in each variant with control, as it may be read at this look.
    comparisons = compare_all(analysis)

    # Check whether log, split and tests can be trusted, and what that takes from the rows.
    aa = replay_scorecard(analysis, comparisons)
    trust = run_trust_checks(analysis, aa)
    moved = find_moved_segments(experiment, trust)
    denominators = find_moved_denominators(analysis, trust)
    ranged = {metric.name for metric in metrics if metric.within is not None}
    totals = {key: moves.total for key, moves in denominators.items() if key[0] not in ranged}
    doubts = find_untrusted_metrics(analysis, trust, aa)

    # Correct p-values over goals and over guardrails, give each row its status, and decide.
    rows = scorecard.build_scorecard(analysis, comparisons, doubts, totals)
    infos = tuple(context.build_metric_info(metric) for metric in metrics)
    schedule = context.build_look_schedule(experiment, aggregates)
    early = context.describe_early_end(schedule)
    verdicts = decide(
        trust,
        rows,
        infos,
        moved={key: denominator.text for key, denominator in denominators.items()},
        early=early if experiment.inference.looks == "fixed" else "",
        questions=experiment.questions,
    )
    notes = context.write_analysis_notes(analysis, comparisons, rows, schedule)

    return Result(
        schema_version=SCHEMA_VERSION,
        experiment=context.build_experiment_info(experiment, aggregates),
        verdicts=verdicts,
        trust=trust,
        scorecard=rows,
        metrics=infos,
        daily=tuple(scorecard.slice_rows(analysis, DAY)),
        segments=tuple(
            row
            for name in experiment.segment_names
            for row in scorecard.slice_rows(analysis, SEGMENT + name, moved)
        ),
        left_out=context.count_left_out(metrics, aggregates),
        accounting=context.account_for_rows(aggregates),
        notes=tuple(map(mask_secrets, notes)),
        adjustments=tuple(scorecard.list_adjustments(analysis, comparisons)),
        segment_tests=segments.test_segment_effects(analysis),
        segment_contrasts=tuple(segments.contrast_segments(analysis, moved)),
        boundaries=tuple(scorecard.list_boundaries(comparisons)),
        family_intervals=tuple(estimate_family_intervals(analysis, comparisons)),
        aa=() if aa is None else aa.metrics,
        ramps=context.list_ramps(find_enrollment_periods(experiment, aggregates.enrollments)),
        influence=measure_influences(analysis),
        split_days=split_days(analysis),
        split_places=split_places(analysis),
        cuts=tuple(segments.cut_rows(analysis)),
        cut_splits=tuple(segments.cut_splits(analysis)),
        without_cuts=tuple(segments.list_metrics_without_cuts(analysis)),
        spreads=tuple(spreads.build_distributions(analysis)),
        quantile_effects=tuple(spreads.compare_value_quantiles(analysis)),
        unit_aucs=tuple(spreads.count_units_by_auc(analysis)),
        catalogue_uses=tuple(spreads.measure_catalogue_use(analysis)),
        ranges=tuple(scorecard.list_range_rows(analysis, comparisons)),
        cluster_costs=tuple(clustered.compute_cluster_costs(metrics, aggregates)),
        slot_quarters=tuple(
            clustered.compare_slot_quarters(
                metrics, experiment.switchback, aggregates, experiment.alpha
            )
        ),
        schedule=schedule,
        worth=tuple(compute_worth(analysis, rows)),
    )


def compare_variant_pairs(
    experiment: Experiment, metrics: Sequence[Metric], metric: Metric, aggregates: Aggregates
) -> Pairwise:
    """Compare every two variants on a metric, p-values adjusted over all pairs."""
    experiment = context.add_questions(experiment, aggregates)
    analysis = Analysis(experiment, metrics, aggregates)
    comparisons = {
        (base, variant): compare(analysis, metric, Arms(base, variant))
        for base, variant in combinations(experiment.variants, 2)
    }
    family = _choose_pair_correction(experiment.inference.family)
    p_values = {} if family == "none" else adjust_p_values(comparisons, family)
    values: dict[str, float | None] = dict.fromkeys(experiment.variants)
    pairs = []
    for (base, variant), comparison in comparisons.items():
        numbers = comparison.numbers
        for name, value in ((base, comparison.control), (variant, comparison.treatment)):
            values[name] = value if values[name] is None else values[name]
        pair = Pair(
            base=base,
            variant=variant,
            units_base=comparison.units_control,
            units=numbers.units,
            difference=numbers.difference,
            difference_low=numbers.difference_low,
            difference_high=numbers.difference_high,
            lift=numbers.lift,
            p_value=numbers.p_value,
            p_adjusted=p_values.get((base, variant), numbers.p_value),
            reason=comparison.reason,
        )
        pairs.append(pair)
    return Pairwise(
        metric=metric.name,
        values=tuple(values.items()),
        family=family,
        alpha=experiment.alpha,
        pairs=tuple(pairs),
        trust=run_trust_checks(analysis),
        questions=tuple(experiment.questions),
    )


def _choose_pair_correction(family: Family) -> Literal["none"] | Method:
    """Choose the correction for all pairs of variants on one metric."""
    if family == "dunnett":
        return "holm"
    return "bonferroni" if family == "weighted" else family
