"""Compare windows that are no sums over days: quantiles, the catalogue, capped and adjusted."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from abeval.aggregates.aggregates import Aggregates, grouped
from abeval.aggregates.collect import listed_items
from abeval.aggregates.kernels.reach import Reach
from abeval.aggregates.quantiles import quantiles_of, values_of
from abeval.aggregates.source_values import by_unit
from abeval.aggregates.sums import sums_of
from abeval.inference.compare import Analysis, compare_all
from abeval.inference.comparison import Key
from abeval.metrics.definition import CATALOGUE, QUANTILE, Metric
from abeval.progress import Step
from abeval.time import time_sums
from abeval.time.day_sums import Places, Span
from abeval.time.windows import Window, spans


def cut_windows(
    timed: time_sums.TimedLogs, widths: Sequence[int], step: Step
) -> dict[Key, tuple[Window, ...]]:
    """Return windows of metrics that are no sums over days.

    These are such as have no sums, are capped or adjusted, or leave units without a value out.
    """
    windows: dict[Key, list[Window]] = {}
    experiment = timed.logs.read.experiment.at_one_look
    # Where the split changed, only sums over units are compared.
    of_rows = () if timed.logs.stretches else ("quantile", "catalogue")
    own = [
        m
        for m in timed.logs.metrics
        if m.kind in of_rows
        or (m.cap is not None and m.source.capped)
        or (m.known is not None and m.source.daily)
        or (experiment.inference.adjust != "none" and m.is_mean_or_ratio and m.source.daily)
    ]
    for source, group in grouped(own, lambda metric: metric.source).items():
        step(f"windows of {source}, one by one")
        read = _READERS.get(source, _totals)(timed, group)
        # Items × groups in every window are many: the catalogue has no rolling ones.
        by_kind = spans(len(timed.days), () if source is CATALOGUE else widths)
        for kind, span in [(kind, span) for kind, own in by_kind.items() for span in own]:
            units = _units_of(timed, span, by_entry=kind == "cumulative")
            window = read(_of_units(timed, units), span, units)
            # Catalogue metrics are tested by the jackknife, not by permutations.
            comparisons = compare_all(Analysis(experiment, group, window), permutations=0)
            for key, comparison in comparisons.items():
                windows.setdefault(key, []).append(Window(kind, span, comparison))
    return {key: tuple(of_key) for key, of_key in windows.items()}


def _units_of(timed: time_sums.TimedLogs, span: Span, by_entry: bool) -> Places:
    """Return the units active in a window; by entry, also those that entered by its end."""
    panel = timed.panel
    chosen = np.zeros(len(panel.entry), dtype=bool)
    chosen[panel.unit[panel.within(span)]] = True
    return np.flatnonzero(chosen | (by_entry & (panel.entry <= span[1])))


def _of_units(timed: time_sums.TimedLogs, units: Places) -> Aggregates:
    """Return aggregates with nothing but unit counts."""
    variants = timed.variants
    counts = np.bincount(timed.panel.units.variant[units], minlength=len(variants)).tolist()
    return Aggregates(
        units=dict(zip(variants, counts, strict=True)),
        # Not counted in a window: 1 says that there are some.
        facts={"clicks": 1, "scored": 1},
        stretches=timed.logs.stretches,
    )


Reader = Callable[[Aggregates, Span, Places], Aggregates]
"""Adds the sums of a window to its unit counts, from its days and its units."""


def _catalogue(timed: time_sums.TimedLogs, metrics: Sequence[Metric]) -> Reader:
    """Read who was shown what in a window."""
    catalogue = timed.logs.read.rows.catalogue

    def reach(span: Span) -> Reach:
        return catalogue.of_days(*(timed.first + day for day in span))

    # Items that could have been shown, over the whole log.
    whole = reach((0, len(timed.days) - 1))
    shown = {whole.items[item] for item in np.unique(whole.item).tolist()}
    size = len(listed_items(timed.logs.read) | shown)

    def read(window: Aggregates, span: Span, units: Places) -> Aggregates:
        groups = catalogue.group_units(units)
        return replace(window, reach=reach(span), group_units=groups, catalogue_size=size)

    return read


def _quantiles(timed: time_sums.TimedLogs, metrics: Sequence[Metric]) -> Reader:
    """Read the quantiles of a window."""
    events = values_of(timed.logs.read, metrics)

    def read(window: Aggregates, span: Span, units: Places) -> Aggregates:
        first, last = (timed.first + day for day in span)
        values = [one.of_days(units, first, last) for one in events]
        return replace(window, quantiles=quantiles_of(metrics, values))

    return read


def _totals(timed: time_sums.TimedLogs, metrics: Sequence[Metric]) -> Reader:
    """Read the totals by unit of a window, with what the units did before the period."""
    panel = timed.panel
    by_day, whole = timed.sources[metrics[0].source]
    columns = time_sums.columns_of(timed.logs.read, metrics)
    size = len(panel.entry)
    # Windows do not say what is left out.
    counted = [replace(metric, left_out=(), lacking=()) for metric in metrics]

    def read(window: Aggregates, span: Span, units: Places) -> Aggregates:
        rows = panel.within(span)
        unit = panel.unit[rows]
        now = {name: by_unit(unit, by_day.now[name][rows], size)[units] for name in columns}
        before = {name: whole.before[name][units] for name in columns}
        values = whole.at(units, now, before)
        slices = [one for metric in counted for one in values.slices(metric)]
        return replace(
            window,
            moments=sums_of(slices, values.groups),
            caps={m.name: values.caps(m) for m in metrics if m.cap is not None},
        )

    return read


_READERS = {CATALOGUE: _catalogue, QUANTILE: _quantiles}
