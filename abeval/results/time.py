"""What the analysis over time found: frozen, and the same on every run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from abeval.results import Balance, views
from abeval.results.aa import AAResult
from abeval.results.windows import EventRow, Look, Novelty, Ramp, Rhythm, Stability, WindowRow

TIME_SCHEMA_VERSION = "1"


@dataclass(frozen=True)
class TimeResult:
    """Effects over time, and what can be made of them.

    Attributes:
        schema_version: Of the JSON.
        name: Of the experiment.
        alpha: Level of intervals and looks.
        days: Every day from the first to the last.
        partial: Those that the log covers only in part.
        stability: One row per metric and variant.
        novelty: One row per metric, variant and cohort.
        windows: Effects by window.
        looks: What each day's reader would have seen.
        rhythms: Whether hours and weekdays share one effect, where they were asked for.
        before: A/A on the pre-period with the real assignment: were the groups equal before?
        events: Effects inside and outside `[[events]]`.
        ramps: Stretches of entry days of one share; one where shares stayed the same.
        refused: Metric → why it has no windows.
        notes: What a reader must know and no number says.
    """

    schema_version: str
    name: str
    alpha: float
    days: tuple[str, ...]
    partial: tuple[str, ...]
    stability: tuple[Stability, ...]
    novelty: tuple[Novelty, ...]
    windows: tuple[WindowRow, ...]
    looks: tuple[Look, ...]
    events: tuple[EventRow, ...]
    ramps: tuple[Ramp, ...]
    refused: Mapping[str, str]
    notes: tuple[str, ...]
    rhythms: tuple[Rhythm, ...] = ()
    before: tuple[Balance, ...] = ()

    def __getitem__(self, key: str | tuple[str, str]) -> Stability:
        """The stability of a metric, or of a metric and variant where there are several."""
        metric, variant = (key, None) if isinstance(key, str) else key
        for row in self.stability:
            if row.metric == metric and variant in (None, row.variant):
                return row
        raise KeyError(key)

    def to_frame(self) -> pd.DataFrame:
        """Verdicts and their evidence, one row per metric and variant."""
        return _frame(self.stability, Stability)

    def windows_frame(self) -> pd.DataFrame:
        """One row per metric, variant and window."""
        return _frame(self.windows, WindowRow)

    def looks_frame(self) -> pd.DataFrame:
        """One row per metric, variant and day."""
        return _frame(self.looks, Look)

    def report(self, path: str | Path, aa: AAResult | None = None) -> Path:
        """Write everything as one self-contained HTML file, with A/A replays where given."""
        return views.write_report(self, path, aa)

    def to_json(self) -> str:
        """The result as JSON text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _frame(rows: Sequence[Stability | WindowRow | Look], kind: type[Any]) -> pd.DataFrame:
    """The columns are there without rows, too."""
    return pd.DataFrame([asdict(row) for row in rows], columns=[f.name for f in fields(kind)])
