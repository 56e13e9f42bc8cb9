"""The result of an analysis; the terminal, JSON, the DataFrame and the report show it.

`inference/judge.py` fills it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abeval.inference.trust import audits
from abeval.results import (
    AAMetric,
    Account,
    Adjustment,
    Belief,
    Boundary,
    Check,
    ExperimentInfo,
    FamilyInterval,
    Influence,
    LeftOut,
    MetricInfo,
    Ramp,
    Row,
    SegmentContrast,
    SegmentTest,
    SliceRow,
    SplitDay,
    SplitPlace,
    TargetGain,
    Verdict,
)
from abeval.results.effects import (
    CatalogueUse,
    CutRow,
    CutSplit,
    NoCut,
    QuantileEffect,
    Spread,
    UnitAucs,
)
from abeval.results.record import DrawnRecord, csv_text, frame, named, read_back

if TYPE_CHECKING:
    import pandas as pd

    from abeval.results.agreement import Agreement
    from abeval.results.replay import ReplayResult

SCHEMA_VERSION = "1"


@dataclass(frozen=True, repr=False)
class Result(DrawnRecord):
    """Everything that an analysis computes and its report shows."""

    schema_version: str
    experiment: ExperimentInfo
    verdicts: tuple[Verdict, ...]
    trust: tuple[Check, ...]
    scorecard: tuple[Row, ...]
    metrics: tuple[MetricInfo, ...]
    daily: tuple[SliceRow, ...]
    segments: tuple[SliceRow, ...]
    left_out: tuple[LeftOut, ...]
    accounting: tuple[Account, ...]
    notes: tuple[str, ...]
    adjustments: tuple[Adjustment, ...] = ()
    segment_tests: tuple[SegmentTest, ...] = ()
    segment_contrasts: tuple[SegmentContrast, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    beliefs: tuple[Belief, ...] = ()
    family_intervals: tuple[FamilyInterval, ...] = ()
    aa: tuple[AAMetric, ...] = ()
    ramps: tuple[Ramp, ...] = ()
    influence: tuple[Influence, ...] = ()
    split_days: tuple[SplitDay, ...] = ()
    split_places: tuple[SplitPlace, ...] = ()
    cuts: tuple[CutRow, ...] = ()
    cut_splits: tuple[CutSplit, ...] = ()
    without_cuts: tuple[NoCut, ...] = ()
    spreads: tuple[Spread, ...] = ()
    quantile_effects: tuple[QuantileEffect, ...] = ()
    unit_aucs: tuple[UnitAucs, ...] = ()
    catalogue_uses: tuple[CatalogueUse, ...] = ()
    gains: tuple[TargetGain, ...] = ()

    @property
    def trusted(self) -> bool:
        """Whether no failed check touches a goal or a guardrail, nor all rows."""
        judged = {row.metric for row in self.scorecard if row.role != "diagnostic"}
        return not any(check.status == "fail" and check.touches(judged) for check in self.trust)

    def __getitem__(self, key: str | tuple[str, str]) -> Row:
        """The row of a metric, or of a metric and variant where there are several variants."""
        metric, variant = (key, None) if isinstance(key, str) else key
        rows = [row for row in self.scorecard if variant in (None, row.variant)]
        return named(rows, "metric", metric)

    def to_frame(self) -> "pd.DataFrame":
        """The scorecard, one row per metric and variant."""
        return frame(self.scorecard, Row)

    def cuts_frame(self) -> "pd.DataFrame":
        """The effects by cut, one row per metric, variant and cell."""
        return frame(self.cuts, CutRow)

    def to_csv(self) -> str:
        """The scorecard as CSV text, in which no cell is a formula."""
        return csv_text(self.scorecard, Row)

    def compare(self, replay: "ReplayResult") -> "Agreement":
        """Set this analysis beside a replay of the same experiment.

        Causes that only the logs can show are not checked; `LoadedExperiment.agree` reads them.

        Raises:
            ValueError: The replay is of another experiment.

        Example:
            >>> import abeval
            >>> sample = abeval.load("sample_logs/experiment.toml")
            >>> agreement = sample.analyze().compare(sample.replay(metrics=["auc"]))
            >>> agreement.rows[0].standing
            'conflict'
        """
        return audits.compared(self, replay)

    def report(self, path: str | Path) -> Path:
        """Write the self-contained HTML report."""
        return audits.write_report(self, path)


def result_from_dict(raw: dict[str, Any]) -> Result:
    """A result read back from its JSON.

    Raises:
        ValueError: The JSON has another schema version, or other fields.
    """
    return read_back(raw, Result, SCHEMA_VERSION)
