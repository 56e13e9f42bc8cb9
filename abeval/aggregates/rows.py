"""Rows of the aggregates: one type for the answer of each query, in the order of its columns.

`collect.py` and `audits.py` make them, `store/saved.py` writes and reads them; the statistics read
them from `Aggregates`.
"""

from typing import NamedTuple


class VariantUnits(NamedTuple):
    """Analysed units of a variant, and how many of them were seen in another one, too."""

    variant: str
    units: int
    crossovers: int


class GroupUnits(NamedTuple):
    """Units of one of the groups into which the units of a variant are put."""

    variant: str
    item_group: int
    units: int


class AuditSums(NamedTuple):
    """The share y / x that an audit counts in one of its cells, in a variant.

    `clusters` is how many clusters of units there are, `active` in how many y is above zero; the
    rest are exact sums over the clusters.
    """

    audit: str
    cell: str
    variant: str
    clusters: int
    active: int
    y: int
    x: int
    y_y: int
    y_x: int
    x_x: int


class ExtremeUnit(NamedTuple):
    """A unit that deviates much from a metric's value in its variant, the first place the most.

    `y` and `x` are whole numbers of counted units, as text.
    """

    metric: str
    variant: str
    place: int
    y: str
    x: str


class UnitsByAuc(NamedTuple):
    """Units whose own AUC is in the same twentieth, or that have none for the same reason.

    `bin` is from 0 to 19, −1 without an AUC.
    """

    variant: str
    fate: str
    bin: int
    units: int
    impressions: int
    left_out_clicks: int
