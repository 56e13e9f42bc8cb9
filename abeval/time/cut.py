"""Windows that are no sums over days: each is the scorecard of the period cut to it.

Quantiles, the catalogue, capped and pre-period-adjusted values are computed anew in every window,
by the scorecard's own code. `time/analysis.py` calls it, and takes windows and looks from it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.moment_rows import MOMENT_COLUMNS
from abeval.aggregates.quantile_values import QueriedValues
from abeval.aggregates.quantiles import events_of, quantile_groups, quantiles_of
from abeval.aggregates.terms import Row
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Comparison
from abeval.metrics.definition import Metric
from abeval.metrics.sources import CATALOGUE, QUANTILE
from abeval.steps import Step
from abeval.time.day_sums import Span
from abeval.time.open import OpenLogs, by_source
from abeval.time.time_sums import load_days
from abeval.time.windows import Kind, spans

Key = tuple[str, str]


@dataclass(frozen=True)
class CutWindow:
    """The effect in one window on the calendar."""

    kind: Kind
    span: Span
    comparison: Comparison


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
    logs: OpenLogs, days: Sequence[str], widths: Sequence[int], step: Step
) -> dict[Key, tuple[CutWindow, ...]]:
    """Every window of the metrics that `cut_metrics` names.

    Args:
        logs: Logs whose table `entry` is written, as `time_sums.sums_of` leaves them.
        days: Every day of the log.
        widths: Days of rolling windows.
        step: Called with the name of each step as it begins.
    """
    windows: dict[Key, list[CutWindow]] = {}
    experiment = _at_a_fixed_horizon(logs.queries.experiment)
    changed = bool(logs.stretches)
    for source, group in by_source(cut_metrics(experiment, logs.metrics, changed)).items():
        step(f"windows of {source}, one by one")
        queries = replace(logs.queries, units="cut_units")
        read = _READERS.get(source, _totals)(queries, group)
        # Items × groups in every window are many: the catalogue has no rolling ones.
        for kind, span in spans(len(days), () if source is CATALOGUE else widths):
            first, last = (days[day] for day in span)
            units = _cut_units(queries, first, last, by_entry=kind == "cumulative")
            units = replace(units, stretches=logs.stretches)
            # Catalogue metrics are tested by the jackknife, not by permutations.
            comparisons = Analysis(experiment, group, read(units), permutations=0).comparisons
            for key, comparison in comparisons.items():
                windows.setdefault(key, []).append(CutWindow(kind, span, comparison))
    return {key: tuple(of_key) for key, of_key in windows.items()}


def _at_a_fixed_horizon(experiment: Experiment) -> Experiment:
    inference = experiment.inference.model_copy(update={"looks": "fixed"})
    return experiment.model_copy(update={"inference": inference})


def _cut_units(queries: MetricQueries, first: str, last: str, by_entry: bool) -> Aggregates:
    """Write `cut` and `cut_units` for a window; aggregates with nothing but its unit counts."""
    engine, nothing = queries.engine, pd.DataFrame()
    engine.view(
        "cut",
        f"select date {literal(first)} as first_day, date {literal(last)} as last_day, "
        f"{int(by_entry)} as by_entry",
    )
    engine.table("cut_units", query("time/cut_units"))
    return Aggregates(
        moments=pd.DataFrame(columns=list(MOMENT_COLUMNS)),
        reach=nothing,
        group_units=nothing,
        catalogue_size=None,
        units=engine.frame(query("units/unit_counts", queries.units)),
        accounts=nothing,
        days=nothing,
        refused={},
        # Not counted in a window: 1 says that there are some.
        facts={"clicks": 1, "scored": 1},
        caps={},
    )


Reader = Callable[[Aggregates], Aggregates]
"""Adds the sums of a window, whose units are in `cut_units`, to its unit counts."""


def _catalogue(queries: MetricQueries, metrics: Sequence[Metric]) -> Reader:
    """Reads who was shown what in a window."""
    engine = queries.engine
    engine.table("shown_day", query("time/shown_day"))
    # Items that could have been shown, over the whole log.
    items = {row[0] for row in engine.rows("select distinct item_id from shown_day")}
    if queries.shape.items is not None:
        items |= {row[0] for row in engine.rows("select item_id from items")}

    def read(window: Aggregates) -> Aggregates:
        return replace(
            window,
            reach=engine.frame(query("time/cut_reach")),
            group_units=engine.frame(query("catalogue/group_units", queries.units)),
            catalogue_size=len(items),
        )

    return read


def _quantiles(queries: MetricQueries, metrics: Sequence[Metric]) -> Reader:
    """Reads the quantiles of a window, by the queries of the whole period."""
    groups = quantile_groups(metrics)
    for i, group in enumerate(groups):
        queries.engine.table(f"dated_event_{i}", events_of(queries, group[0]))
    values = [
        QueriedValues(
            queries,
            group[0],
            f"select e.variant, e.unit_id, e.value from dated_event_{i} e cross join cut c "
            "where e.day between c.first_day and c.last_day",
        )
        for i, group in enumerate(groups)
    ]

    def read(window: Aggregates) -> Aggregates:
        return replace(window, quantiles=quantiles_of(metrics, values))

    return read


def _totals(queries: MetricQueries, metrics: Sequence[Metric]) -> Reader:
    """Reads the totals by unit of a window, with what the units did before the period."""
    relation = load_days(queries, metrics[0].source)
    of_cut = f"""
    select d.* from {relation} d cross join cut c
    where not d.in_period or d.day between c.first_day and c.last_day
    """

    def read(window: Aggregates) -> Aggregates:
        queries.show_days(of_cut)
        queries.total_units(metrics[0].source)
        sums = queries.of_totals(metrics)
        return replace(window, moments=_moments(sums.rows), caps=sums.caps)

    return read


_READERS = {CATALOGUE: _catalogue, QUANTILE: _quantiles}


def _moments(rows: Sequence[Row]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(MOMENT_COLUMNS))
