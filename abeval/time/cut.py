"""Windows that are no sums over days: each is the scorecard of the period cut to it.

Quantiles, the catalogue, capped and pre-period-adjusted values are computed anew in every window:
the first two by the scorecard's own queries, values of units by arrays, and all are compared by the
scorecard's code. `time/analysis.py` calls it, and takes windows and looks from it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.moment_rows import CAPPED, COVARIATES, MOMENT_COLUMNS, SEGMENT, WHOLE
from abeval.aggregates.quantiles import events_of, quantile_groups, quantiles_of
from abeval.aggregates.terms import Row, Terms
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.logs.unit_arrays import Units, Whole
from abeval.metrics.definition import Metric, RowTerm, Term
from abeval.metrics.sources import CATALOGUE, QUANTILE
from abeval.steps import Step
from abeval.time.day_sums import Span
from abeval.time.open import by_source
from abeval.time.panel import by_unit, columns_of, values_of
from abeval.time.time_sums import TimedLogs
from abeval.time.unit_sums import Group, groups_of, slice_rows
from abeval.time.windows import Window, spans

Key = tuple[str, str]

Caps = tuple[int, int | None]

Places = NDArray[np.int64]


def cut_metrics(
    experiment: Experiment, metrics: Sequence[Metric], changed: bool = False
) -> list[Metric]:
    """The metrics whose windows are computed one by one.

    Args:
        experiment: Whether it adjusts.
        metrics: All metrics.
        changed: Whether the split changed: only sums over units are then compared.
    """
    adjusts = experiment.inference.adjust != "none"
    return [
        m
        for m in metrics
        if (m.kind in ("quantile", "catalogue") and not changed)
        or (m.cap is not None and m.source.capped)
        or (adjusts and m.is_mean_or_ratio and m.source.daily)
    ]


def cut_windows(
    timed: TimedLogs, widths: Sequence[int], step: Step
) -> dict[Key, tuple[Window, ...]]:
    """Every window of the metrics that `cut_metrics` names.

    Args:
        timed: The logs.
        widths: Days of rolling windows.
        step: Called with the name of each step as it begins.
    """
    windows: dict[Key, list[Window]] = {}
    logs = timed.logs
    experiment = _at_a_fixed_horizon(logs.queries.experiment)
    changed = bool(logs.stretches)
    for source, group in by_source(cut_metrics(experiment, logs.metrics, changed)).items():
        step(f"windows of {source}, one by one")
        read = _READERS.get(source, _totals)(timed, group)
        # Items × groups in every window are many: the catalogue has no rolling ones.
        for kind, span in spans(len(timed.days), () if source is CATALOGUE else widths):
            units = units_of(timed, span, by_entry=kind == "cumulative")
            window = read(_of_units(timed, units), span, units)
            # Catalogue metrics are tested by the jackknife, not by permutations.
            comparisons = Analysis(experiment, group, window, permutations=0).comparisons
            for key, comparison in comparisons.items():
                windows.setdefault(key, []).append(Window(kind, span, comparison))
    return {key: tuple(of_key) for key, of_key in windows.items()}


def _at_a_fixed_horizon(experiment: Experiment) -> Experiment:
    inference = experiment.inference.model_copy(update={"looks": "fixed"})
    return experiment.model_copy(update={"inference": inference})


def units_of(timed: TimedLogs, span: Span, by_entry: bool) -> Places:
    """The units that are active in a window, or by entry those too that entered by its end."""
    panel = timed.panel
    chosen = np.zeros(len(panel.entry), dtype=bool)
    chosen[panel.unit[(panel.day >= span[0]) & (panel.day <= span[1])]] = True
    return np.flatnonzero(chosen | (by_entry & (panel.entry <= span[1])))


def _of_units(timed: TimedLogs, units: Places) -> Aggregates:
    """Aggregates with nothing but unit counts."""
    nothing, variants = pd.DataFrame(), list(timed.logs.queries.experiment.variants)
    counts = np.bincount(timed.panel.units.variant[units], minlength=len(variants))
    return Aggregates(
        moments=pd.DataFrame(columns=list(MOMENT_COLUMNS)),
        reach=nothing,
        group_units=nothing,
        catalogue_size=None,
        units=pd.DataFrame({"variant": variants, "units": counts, "crossovers": 0}),
        accounts=nothing,
        days=nothing,
        refused={},
        # Not counted in a window: 1 says that there are some.
        facts={"clicks": 1, "scored": 1},
        caps={},
        stretches=timed.logs.stretches,
    )


Reader = Callable[[Aggregates, Span, Places], Aggregates]
"""Adds the sums of a window to its unit counts, from its days and its units."""


def _show(timed: TimedLogs, span: Span, units: Places) -> MetricQueries:
    """Show the days of a window as `cut` and its units as `cut_units`; queries that read them."""
    engine = timed.logs.queries.engine
    first, last = (f"date {literal(timed.days[day])}" for day in span)
    engine.view("cut", f"select {first} as first_day, {last} as last_day")
    numbers = timed.panel.units.hash[units].astype(np.int64)
    engine.add_frame("chosen_unit", pd.DataFrame({"chosen_unit_id": numbers}))
    engine.table("cut_units", query("time/cut_units"))
    return replace(timed.logs.queries, units="cut_units")


def _catalogue(timed: TimedLogs, metrics: Sequence[Metric]) -> Reader:
    """Reads who was shown what in a window."""
    engine = timed.logs.queries.engine
    engine.table("shown_day", query("time/shown_day"))
    # Items that could have been shown, over the whole log.
    items = {row[0] for row in engine.rows("select distinct item_id from shown_day")}
    if timed.logs.queries.shape.items is not None:
        items |= {row[0] for row in engine.rows("select item_id from items")}

    def read(window: Aggregates, span: Span, units: Places) -> Aggregates:
        queries = _show(timed, span, units)
        return replace(
            window,
            reach=engine.frame(query("time/cut_reach")),
            group_units=engine.frame(query("catalogue/group_units", queries.units)),
            catalogue_size=len(items),
        )

    return read


def _quantiles(timed: TimedLogs, metrics: Sequence[Metric]) -> Reader:
    """Reads the quantiles of a window, by the queries of the whole period."""
    groups = quantile_groups(metrics)
    for i, group in enumerate(groups):
        sql = events_of(timed.logs.queries, group[0])
        timed.logs.queries.engine.table(f"dated_event_{i}", sql)
    events = [
        f"select e.variant, e.unit_id, e.value from dated_event_{i} e cross join cut c "
        "where e.day between c.first_day and c.last_day"
        for i in range(len(groups))
    ]

    def read(window: Aggregates, span: Span, units: Places) -> Aggregates:
        queries = _show(timed, span, units)
        return replace(window, quantiles=quantiles_of(queries, metrics, events))

    return read


def _totals(timed: TimedLogs, metrics: Sequence[Metric]) -> Reader:
    """Reads the totals by unit of a window, with what the units did before the period."""
    queries, panel = timed.logs.queries, timed.panel
    variants, size = list(queries.experiment.variants), len(panel.entry)
    sums = timed.sources[metrics[0].source]
    order = np.argsort(panel.day, kind="stable")
    bounds = np.searchsorted(panel.day[order], np.arange(len(timed.days) + 1))
    unit = panel.unit[order]
    columns = {n: sums.by_day[n][order] for n in columns_of(queries.shape, variants, metrics)}
    stretch = panel.units.stretch * bool(timed.logs.stretches)

    def read(window: Aggregates, span: Span, units: Places) -> Aggregates:
        rows = slice(bounds[span[0]], bounds[span[1] + 1])
        now = {name: by_unit(unit[rows], column[rows], size) for name, column in columns.items()}
        groups = groups_of(panel.units.variant[units], stretch[units], variants)
        values = _Values(queries, panel.units, now, sums.before, units, groups)
        of_metrics = [_rows(values, metric) for metric in metrics]
        caps = {m.name: caps for m, (_, caps) in zip(metrics, of_metrics, strict=True) if caps}
        moments = pd.DataFrame(
            [row for rows, _ in of_metrics for row in rows], columns=list(MOMENT_COLUMNS)
        )
        return replace(window, moments=moments, caps=caps)

    return read


_READERS = {CATALOGUE: _catalogue, QUANTILE: _quantiles}


class _Values(NamedTuple):
    """The units of a window: what all units did in it and before the period, and its own units."""

    queries: MetricQueries
    units: Units
    now: Mapping[str, Whole]
    before: Mapping[str, Whole]
    chosen: Places
    groups: Sequence[Group]

    def of(self, term: Term | None, sums: Mapping[str, Whole]) -> Whole:
        return values_of(self.queries, self.units, term, sums)[self.chosen]


def _rows(values: _Values, metric: Metric) -> tuple[list[Row], Caps | None]:
    """The sums of a metric in the slices that it is compared by, and its caps, if it has some."""
    terms = Terms("y", "x", "y0", "x0", "z")
    if metric.per is None:
        terms = terms._replace(x="1", x0="1")
    columns = {
        "y": values.of(metric.value, values.now),
        "x": values.of(metric.per, values.now),
        "y0": values.of(metric.value, values.before),
        "x0": values.of(metric.per, values.before),
        "z": values.units.is_new[values.chosen].astype(np.int64),
    }
    caps: Caps | None = None
    slice_name, capped = WHOLE, columns
    if metric.cap is not None:
        of_x = None if metric.per is None else _cap(columns["x"], metric.cap)
        caps, slice_name = (_cap(columns["y"], metric.cap), of_x), CAPPED
        capped = columns | {
            name: np.minimum(columns[name], cap)
            for names, cap in zip((("y", "y0"), ("x", "x0")), caps, strict=True)
            for name in names
            if cap is not None
        }
    rows = slice_rows(metric, (slice_name, ""), terms, capped, values.groups)
    rows += _covariate_rows(values, metric, columns)
    for name, labels in values.units.segments.items():
        codes = labels.code[values.chosen]
        for code in np.unique(codes):
            inside = [
                one._replace(units=one.units[codes[one.units] == code]) for one in values.groups
            ]
            now = Terms("y", terms.x)
            cell = SEGMENT + name, str(labels.names[code])
            rows += slice_rows(
                metric, cell, now, columns, [one for one in inside if len(one.units)]
            )
    return rows, caps


def _cap(values: Whole, level: float) -> int:
    """The value below which this share of the units lie, as `metric/cap` has it."""
    rank = math.ceil(1 + level * (len(values) - 1))
    return int(np.partition(values, rank - 1)[rank - 1]) if len(values) else 0


def _covariate_rows(values: _Values, metric: Metric, columns: Mapping[str, Whole]) -> list[Row]:
    """Sums with each pair of covariates in place of the metric's own earlier values."""
    if not metric.covariates:
        return []
    of_unit = any(isinstance(t, RowTerm) and t.of_unit for t in metric.covariates)
    own = [columns["y0"]] if metric.per is None else [columns["y0"], columns["x0"]]
    others = [values.of(t, values.now if of_unit else values.before) for t in metric.covariates]
    new = columns["z"] * (not of_unit)
    terms = Terms("y", "x", "y0", "x0", "z")
    return [
        row
        for (i, first), (j, second) in combinations(enumerate([*own, *others]), 2)
        for row in slice_rows(
            metric,
            (COVARIATES, f"{i},{j}"),
            terms,
            dict(columns) | {"y0": first, "x0": second, "z": new},
            values.groups,
        )
    ]
