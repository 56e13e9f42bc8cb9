"""Sums per unit of one model: filled by `offline/sums` and `kernels`, read by `estimates`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from abeval.stats.records import Floats

if TYPE_CHECKING:
    import pandas as pd

SCALE = 1e-9
"""Queries add most values as whole multiples of this, so that the order of adding is irrelevant."""

FINE = 1e-12
"""The same for ranking values."""


@dataclass(frozen=True)
class UnitValues:
    """One model's columns per unit, all in the order of `units`; columns are added in place.

    Attributes:
        units: The ids of the units of the replay (`candidates/traffic`), ascending.
        columns: Column → its values, shape (units,).
    """

    units: NDArray[np.generic]
    columns: dict[str, Floats] = field(default_factory=dict)

    def add(self, frame: "pd.DataFrame", names: Mapping[str, str], scale: float = 1.0) -> None:
        """Add columns of a frame with one row per `unit_id`.

        A unit without a row has zero; rows of other units are ignored. `names` maps a column of the
        frame to its name here; the frame's whole numbers are multiplied by `scale`.
        """
        import pandas as pd

        place = pd.Index(self.units).get_indexer(pd.Index(frame["unit_id"]))
        known = place >= 0
        for column, name in names.items():
            values = np.zeros(len(self.units))
            values[place[known]] = frame[column].to_numpy(dtype=np.float64)[known] * scale
            self.columns[name] = values

    def add_cuts(self, frame: "pd.DataFrame", ks: Iterable[int]) -> None:
        """Add the columns `v_…` of `unit_values.sql`, as `…@k` for each cut-off `k`."""
        columns = [str(name) for name in frame.columns if str(name).startswith("v_")]
        for k in ks:
            names = {name: cut_column(name.removeprefix("v_"), k) for name in columns}
            self.add(frame[frame["k"] == k], names, FINE)

    def __getitem__(self, name: str) -> Floats:
        return self.columns[name]


def cut_column(column: str, k: int) -> str:
    """The name of a ranking value at a cut-off.

    Example:
        >>> cut_column("recall", 10)
        'recall@10'
    """
    return f"{column}@{k}"
