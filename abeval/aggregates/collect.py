"""Runs the queries of an experiment in order, and returns its aggregates.

It gets a `Run` and metrics from `pipeline.py` or `api/`, which hand the aggregates to
`inference/`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates, Quantile, VariantUnits, deals_units
from abeval.aggregates.audits import audit_sums
from abeval.aggregates.cells import joined_cells
from abeval.aggregates.cuts import CutSums, cut_sums
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.quantiles import collect_quantiles
from abeval.aggregates.row_pass import KERNELS, RowSums, row_sums
from abeval.aggregates.sums import DAY, SLICE, Row
from abeval.aggregates.wanted import Wanted, spread_metrics, wanted_of
from abeval.agreement.causes.serving import Besides, per_unit_sums
from abeval.experiment.metrics import covariate_means
from abeval.experiment.model import Experiment
from abeval.logs.accounting import (
    accounts,
    check_all_counted,
    check_some_left,
    count_other_variants,
    days_of,
    facts,
    seen_in,
)
from abeval.logs.cells import Sums, one_pass
from abeval.logs.prepare import Extra, Prepared, prepare
from abeval.logs.run import Run
from abeval.logs.unit_arrays import Units
from abeval.logs.units import sub_buckets
from abeval.metrics.definition import CATALOGUE, QUANTILE, Metric
from abeval.progress import Step


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
    return collect_prepared(run, metrics, sums, by_bucket, Further(units=False)).aggregates


class Further(NamedTuple):
    """What is read of prepared logs after the aggregates.

    Attributes:
        units: Whether queries read the relations of the units.
        by_day: Whether windows are computed of the same units.
        columns: More columns of the impressions that they read, as of `prepare`.
    """

    units: bool = True
    by_day: bool = False
    columns: Sequence[str] | Extra = ()


class Collected(NamedTuple):
    """Aggregates, and the logs that they are of, for more sums of the same units.

    Attributes:
        aggregates: The aggregates.
        prepared: The logs.
        rows: What kernels computed of single impressions; None without any.
    """

    aggregates: Aggregates
    prepared: Prepared
    rows: RowSums | None


def collect_prepared(
    run: Run,
    metrics: Sequence[Metric],
    sums: Sums = one_pass,
    by_bucket: bool = False,
    further: Further = Further(),  # noqa: B008 (it is immutable)
) -> Collected:
    """Aggregate the logs as `collect` does, and keep what was read of them.

    Args:
        run: As of `collect`, like the next three.
        metrics: The metrics.
        sums: Makes the sums.
        by_bucket: Whether every metric is summed by sub-bucket.
        further: What else will be read of the logs.
    """
    read = [*metrics, *covariate_means(run.experiment), *spread_metrics(metrics)]
    cuts = tuple(run.experiment.cuts)
    prepared = prepare(run, read, further.columns, sums, cuts, KERNELS, further.units)
    check_some_left(run.experiment, prepared, run.engine)
    aggregates, rows = _gathered(run, metrics, prepared, by_bucket, further.by_day)
    check_all_counted(prepared, aggregates.accounts)
    return Collected(joined_cells(aggregates, run.experiment.privacy.min_units), prepared, rows)


def _gathered(
    run: Run, metrics: Sequence[Metric], prepared: Prepared, by_bucket: bool, by_day: bool
) -> tuple[Aggregates, RowSums | None]:
    experiment, engine, has_rows = run.experiment, run.engine, prepared.summed.has_rows
    wanted = wanted_of(experiment, metrics, prepared)
    units = unit_counts(experiment, prepared.placed.units)
    besides = _besides(experiment, units, has_rows, by_bucket)
    dealt = wanted.resampled or CATALOGUE in wanted.sources
    bucket = np.zeros(0, dtype=np.int16)
    if dealt or (besides.buckets and not besides.by_units):
        bucket = sub_buckets(engine, experiment, prepared.placed.units.hash, prepared.cells)
    rows = row_sums(run, prepared, wanted, bucket, by_day)
    queries = _queries(run, prepared, rows)
    per_unit = per_unit_sums(queries, prepared, wanted, besides, bucket, run.step)
    lacking = lacking_sums(experiment, prepared, engine) if prepared.lacking else []
    placed = prepared.placed.units
    cuts = cut_sums(queries, placed, wanted.metrics, run.step) if has_rows else CutSums()
    quantiles = _quantiles(queries, wanted, run.step)
    shows_items = CATALOGUE in wanted.sources
    run.step("catalogue" if shows_items else "accounting")
    counted = accounts(prepared, engine)
    aggregates = Aggregates(
        moments=_moments(per_unit.rows, [*lacking, *cuts.rows]),
        caps=per_unit.caps,
        catalogue_size=None,
        units=units,
        accounts=counted,
        days=days_of(prepared),
        refused=wanted.refused,
        facts=facts(prepared) | count_other_variants(experiment, prepared),
        quantiles=quantiles,
        buckets=per_unit.buckets,
        entered=prepared.placed.entered,
        stretches=prepared.placed.stretches,
        notes=(*prepared.notes, *prepared.summed.notes, *cuts.notes),
        audits=audit_sums(run, prepared),
        extremes=per_unit.extremes,
        unit_values=per_unit.values,
        seen_in=seen_in(prepared) if has_rows else (),
        unit_aucs=per_unit.unit_aucs,
    )
    return _catalogue(queries, aggregates) if shows_items else aggregates, rows


def unit_counts(experiment: Experiment, units: Units) -> list[VariantUnits]:
    """Analysed units of each variant that has some."""
    return [
        VariantUnits(variant, int(own.sum()), int(units.crosses[own].sum()))
        for place, variant in enumerate(experiment.variants)
        for own in (units.variant == place,)
        if own.any()
    ]


def _queries(run: Run, prepared: Prepared, rows: RowSums | None) -> MetricQueries:
    return MetricQueries(
        run.experiment,
        prepared.shape,
        run.engine,
        by_stretch=bool(prepared.placed.stretches),
        covered=prepared.covered,
        rows=rows,
    )


def _besides(
    experiment: Experiment, units: Sequence[VariantUnits], has_rows: bool, by_bucket: bool
) -> Besides:
    """What is taken of a source's values besides their sums."""
    few = deals_units(sum(one.units for one in units))
    return Besides(
        extremes=has_rows and experiment.privacy.min_units is None,
        buckets=by_bucket or bool(experiment.trust.aa_runs),
        by_units=few and not by_bucket,
        before=covariate_means(experiment),
    )


def _moments(by_source: Sequence[Row], more: Sequence[Row]) -> list[Row]:
    """All rows: those of sources with days at their end, and the others."""
    return [*sorted(by_source, key=lambda row: row[SLICE] == DAY), *more]


def _quantiles(
    queries: MetricQueries, wanted: Wanted, step: Step
) -> Mapping[str, Mapping[str, Quantile]]:
    if not (wanted.quantiles or wanted.spreads):
        return {}
    step(QUANTILE.title)
    return collect_quantiles(queries, wanted.quantiles, wanted.spreads)


def _catalogue(queries: MetricQueries, aggregates: Aggregates) -> Aggregates:
    """The aggregates with who was shown what, and how many items there are."""
    if queries.rows is None or queries.rows.catalogue is None:
        raise ValueError("nothing has read who was shown what")
    catalogue = queries.rows.catalogue
    items = listed_items(queries) | {*catalogue.reach.items}
    return replace(
        aggregates,
        reach=catalogue.reach,
        group_units=catalogue.group_units(),
        catalogue_size=len(items),
    )


def listed_items(queries: MetricQueries) -> set[str]:
    """The items of the log of items, if there is one."""
    if queries.shape.items is None:
        return set()
    return {str(item) for (item,) in queries.engine.rows("select item_id from items")}
