"""Windows of what does not add up over days: each is the scorecard of a period cut to it.

Quantiles, the catalogue, capped values and values adjusted for the time before are worked out anew
in every window, from tables that one more pass over the log has left, by the scorecard's own code.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from abeval.aggregates.aggregates import MOMENT_COLUMNS, Aggregates
from abeval.aggregates.metric_queries import SourceSums
from abeval.aggregates.quantiles import QuantileSums, dated_events, quantile_groups, quantile_sums
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Comparison
from abeval.metrics.definition import Metric
from abeval.metrics.sources import CATALOGUE, QUANTILE, Source
from abeval.steps import Step
from abeval.time.collect import load_days
from abeval.time.opened import Opened
from abeval.time.sums import Span
from abeval.time.windows import Kind, spans

Key = tuple[str, str]


@dataclass(frozen=True)
class CutWindow:
    """The effect in one window on the calendar."""

    kind: Kind
    span: Span
    found: Comparison


def cut_metrics(experiment: Experiment, metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics whose windows are worked out one by one."""
    adjusts = experiment.inference.adjust != "none"
    return [
        m
        for m in metrics
        if m.kind in ("quantile", "catalogue")
        or m.cap is not None
        or (adjusts and m.kind in ("mean", "ratio") and m.source.daily)
    ]


def cut_windows(
    opened: Opened,
    metrics: Sequence[Metric],
    days: Sequence[str],
    widths: Sequence[int],
    step: Step,
) -> dict[Key, tuple[CutWindow, ...]]:
    """Every window of the metrics.

    Args:
        opened: Logs whose `entry` table is written, as `collect.sums_of` leaves them.
        metrics: As `cut_metrics` has them.
        days: Every day of the log.
        widths: Days of rolling windows.
        step: Told what is being worked out.
    """
    found: dict[Key, list[CutWindow]] = {}
    experiment = _at_a_fixed_horizon(opened.run.experiment)
    engine = opened.run.engine
    engine.table("all_units", "select * from units")
    by_source: dict[Source, list[Metric]] = {}
    for metric in metrics:
        by_source.setdefault(metric.source, []).append(metric)
    for source, chosen in by_source.items():
        step(f"windows of {source}, one by one")
        for kind, span, part in _cuts(opened, source, chosen, days, widths):
            # Of the catalogue, tested by the jackknife instead of re-deals.
            comparisons = Analysis(experiment, chosen, part, permutations=0).comparisons
            for key, one in comparisons.items():
                found.setdefault(key, []).append(CutWindow(kind, span, one))
    engine.table("units", "select * from all_units")
    return {key: tuple(several) for key, several in found.items()}


def _at_a_fixed_horizon(experiment: Experiment) -> Experiment:
    inference = experiment.inference.model_copy(update={"looks": "fixed"})
    return experiment.model_copy(update={"inference": inference})


def _cuts(
    opened: Opened,
    source: Source,
    metrics: Sequence[Metric],
    days: Sequence[str],
    widths: Sequence[int],
) -> Iterator[tuple[Kind, Span, Aggregates]]:
    """One window after the other, so that only one is held."""
    run, engine = opened.run, opened.run.engine
    engine.table("units", "select * from all_units")
    _prepare(opened, source, metrics)
    # Items × groups in every window are many: the catalogue has no rolling ones.
    for kind, span in spans(len(days), () if source is CATALOGUE else widths):
        first, last = (f"date {literal(days[day])}" for day in span)
        by_entry = int(kind == "cumulative")
        engine.view(
            "cut", f"select {first} as first_day, {last} as last_day, {by_entry} as by_entry"
        )
        engine.table("units", query("time/cut_units"))
        units = engine.frame(query("units/unit_counts"))
        if source is CATALOGUE:
            reach = engine.frame(query("time/cut_reach"))
            groups = engine.frame(query("catalogue/group_units"))
            yield kind, span, _aggregates(units, reach=reach, groups=groups, size=_size(opened))
        elif source is QUANTILE:
            yield kind, span, _aggregates(units, quantiles=_quantiles(opened, metrics))
        else:
            engine.view("source_day", _OF_CUT)
            engine.table("source_unit", query("units/unit_total"))
            yield kind, span, _aggregates(units, run.of_totals(metrics))


_OF_CUT = """
select d.* from whole_day d cross join cut c
where not d.in_period or d.day between c.first_day and c.last_day
"""


def _prepare(opened: Opened, source: Source, metrics: Sequence[Metric]) -> None:
    """What every window of the source reads."""
    run, engine = opened.run, opened.run.engine
    if source is CATALOGUE:
        engine.table("shown_day", query("time/shown_day"))
    elif source is QUANTILE:
        for i, group in enumerate(quantile_groups(metrics)):
            engine.table(f"dated_event_{i}", dated_events(run, group[0]))
    else:
        load_days(opened, source, engine)
        engine.table("whole_day", "select * from source_day")


def _quantiles(opened: Opened, metrics: Sequence[Metric]) -> QuantileSums:
    """Quantiles of one window, by the queries of the whole."""
    return quantile_sums(
        opened.run,
        metrics,
        [
            f"select e.variant, e.unit_id, e.value from dated_event_{i} e cross join cut c "
            "where e.day between c.first_day and c.last_day"
            for i, _ in enumerate(quantile_groups(metrics))
        ],
    )


def _size(opened: Opened) -> int:
    """Items that could have been shown, over the whole log."""
    items = {row[0] for row in opened.run.engine.rows("select distinct item_id from shown_day")}
    if opened.shape.items is not None:
        items |= {row[0] for row in opened.run.engine.rows("select item_id from items")}
    return len(items)


def _aggregates(
    units: pd.DataFrame,
    sums: SourceSums | None = None,
    *,
    quantiles: QuantileSums | None = None,
    reach: pd.DataFrame | None = None,
    groups: pd.DataFrame | None = None,
    size: int | None = None,
) -> Aggregates:
    """The waist of one window: what the scorecard's comparison of it reads."""
    rows = [*(sums.rows if sums else ()), *(quantiles.rows if quantiles else ())]
    nothing = pd.DataFrame()
    return Aggregates(
        moments=pd.DataFrame(rows, columns=list(MOMENT_COLUMNS)),
        reach=nothing if reach is None else reach,
        group_units=nothing if groups is None else groups,
        catalogue_size=size,
        units=units,
        accounts=nothing,
        days=nothing,
        refused={},
        # Whether the log has clicks and scores at all was asked before.
        facts={"clicks": 1, "scored": 1},
        caps={} if sums is None else sums.caps,
        quantiles={} if quantiles is None else quantiles.quantiles,
    )
