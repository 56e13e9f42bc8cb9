"""Runs the queries of an experiment in order, and returns its aggregates.

It gets a `Run` and metrics from `pipeline.py` or `api/`, which hand the aggregates to
`inference/`; `store/collect.py` calls `gathered` on logs that it prepared itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from abeval.aggregates.aggregates import Aggregates, Quantile
from abeval.aggregates.audits import audit_sums, no_audits, seen_in
from abeval.aggregates.buckets import deals_units
from abeval.aggregates.cells import joined_cells
from abeval.aggregates.cuts import CutSums, cut_sums
from abeval.aggregates.lacking import lacking_sums
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.moment_rows import DAY, MOMENT_COLUMNS
from abeval.aggregates.per_unit import Besides, per_unit_sums
from abeval.aggregates.quantiles import collect_quantiles
from abeval.aggregates.row_pass import KERNELS, RowSums, row_sums
from abeval.aggregates.spreads import spread_metrics
from abeval.aggregates.terms import Row
from abeval.aggregates.wanted import Wanted, wanted_of
from abeval.engines.protocol import ArrayEngine
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
from abeval.metrics.definition import Metric
from abeval.metrics.sources import CATALOGUE, QUANTILE
from abeval.steps import Step


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
    return collect_prepared(run, metrics, sums, by_bucket).aggregates


class Collected(NamedTuple):
    """Aggregates, and the logs that they are of, for more sums of the same units."""

    aggregates: Aggregates
    prepared: Prepared


def collect_prepared(
    run: Run, metrics: Sequence[Metric], sums: Sums = one_pass, by_bucket: bool = False
) -> Collected:
    """Aggregate the logs as `collect` does, and keep what was read of them."""
    read = [*metrics, *covariate_means(run.experiment), *spread_metrics(metrics)]
    by_arrays = KERNELS if isinstance(run.engine, ArrayEngine) else frozenset()
    prepared = prepare(run, read, sums=sums, cuts=tuple(run.experiment.cuts), by_arrays=by_arrays)
    check_some_left(run.experiment, prepared, run.engine)
    aggregates = gathered(run, metrics, prepared, sums is one_pass, by_bucket)
    check_all_counted(prepared, aggregates.accounts)
    return Collected(shown(run.experiment, aggregates), prepared)


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
    wanted = wanted_of(experiment, metrics, prepared)
    rows = row_sums(run, prepared, wanted)
    queries = _queries(run, prepared, rows)
    units = engine.frame(query("units/unit_counts"))
    besides = _besides(experiment, prepared, units, audited, by_bucket)
    per_unit = per_unit_sums(queries, wanted, besides, run.step)
    lacking = lacking_sums(experiment, prepared, queries) if prepared.lacking else []
    cuts = _cuts(queries, wanted, units, run.step) if prepared.summed.has_rows else CutSums()
    quantiles = _quantiles(queries, wanted, run.step)
    catalogue = _catalogue(run, prepared.shape, rows, CATALOGUE in wanted.sources)
    counted = accounts(prepared, engine)
    return Aggregates(
        moments=_moments(per_unit.rows, [*lacking, *cuts.rows]),
        caps=per_unit.caps,
        reach=catalogue.reach,
        group_units=catalogue.group_units,
        catalogue_size=catalogue.size,
        units=units,
        accounts=counted,
        days=engine.frame(query("units/days")),
        refused=wanted.refused,
        facts=facts(prepared, engine) | count_other_variants(experiment, counted, engine),
        quantiles=quantiles,
        buckets=per_unit.buckets,
        entered=prepared.entries.counts,
        stretches=prepared.entries.stretches,
        notes=(*prepared.notes, *prepared.summed.notes, *cuts.notes),
        audits=audit_sums(run, prepared) if audited else no_audits(),
        extremes=per_unit.extremes,
        unit_values=per_unit.values,
        seen_in=seen_in(experiment, engine) if audited else pd.DataFrame(),
        unit_aucs=per_unit.unit_aucs,
    )


def _queries(run: Run, prepared: Prepared, rows: RowSums | None) -> MetricQueries:
    return MetricQueries(
        run.experiment,
        prepared.shape,
        run.engine,
        by_stretch=bool(prepared.entries.stretches),
        covered=prepared.covered,
        rows=rows,
    )


def _besides(
    experiment: Experiment, prepared: Prepared, units: pd.DataFrame, audited: bool, by_bucket: bool
) -> Besides:
    """What is taken of a source's values besides their sums."""
    few = prepared.summed.all_units and deals_units(int(units["units"].sum()))
    return Besides(
        extremes=audited and experiment.privacy.min_units is None,
        buckets=by_bucket or bool(experiment.trust.aa_runs),
        by_units=few and not by_bucket,
        before=covariate_means(experiment),
    )


def _moments(by_source: Sequence[Row], more: Sequence[Row]) -> pd.DataFrame:
    """All rows: those of sources with days at their end, and the others."""
    ordered = sorted(by_source, key=lambda row: row[1] == DAY)
    return pd.DataFrame([*ordered, *more], columns=list(MOMENT_COLUMNS))


def _cuts(queries: MetricQueries, wanted: Wanted, units: pd.DataFrame, step: Step) -> CutSums:
    of_variant = dict(zip(units["variant"], map(int, units["units"]), strict=True))
    return cut_sums(queries, wanted.metrics, of_variant, step)


def _quantiles(
    queries: MetricQueries, wanted: Wanted, step: Step
) -> Mapping[str, Mapping[str, Quantile]]:
    if not (wanted.quantiles or wanted.spreads):
        return {}
    step(QUANTILE.title)
    return collect_quantiles(queries, wanted.quantiles, wanted.spreads)


class _Catalogue(NamedTuple):
    """Who was shown what, and how many items there are; empty where no metric asks for it."""

    reach: pd.DataFrame
    group_units: pd.DataFrame
    size: int | None


def _catalogue(run: Run, shape: LogShape, rows: RowSums | None, wanted: bool) -> _Catalogue:
    run.step("catalogue" if wanted else "accounting")
    if not wanted:
        return _Catalogue(pd.DataFrame(), pd.DataFrame(), None)
    reach = None if rows is None else rows.reach
    if reach is None:
        reach = run.engine.frame(query("catalogue/reach"))
    items = set(reach["item_id"].unique())
    if shape.items is not None:
        items |= {row[0] for row in run.engine.rows("select item_id from items")}
    return _Catalogue(reach, run.engine.frame(query("catalogue/group_units")), len(items))
