"""Rows of exact sums: their columns, the slices that they are of, and moments from them.

`unit_sums.py` makes these rows; `Aggregates` finds its moments in them, `time/` those of windows.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations_with_replacement
from typing import NamedTuple

from abeval.stats.moments import Moments

Row = Mapping[str, object]

ByStretch = Sequence[Mapping[str, Moments]]
"""Variant → moments, in each stretch of entry days; a single one where the split did not change."""

VARIABLES = ("y", "x", "y0", "x0", "z")
"""Numerator, denominator, both before the period, and whether the unit is new in it."""

PRODUCTS = tuple(combinations_with_replacement(VARIABLES, 2))

THIRDS = tuple(
    triple for triple in combinations_with_replacement(VARIABLES, 3) if triple.count("z") < 2
)
"""Products of three, but for those that z · z = z makes products of two."""

MOMENT_COLUMNS = (
    "metric",
    "slice",
    "cell",
    "variant",
    "stretch",
    "units",
    *VARIABLES,
    *map("_".join, PRODUCTS),
    *map("_".join, THIRDS),
)

METRIC, SLICE, CELL = 0, 1, 2
"""Places of labels in a row of `MOMENT_COLUMNS`."""

LABELS = 5
"""So many of `MOMENT_COLUMNS` are labels; sums follow."""

WHOLE = "whole"
DAY = "day"
LEFT_OUT = "left_out"
CAPPED = "capped"
SEGMENT = "segment:"
LACKING = "lacking"
BALANCE = "balance"

COVARIATES = "covariates"
BUCKET = "bucket"
BUCKETS = 256
"""Sub-buckets are grouped into this many for resampling."""


class Group(NamedTuple):
    """Units of one variant that entered in one stretch."""

    variant: str
    stretch: int


def group_of(row: Row) -> Group:
    """The group that a row is of."""
    return Group(str(row["variant"]), int(str(row["stretch"])))


def by_stretch(
    rows: Mapping[Group, Row], stretches: int, scales: tuple[float, float], width: int
) -> list[dict[str, Moments]]:
    """Moments of so many of (y, x, y0, x0, z), by stretch and variant."""
    moments: list[dict[str, Moments]] = [{} for _ in range(stretches)]
    for group, row in rows.items():
        moments[group.stretch][group.variant] = _moments(row, scales, width)
    return moments


def pooled(moments: ByStretch) -> dict[str, Moments]:
    """Variant → moments of the units of all stretches."""
    whole: dict[str, Moments] = {}
    for variants in moments:
        for name, one in variants.items():
            whole[name] = whole[name] + one if name in whole else one
    return whole


class _Columns(NamedTuple):
    """Columns of the sums of some variables, of their products of two and of three."""

    sums: Sequence[str]
    products: Sequence[Sequence[str]]
    thirds: Sequence[str]


@cache
def _columns(width: int) -> _Columns:
    names = VARIABLES[:width]
    pairs = {frozenset(pair): "_".join(pair) for pair in PRODUCTS}
    # z · z is z, for z is 0 or 1.
    thirds = ("_".join(triple) for triple in combinations_with_replacement(names, 3))
    return _Columns(
        names,
        [[pairs[frozenset((a, b))] for b in names] for a in names],
        [third.replace("z_z", "z").replace("z_z", "z") for third in thirds],
    )


def _moments(row: Row, scales: tuple[float, float], width: int) -> Moments:
    sums, products, thirds = _columns(width)
    return Moments.from_sums(
        int(str(row["units"])),
        [int(str(row[name])) for name in sums],
        [[int(str(row[name])) for name in names] for names in products],
        (*scales, *scales, 1.0)[:width],
        # Sums from a warehouse have none.
        None if row["y_y_y"] is None else [int(str(row[name])) for name in thirds],
    )


def joined(pairs: Mapping[tuple[int, int], Row], scales: Sequence[float]) -> Moments:
    """Moments of y, x, every covariate and newness, from those of pairs of covariates."""
    count = 1 + max(second for _, second in pairs)
    variables: list[str | int] = ["y", "x", *range(count), "z"]

    def total(*wanted: str | int) -> int:
        pair = next(p for p in pairs if {v for v in wanted if isinstance(v, int)} <= {*p})
        called = {pair[0]: "y0", pair[1]: "x0"}
        names = [called[v] if isinstance(v, int) else v for v in wanted]
        return int(str(pairs[pair]["_".join(sorted(names, key=VARIABLES.index))]))

    return Moments.from_sums(
        int(str(next(iter(pairs.values()))["units"])),
        [total(v) for v in variables],
        [[total(v, w) for w in variables] for v in variables],
        scales,
    )
