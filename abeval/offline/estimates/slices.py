"""Parts of a log: splits with the gap between them, and cut-offs by the value of a column."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from abeval.engines.protocol import Engine, whole_number
from abeval.engines.sql import literal, quoted
from abeval.errors import ExperimentError, LogError
from abeval.experiment.problems import near_miss
from abeval.logs.mapping import LogColumns
from abeval.logs.shape import own_name
from abeval.offline.candidates.traffic import Mask
from abeval.offline.estimates.estimates import Estimates
from abeval.offline.estimates.inference import Columns, compare, estimate
from abeval.offline.estimates.pairs import Compared, Side, compared, pair_row
from abeval.offline.metrics.definitions import Definition, OfflineMetric
from abeval.results.replay import CutByValue, Gap, PairRow, ReplayRow, Split

Periods = Mapping[str, tuple[str, str]]

_KNOWN = ("train", "training", "valid", "validation", "test")
"""What splits are mostly called, in the order of their use."""


@dataclass(frozen=True)
class Part:
    """Some rows of a log.

    Attributes:
        name: What they are called.
        where: SQL over the impressions.
    """

    name: str
    where: str


def parts_of_column(engine: Engine, log: LogColumns, column: str) -> list[Part]:
    """A part for each value of a column of the impressions, in the order of their use.

    Raises:
        LogError: There is no such column, or it has more than a dozen values.
    """
    name = quoted(own_name(log_column(log, column)))
    found = engine.rows(
        f"select distinct cast({name} as varchar) from impressions where in_period "
        f"and {name} is not null order by 1 limit 13"
    )
    values = [str(value) for (value,) in found]
    if len(values) > 12:
        what = f"column {column!r} has more than a dozen values: it names no split"
        raise LogError(what, "name a column such as one of train, validation and test")
    values.sort(key=lambda v: _KNOWN.index(v.lower()) if v.lower() in _KNOWN else len(_KNOWN))
    return [Part(v, f"in_period and cast({name} as varchar) = {literal(v)}") for v in values]


def log_column(log: LogColumns, column: str) -> str:
    """A column as the log writes it.

    Raises:
        LogError: There is none.
    """
    found = next((name for name in log.types if name.lower() == column.lower()), None)
    if found is None:
        what = f"the impressions have no column {column!r}{near_miss(column, log.types)}"
        raise LogError(what, f"the log has: {', '.join(log.types)}")
    return found


def parts_of_periods(periods: Periods) -> list[Part]:
    """A part for each named period, from its first day to its last.

    Raises:
        ExperimentError: A period has no days.

    Example:
        >>> parts_of_periods({"train": ("2026-09-01", "2026-09-07")})[0].where
        "day between date '2026-09-01' and date '2026-09-07'"
    """
    parts = []
    for name, (first, last) in periods.items():
        try:
            days = date.fromisoformat(first), date.fromisoformat(last)
        except ValueError:
            what = f"split {name!r}: {first} to {last} are no days"
            raise ExperimentError(what, "write them like 2026-09-01") from None
        if days[0] > days[1]:
            raise ExperimentError(f"split {name!r} ends before it begins")
        parts.append(Part(name, f"day between date '{days[0]}' and date '{days[1]}'"))
    return parts


def check_days(engine: Engine, parts: Sequence[Part], has_time: bool) -> None:
    """Whether every period has impressions.

    Raises:
        LogError: One has none.
    """
    if not has_time:
        what = "splits by period need a time, and the impressions have no column ts"
        raise LogError(what, "map it, or name a column that says which split a row is of")
    for part in parts:
        if not whole_number(engine, f"select count(*) from impressions where {part.where}"):
            ((first, last),) = engine.rows("select min(day), max(day) from impressions")
            what = f"split {part.name!r} has no impressions of analysed units"
            raise LogError(what, f"the log has days from {first} to {last}")


def split_of(name: str, estimates: Estimates) -> Split:
    """Every row of one part."""
    return Split(name, tuple(estimates.rows()))


def gaps(parts: Mapping[str, Estimates]) -> Iterator[Gap]:
    """How much better each metric is in the first part than in each other.

    A unit may be in both parts: they are compared in pairs by unit, one that is missing from a part
    adds nothing to it.
    """
    (first, of_first), *others = parts.items()
    for name, of_other in others:
        for model, traffic, metric in of_other.cells():
            if model not in of_first.models:
                continue
            after, before = Side(of_first, model), Side(of_other, model)
            reason = after.found(metric, traffic).reason or before.found(metric, traffic).reason
            found = compared(before, after, metric, traffic, reason)
            yield Gap(model, traffic, metric.id, first, name, *found)


def cut_by_value(
    column: str,
    ks: Mapping[str, int],
    parts: Mapping[str, Estimates],
    metrics: Sequence[OfflineMetric],
    control: str | None,
) -> CutByValue:
    """Metrics whose cut-off is a column's to say, over the requests of all its values.

    Args:
        column: The column.
        ks: Its value → the cut-off.
        parts: The estimates by value.
        metrics: Metrics of requests; their own cut-off is not used.
        control: The model that the others are compared with.
    """
    definitions = dict.fromkeys(m.definition for m in metrics if m.definition.family == "list")
    some = next(iter(parts.values()))
    rows: list[ReplayRow] = []
    pairs: list[PairRow] = []
    for definition in definitions:
        if definition.cut == "none":
            continue
        name = OfflineMetric(definition).id.replace(definition.name, f"{definition.name}@{column}")
        for traffic in some.traffics:
            mask, summed = some.mask(traffic), _summed(definition, ks, parts, traffic)
            rows += _rows(name, traffic, summed, mask, some.alpha)
            pairs += _pairs(name, traffic, summed, control, mask, some.alpha)
    return CutByValue(column, tuple(ks.items()), tuple(rows), tuple(pairs))


def _summed(
    definition: Definition, ks: Mapping[str, int], parts: Mapping[str, Estimates], traffic: str
) -> dict[str, Columns]:
    """The variables of each model that all parts have, each part cut as its value says."""
    some = next(iter(parts.values()))
    models = [m for m in some.models if all(m in part.models for part in parts.values())]
    return {
        model: _together(
            [
                part.columns(model, OfflineMetric(definition, ks[value]), traffic)
                for value, part in parts.items()
            ]
        )
        for model in models
    }


def _together(parts: Sequence[Columns]) -> Columns:
    above, below = sum(part.above for part in parts), sum(part.below for part in parts)
    return Columns(parts[0].above * 0 + above, parts[0].below * 0 + below, None, "ratio")


def _rows(
    name: str, traffic: str, summed: Mapping[str, Columns], mask: Mask, alpha: float
) -> Iterator[ReplayRow]:
    for model, columns in summed.items():
        found, counted = estimate(columns, mask, alpha), float(columns.below[mask].sum())
        yield ReplayRow(
            *(model, traffic, name, found.value, found.low, found.high),
            *(int(mask.sum()), counted, (), found.reason),
        )


def _pairs(
    name: str,
    traffic: str,
    summed: Mapping[str, Columns],
    control: str | None,
    mask: Mask,
    alpha: float,
) -> Iterator[PairRow]:
    first = control if control in summed else next(iter(summed), None)
    for model, columns in summed.items():
        if first is None or model == first:
            continue
        before, after = (estimate(summed[m], mask, alpha).value for m in (first, model))
        effect = compare(summed[first], columns, mask, alpha)
        head = (first, model, traffic, name, before, after)
        yield pair_row(head, int(mask.sum()), Compared.of(effect, None))
