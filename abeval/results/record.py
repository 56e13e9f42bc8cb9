"""What the results share: JSON text, and rows as a DataFrame.

The base of every result of `results/` that a call of the API returns.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Record:
    """A result that can be written as JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, as the JSON file has them."""
        return asdict(self)

    def to_json(self) -> str:
        """The result as JSON text, the same on every run; missing numbers are null."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def frame(rows: Sequence[Any], kind: type[Any]) -> pd.DataFrame:
    """One row per record, one column per field; the columns are there without rows, too."""
    return pd.DataFrame([asdict(row) for row in rows], columns=[f.name for f in fields(kind)])
