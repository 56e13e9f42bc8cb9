"""Runs the queries of an experiment in order, and returns its aggregates.

It gets a `Run` and metrics from `pipeline.py` or `api/`, which hand the aggregates to
`inference/`; `store/collect.py` calls `gathered` on logs that it prepared itself.
"""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.audits import audit_sums, no_audits, seen_in
from abeval.aggregates.balance import balance_sums
from abeval.aggregates.buckets import BucketSums, deals_units
from abeval.aggregates.cells import joined_cells
from abeval.aggregates.cuts import CutSums, cut_sums
from abeval.aggregates.extremes import extreme_units, no_extremes
from abeval.aggregates.kernels.reach_pass import reach_table
from abeval.aggregates.lacking import lacking_sums
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.moment_rows import DAY, MOMENT_COLUMNS
from abeval.aggregates.quantiles import QuantileSums, collect_quantiles
from abeval.aggregates.spreads import reads_rows, spread_metrics
from abeval.aggregates.terms import SourceSums
from abeval.engines.protocol import ArrayEngine, Engine
from abeval.engines.queries import query
from abeval.experiment.covariates import covariate_means
from abeval.experiment.model import Experiment
from abeval.logs.accounting import (
    accounts,
    check_all_counted,
    check_some_left,
    count_other_variants,
    facts,
)
from abeval.logs.prepare import Prepared, prepare
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.logs.sums import Sums, one_pass
from abeval.metrics.definition import Metric, Need
from abeval.metrics.sources import CATALOGUE, GAUC, QUANTILE
from abeval.steps import Step

_NO_ROWS = "the rows of the impressions (there are only sums per unit and day)"


def collect(
    run: Run, metrics: Sequence[Metric], sums: Sums = one_pass, by_bucket: bool = False
) -> Aggregates:
    """Aggregate the logs of an experiment.

    Args:
        run: The experiment and its engine.
        metrics: The metrics of the scorecard.
        sums: Makes the sums per unit and day.
        by_bucket: `buckets` has every metric by sub-bucket, however few the units are: the same
            units are in a sub-bucket of each metric, which values of single units do not say.

    Raises:
        LogError: A log is missing, unreadable, or not what the experiment file says.
        QueryError: The engine could not run a query.
    """
    read = [*metrics, *covariate_means(run.experiment), *spread_metrics(metrics)]
    prepared = prepare(run, read, sums=sums, cuts=tuple(run.experiment.cuts))
    check_some_left(run.experiment, prepared, run.engine)
    aggregates = gathered(run, metrics, prepared, sums is one_pass, by_bucket)
    check_all_counted(prepared, aggregates.accounts)
    return shown(run.experiment, aggregates)


def shown(experiment: Experiment, aggregates: Aggregates) -> Aggregates:
    """Complete aggregates as they are shown and saved.

    They lack the days on which no unit is analysed, and cells of segments that are not shown alone.
    """
    with_units = aggregates.days["units"] > 0
    days = aggregates.days[with_units].reset_index(drop=True)
    return joined_cells(replace(aggregates, days=days), experiment.privacy.min_units)


def gathered(
    run: Run,
    metrics: Sequence[Metric],
    prepared: Prepared,
    audited: bool = False,
    by_bucket: bool = False,
) -> Aggregates:
    """Aggregates of prepared logs: of the units in the table `units`.

    A store calls it once more on the units that changed; it does not audit rows, which it has not.
    """
    experiment, engine = run.experiment, run.engine
    shape = prepared.shape
    has = shape.needs_met(experiment.unit)
    refused = refusals(metrics, has)
    if not prepared.summed.has_rows:
        refused |= {m.name: (_NO_ROWS,) for m in metrics if m.name not in refused and reads_rows(m)}
    wanted = [metric for metric in metrics if metric.name not in refused]
    resampled = resampled_metrics(experiment, wanted)
    sources = list(dict.fromkeys(metric.source for metric in (*wanted, *resampled)))
    stretches = prepared.entries.stretches
    queries = MetricQueries(
        experiment, shape, engine, by_stretch=bool(stretches), covered=prepared.covered
    )
    units = engine.frame(query("units/unit_counts"))
    few = prepared.summed.all_units and deals_units(int(units["units"].sum()))
    parts: list[SourceSums] = []
    buckets: dict[str, BucketSums] = {}
    extremes, unit_aucs = [no_extremes()], pd.DataFrame()
    for source in sources:
        if source.per_unit:
            run.step(source.title)
            chosen = [m for m in wanted if m.source == source]
            parts.append(
                queries.of_source(source, chosen, [m for m in resampled if m.source == source])
            )
            if source is GAUC:
                engine.view("gauc_unit", "select * from source_unit")
                unit_aucs = engine.frame(query("metric/unit_aucs"))
            if audited and experiment.privacy.min_units is None:
                extremes.append(extreme_units(queries, chosen))
            if experiment.trust.aa_runs or by_bucket:
                by_units = few and not by_bucket
                buckets |= {m.name: queries.bucket_sums(m, by_units) for m in chosen}
    lacking = lacking_sums(experiment, prepared, queries) if prepared.lacking else []
    balance = balance_sums(queries, covariate_means(experiment))
    cuts = CutSums()
    if prepared.summed.has_rows:
        of_variant = dict(zip(units["variant"], map(int, units["units"]), strict=True))
        cuts = cut_sums(queries, wanted, of_variant, run.step)
    spreads = spread_metrics(metrics) if prepared.summed.has_rows else ()
    quantiles = _quantiles(
        queries,
        [metric for metric in wanted if metric.source is QUANTILE],
        [spread for spread in spreads if spread.needs <= has],
        run.step,
    )
    run.step("catalogue" if CATALOGUE in sources else "accounting")
    reach, group_units, size = _catalogue(experiment, engine, shape, CATALOGUE in sources)
    rows = [row for part in parts for row in part.rows]
    counted = accounts(prepared, engine)
    more = [*quantiles.rows, *lacking, *balance, *cuts.rows]
    return Aggregates(
        moments=pd.DataFrame(
            [*sorted(rows, key=lambda row: row[1] == DAY), *more],
            columns=list(MOMENT_COLUMNS),
        ),
        caps={metric: caps for part in parts for metric, caps in part.caps.items()},
        reach=reach,
        group_units=group_units,
        catalogue_size=size,
        units=units,
        accounts=counted,
        days=engine.frame(query("units/days")),
        refused=refused,
        facts=facts(prepared, engine) | count_other_variants(experiment, counted, engine),
        quantiles=quantiles.quantiles,
        buckets=buckets,
        entered=prepared.entries.counts,
        stretches=stretches,
        notes=(*prepared.notes, *prepared.summed.notes, *cuts.notes),
        audits=audit_sums(run, prepared) if audited else no_audits(),
        extremes=pd.concat(extremes, ignore_index=True),
        seen_in=seen_in(experiment, engine) if audited else pd.DataFrame(),
        unit_aucs=unit_aucs,
    )


def _quantiles(
    queries: MetricQueries, metrics: Sequence[Metric], spreads: Sequence[Metric], step: Step
) -> QuantileSums:
    if not (metrics or spreads):
        return QuantileSums([], {})
    step(QUANTILE.title)
    return collect_quantiles(queries, metrics, spreads)


def resampled_metrics(experiment: Experiment, metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """Metrics that need sums per sub-bucket.

    They are the parts of functions and, if the experiment resamples, every mean and ratio.
    """
    parts = {part.name: part for metric in metrics for part in metric.parts}
    if experiment.inference.resample is not None:
        parts |= {m.name: m for m in metrics if m.is_mean_or_ratio}
    return tuple(parts.values())


def refusals(metrics: Sequence[Metric], has: frozenset[Need]) -> dict[str, tuple[str, ...]]:
    """Metrics that these logs cannot give → what the logs lack."""
    return {
        metric.name: tuple(sorted(metric.needs - has))
        for metric in metrics
        if not metric.needs <= has
    }


def _catalogue(
    experiment: Experiment, engine: Engine, shape: LogShape, wanted: bool
) -> tuple[pd.DataFrame, pd.DataFrame, int | None]:
    """Who was shown what, and how many items there are."""
    if not wanted:
        return pd.DataFrame(), pd.DataFrame(), None
    reach = _reach(experiment, engine)
    items = set(reach["item_id"].unique())
    if shape.items is not None:
        items |= {row[0] for row in engine.rows("select item_id from items")}
    return reach, engine.frame(query("catalogue/group_units")), len(items)


def _reach(experiment: Experiment, engine: Engine) -> pd.DataFrame:
    """The rows of `catalogue/reach`, by the kernel where the engine has arrays."""
    reach = None
    if isinstance(engine, ArrayEngine):
        folder = experiment.engine.temp_directory
        reach = reach_table(engine, list(experiment.variants), folder)
    return engine.frame(query("catalogue/reach")) if reach is None else reach
