"""Reversal: in a part of the units or the traffic the effect has the other sign."""

from collections.abc import Iterator
from typing import NamedTuple

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.days import MANY, as_measured, online_row
from abeval.agreement.gap import closed_online, offline_sign
from abeval.agreement.standing import more_is_better
from abeval.results.analysis import Result
from abeval.results.effects import CutRow, SliceRow
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.records import Estimate

HALF = 0.5


class _Cell(NamedTuple):
    name: str
    lift: Estimate


def judge(case: Case, _: Frames) -> Finding | Unchecked:
    """Two cells of one segment or cut whose effects have opposite signs beyond noise."""
    cells = _cells(case)
    named = {name: own for name, own in cells.items() if len(own) > 1}
    if not named:
        message = "Reversal: segments and cuts would show whether the effect turns somewhere"
        return Unchecked(message, ("[segments]", "[cuts]"))
    # With one cell surely of one sign, each of the others could be of the other by chance.
    tests = sum(len(own) - 1 for own in named.values())
    name, low, high, p = min(
        (_extremes(name, own) for name, own in named.items()), key=lambda known: known[3]
    )
    whole = online_row(case)
    lift = 0.0 if whole is None or whole.lift is None else whole.lift
    turned = as_measured(case, high.lift._replace(value=lift)).value
    kept = high if offline_sign(case) > 0 else low
    best, worst = (as_measured(case, cell.lift) for cell in (high, low))
    return Finding(
        exceeds=low.lift.value < 0 < high.lift.value
        and min(-low.lift.value, high.lift.value) >= HALF * abs(lift),
        message=f"Reversal: by {name} the effect is {best.value:+.1%} in {high.name} and "
        f"{worst.value:+.1%} in {low.name}.",
        evidence=(
            clusters.evidence("lift", best, case.alpha, f"{name} {high.name}"),
            clusters.evidence("lift", worst, case.alpha, f"{name} {low.name}"),
        ),
        threshold=HALF,
        threshold_reason="two cells have opposite signs, each of at least half the whole effect",
        p_value=min(1.0, p * tests),
        accounts_for=closed_online(case, turned, kept.lift.value),
        remedy="Launch only where the effect is good, or train for the cells where it is not.",
    )


def _cells(case: Case) -> dict[str, list[_Cell]]:
    """Name of the segment or cut → its cells with an effect of the online metric."""
    row = online_row(case)
    if row is None:
        return {}
    sign = 1 if more_is_better(row) else -1
    named: dict[str, list[_Cell]] = {}
    for name, cell in _parts(case.result):
        if (cell.metric, cell.variant) != (row.metric, case.variant):
            continue
        lift = _lift(cell, case.alpha, sign)
        if lift is not None:
            named.setdefault(name, []).append(_Cell(cell.cell, lift))
    return named


def _parts(result: Result) -> Iterator[tuple[str, SliceRow | CutRow]]:
    """Every cell of a segment and of a cut, with its name."""
    yield from ((cell.slice, cell) for cell in result.segments)
    yield from ((cell.cut, cell) for cell in result.cuts)


def _lift(cell: SliceRow | CutRow, alpha: float, sign: int) -> Estimate | None:
    if cell.lift is None or cell.lift_low is None or cell.lift_high is None:
        return None
    if cell.reason == "too_few_units":
        return None
    se = (cell.lift_high - cell.lift_low) / 2 / two_sided_quantile(alpha)
    return Estimate(sign * cell.lift, se * se, cell.units, MANY) if se > 0 else None


def _extremes(name: str, cells: list[_Cell]) -> tuple[str, _Cell, _Cell, float]:
    """The surest worse and better cell; both have to differ from zero, so the larger p counts."""

    def z(cell: _Cell) -> float:
        return float(cell.lift.value / cell.lift.variance**0.5)

    low, high = min(cells, key=z), max(cells, key=z)
    opposite = low.lift.value < 0 < high.lift.value
    p = max(clusters.p_value(low.lift), clusters.p_value(high.lift)) if opposite else 1.0
    return name, low, high, p


CHECK = CauseCheck("reversal", judge)
