"""Every two variants, compared on one metric.

`inference/pairwise.py` fills it; `cli/commands.py` prints it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from abeval.results.record import Record, frame, named
from abeval.results.trust import Check

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Pair:
    """One variant against another, on one metric; raw sign, `variant - base`.

    Attributes:
        base: The variant compared with.
        variant: The variant compared.
        units_base: Units behind the base's value.
        units: Units behind the variant's.
        difference: In the metric's unit.
        difference_low: Lower end of its unadjusted interval.
        difference_high: Upper end.
        lift: `difference / abs(base)`.
        p_value: Two-sided.
        p_adjusted: Over all pairs.
        reason: Why a number is missing, else None.
    """

    base: str
    variant: str
    units_base: int
    units: int
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    lift: float | None
    p_value: float | None
    p_adjusted: float | None
    reason: str | None


@dataclass(frozen=True, repr=False)
class Pairwise(Record):
    """All pairs of variants on one metric.

    Attributes:
        metric: Its id.
        values: Variant → its value, None where it has none.
        family: How p-values are adjusted.
        alpha: The level.
        pairs: Every pair once, in the order of the file.
        trust: The trust checks.
    """

    metric: str
    values: tuple[tuple[str, float | None], ...]
    family: str
    alpha: float
    pairs: tuple[Pair, ...]
    trust: tuple[Check, ...]

    def __getitem__(self, key: str | tuple[str, str]) -> Pair:
        """The first pair with a variant compared; or the pair `(variant, base)`."""
        variant, base = (key, None) if isinstance(key, str) else key
        pairs = [pair for pair in self.pairs if base in (None, pair.base)]
        return named(pairs, "variant", variant)

    def matrix(self) -> "pd.DataFrame":
        """Adjusted p-values, variants × variants, empty on the diagonal."""
        import pandas as pd

        names = [name for name, _ in self.values]
        table = pd.DataFrame(np.nan, index=names, columns=names)
        for pair in self.pairs:
            if pair.p_adjusted is not None:
                table.loc[pair.base, pair.variant] = pair.p_adjusted
                table.loc[pair.variant, pair.base] = pair.p_adjusted
        return table

    def to_frame(self) -> "pd.DataFrame":
        """One row per pair."""
        return frame(self.pairs, Pair)
