"""Windows that are no sums over days: each is the scorecard of the period cut to it.

Quantiles, the catalogue, capped and pre-period-adjusted values are computed anew in every window,
from what was read of the period by day, and compared by the scorecard's code. `time/analysis.py`
calls it, and takes windows and looks from it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.aggregates import Aggregates, VariantUnits
from abeval.aggregates.collect import listed_items
from abeval.aggregates.kernels.reach import Reach
from abeval.aggregates.quantiles import quantile_groups, quantiles_of, values_of
from abeval.aggregates.source_values import SourceValues, by_unit, units_at
from abeval.aggregates.sums import sums_of
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.metrics.definition import CATALOGUE, QUANTILE, Metric
from abeval.progress import Step
from abeval.time.day_sums import Span
from abeval.time.open import by_source
from abeval.time.time_sums import TimedLogs, columns_of
from abeval.time.windows import Window, spans

Key = tuple[str, str]

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
        by_kind = spans(len(timed.days), () if source is CATALOGUE else widths)
        for kind, span in [(kind, span) for kind, own in by_kind.items() for span in own]:
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
    variants = [*timed.logs.queries.experiment.variants]
    counts = np.bincount(timed.panel.units.variant[units], minlength=len(variants)).tolist()
    return Aggregates(
        moments=(),
        catalogue_size=None,
        units=[VariantUnits(name, n, 0) for name, n in zip(variants, counts, strict=True)],
        accounts=(),
        days=(),
        refused={},
        # Not counted in a window: 1 says that there are some.
        facts={"clicks": 1, "scored": 1},
        caps={},
        stretches=timed.logs.stretches,
    )


Reader = Callable[[Aggregates, Span, Places], Aggregates]
"""Adds the sums of a window to its unit counts, from its days and its units."""


def _catalogue(timed: TimedLogs, metrics: Sequence[Metric]) -> Reader:
    """Reads who was shown what in a window."""
    queries = timed.logs.queries
    if queries.rows is None or queries.rows.catalogue is None:
        raise ValueError("nothing has read who was shown what")
    catalogue = queries.rows.catalogue

    def reach(span: Span) -> Reach:
        return catalogue.of_days(*(timed.first + day for day in span))

    # Items that could have been shown, over the whole log.
    whole = reach((0, len(timed.days) - 1))
    shown = {whole.items[item] for item in np.unique(whole.item).tolist()}
    size = len(listed_items(queries) | shown)

    def read(window: Aggregates, span: Span, units: Places) -> Aggregates:
        groups = catalogue.group_units(units)
        return replace(window, reach=reach(span), group_units=groups, catalogue_size=size)

    return read


def _quantiles(timed: TimedLogs, metrics: Sequence[Metric]) -> Reader:
    """Reads the quantiles of a window."""
    events = [values_of(timed.logs.queries, group[0]) for group in quantile_groups(metrics)]

    def read(window: Aggregates, span: Span, units: Places) -> Aggregates:
        days = [timed.first + day for day in span]
        values = [one.of_days(units, days[0], days[1]) for one in events]
        return replace(window, quantiles=quantiles_of(metrics, values))

    return read


def _totals(timed: TimedLogs, metrics: Sequence[Metric]) -> Reader:
    """Reads the totals by unit of a window, with what the units did before the period."""
    queries, panel = timed.logs.queries, timed.panel
    sums = timed.sources[metrics[0].source]
    variants = [*queries.experiment.variants]
    columns = columns_of(queries.shape, variants, metrics)
    size = len(panel.entry)
    # Windows are not by segment, and do not say what is left out.
    whole = panel.units._replace(segments={})
    counted = [replace(metric, left_out=(), zeros=()) for metric in metrics]

    def read(window: Aggregates, span: Span, units: Places) -> Aggregates:
        rows = np.flatnonzero((panel.day >= span[0]) & (panel.day <= span[1]))
        unit = panel.unit[rows]
        now = {name: by_unit(unit, sums.by_day[name][rows], size)[units] for name in columns}
        before = {name: sums.before[name][units] for name in columns}
        chosen = units_at(whole, units)
        values = SourceValues(queries.experiment, queries.shape, chosen, now, before)
        slices = [one for metric in counted for one in values.slices(metric)]
        return replace(
            window,
            moments=sums_of(slices, values.groups),
            caps={m.name: values.caps(m) for m in metrics if m.cap is not None},
        )

    return read


_READERS = {CATALOGUE: _catalogue, QUANTILE: _quantiles}
