"""Estimates of parts of a log: gaps between splits, and cut-offs by the value of a column.

`offline/replay.py` calls it for the options `split` and `k_by`, with the `Estimates` of each part;
what comes back goes into the `ReplayResult`.
"""

from collections.abc import Iterator, Mapping, Sequence

from abeval.offline.estimates import Difference, Estimates, Side, compare_sides
from abeval.offline.inference import Columns, compare, estimate
from abeval.offline.metrics import Definition, OfflineMetric
from abeval.results.replay import CutByValue, Gap, PairRow, ReplayRow
from abeval.stats.records import Bools


def gaps(parts: Mapping[str, Estimates]) -> Iterator[Gap]:
    """How much larger each metric is in the first part than in each other.

    Parts are compared in pairs by unit; a unit that is missing from a part adds nothing to it.
    """
    (first, of_first), *others = parts.items()
    for name, of_other in others:
        for model, traffic, metric in of_other.cells():
            if model not in of_first.models:
                continue
            after, before = Side(of_first, model), Side(of_other, model)
            sides = after.value(metric, traffic), before.value(metric, traffic)
            reason = sides[0].why_not_compared or sides[1].why_not_compared
            difference = compare_sides(before, after, metric, traffic, reason)
            yield Gap(model, traffic, metric.id, first, name, *difference)


def cut_by_value(
    column: str, ks: Mapping[str, int], parts: Mapping[str, Estimates], control: str | None
) -> CutByValue:
    """Metrics of requests whose cut-off depends on the value of a column.

    `parts` has the estimates of the requests with each value, at the cut-off that `ks` has for it.
    """
    some = next(iter(parts.values()))
    rows: list[ReplayRow] = []
    pairs: list[PairRow] = []
    for definition in dict.fromkeys(m.definition for m in some.metrics):
        if definition.family != "list":
            continue
        name = OfflineMetric(definition).id.replace(definition.name, f"{definition.name}@{column}")
        for traffic in some.traffics:
            mask, models = some.mask(traffic), _summed(definition, ks, parts, traffic)
            rows += _rows((traffic, name), models, mask, some.alpha)
            pairs += _pairs((traffic, name), models, control, mask, some.alpha)
    return CutByValue(column, tuple(ks.items()), tuple(rows), tuple(pairs))


def _summed(
    definition: Definition, ks: Mapping[str, int], parts: Mapping[str, Estimates], traffic: str
) -> dict[str, Columns]:
    """The variables of each model that all parts have, summed over the parts."""
    some = next(iter(parts.values()))
    models = [m for m in some.models if all(m in part.models for part in parts.values())]
    return {
        model: _sum(
            [
                part.columns(model, OfflineMetric(definition, ks[value]), traffic)
                for value, part in parts.items()
            ]
        )
        for model in models
    }


def _sum(parts: Sequence[Columns]) -> Columns:
    above, below = sum(part.above for part in parts), sum(part.below for part in parts)
    sums = parts[0].above * 0 + above, parts[0].below * 0 + below
    return Columns(*sums, None, "ratio", parts[0].is_share)


def _rows(
    head: tuple[str, str], models: Mapping[str, Columns], mask: Bools, alpha: float
) -> Iterator[ReplayRow]:
    for model, columns in models.items():
        value, counted = estimate(columns, mask, alpha), float(columns.below[mask].sum())
        yield value.row((model, *head), int(mask.sum()), counted)


def _pairs(
    head: tuple[str, str],
    models: Mapping[str, Columns],
    control: str | None,
    mask: Bools,
    alpha: float,
) -> Iterator[PairRow]:
    first = control if control in models else next(iter(models), None)
    for model, columns in models.items():
        if first is None or model == first:
            continue
        before, after = (estimate(models[m], mask, alpha).value for m in (first, model))
        effect = compare(models[first], columns, mask, alpha)
        pair = (first, model, *head, before, after)
        yield Difference.of(effect, None).row(pair, int(mask.sum()))
