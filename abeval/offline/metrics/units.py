"""Values per unit: what the queries hand to the statistics, as arrays in the order of the units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

SCALE = 1e-9
"""What one step of most summed values is worth."""

FINE = 1e-12
"""What one step of a summed ranking value is worth."""


@dataclass(frozen=True)
class UnitValues:
    """One model's columns per unit, all in the order of `units`.

    Attributes:
        units: The ids of the units, ascending.
        columns: Column → its values, shape (units,).
    """

    units: NDArray[np.generic]
    columns: dict[str, Floats] = field(default_factory=dict)

    def add(self, frame: "pd.DataFrame", names: Mapping[str, str], scale: float = 1.0) -> None:
        """Take columns of a frame with a `unit_id`; a unit that is not in it has zero.

        Args:
            frame: Rows of some of the units, each once.
            names: Its column → the name to keep it under.
            scale: What one step of them is worth.
        """
        import pandas as pd

        place = pd.Index(self.units).get_indexer(pd.Index(frame["unit_id"]))
        known = place >= 0
        for column, name in names.items():
            values = np.zeros(len(self.units))
            values[place[known]] = frame[column].to_numpy(dtype=np.float64)[known] * scale
            self.columns[name] = values

    def __getitem__(self, name: str) -> Floats:
        return self.columns[name]


def ratio(above: Floats, below: Floats | float) -> Floats:
    """Of each pair of values; 0 where there is nothing below."""
    return np.divide(above, below, out=np.zeros_like(above), where=np.asarray(below) > 0)


def cut_column(column: str, k: int) -> str:
    """The name of a ranking value at a cut-off.

    Example:
        >>> cut_column("recall", 10)
        'recall@10'
    """
    return f"{column}@{k}"


def value_columns(frame: "pd.DataFrame") -> Sequence[str]:
    """The columns `v_…` of a frame."""
    return [str(name) for name in frame.columns if str(name).startswith("v_")]
