"""One frozen result; the terminal, JSON, the DataFrame and the report are views of it."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from abeval.results import (
    AAMetric,
    Account,
    Adjustment,
    Belief,
    Boundary,
    Check,
    ExperimentInfo,
    FamilyInterval,
    LeftOut,
    MetricInfo,
    Row,
    SegmentContrast,
    SegmentTest,
    SliceRow,
    VariantInfo,
    Verdict,
    views,
)

SCHEMA_VERSION = "1"


@dataclass(frozen=True)
class Result:
    """Everything an analysis found, and everything its report shows."""

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

    @property
    def trusted(self) -> bool:
        """Whether no trust check failed."""
        return all(check.status != "fail" for check in self.trust)

    def __getitem__(self, key: str | tuple[str, str]) -> Row:
        """The row of a metric, or of a metric and variant where there are several variants."""
        metric, variant = (key, None) if isinstance(key, str) else key
        for row in self.scorecard:
            if row.metric == metric and variant in (None, row.variant):
                return row
        raise KeyError(key)

    def to_frame(self) -> pd.DataFrame:
        """The scorecard, one row per metric and variant."""
        return pd.DataFrame(
            [asdict(row) for row in self.scorecard], columns=[f.name for f in fields(Row)]
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, as the JSON file has them."""
        return asdict(self)

    def to_json(self) -> str:
        """The result as JSON text: sorted nowhere, finite everywhere, the same on every run."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def to_csv(self) -> str:
        """The scorecard as CSV text."""
        return self.to_frame().to_csv(index=False)

    def report(self, path: str | Path) -> Path:
        """Write the self-contained HTML report."""
        return views.write_report(self, path)

    def _repr_html_(self) -> str:
        return views.summary_html(self)

    def __str__(self) -> str:
        return views.as_text(self)


def result_from_dict(raw: dict[str, Any]) -> Result:
    """A result read back from its JSON.

    Raises:
        ValueError: The file has another schema version.
    """
    if raw.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(
            f"schema version {raw.get('schema_version')!r}, this abeval reads {SCHEMA_VERSION!r}"
        )
    info = dict(raw["experiment"])
    variants = tuple(VariantInfo(**v) for v in info.pop("variants"))
    return Result(
        schema_version=SCHEMA_VERSION,
        experiment=ExperimentInfo(**info, variants=variants),
        verdicts=tuple(Verdict(**v) for v in raw["verdicts"]),
        trust=tuple(Check(**c) for c in raw["trust"]),
        scorecard=tuple(Row(**r) for r in raw["scorecard"]),
        metrics=tuple(MetricInfo(**m) for m in raw["metrics"]),
        daily=tuple(SliceRow(**s) for s in raw["daily"]),
        segments=tuple(SliceRow(**s) for s in raw["segments"]),
        left_out=tuple(LeftOut(**s) for s in raw["left_out"]),
        accounting=tuple(_account(a) for a in raw["accounting"]),
        notes=tuple(raw["notes"]),
        adjustments=tuple(_adjustment(a) for a in raw["adjustments"]),
        segment_tests=tuple(SegmentTest(**t) for t in raw["segment_tests"]),
        segment_contrasts=tuple(SegmentContrast(**c) for c in raw["segment_contrasts"]),
        boundaries=tuple(Boundary(**b) for b in raw["boundaries"]),
        beliefs=tuple(Belief(**b) for b in raw["beliefs"]),
        family_intervals=tuple(FamilyInterval(**i) for i in raw["family_intervals"]),
        aa=tuple(AAMetric(**a) for a in raw.get("aa", ())),
    )


def _adjustment(raw: dict[str, Any]) -> Adjustment:
    return Adjustment(**{**raw, "theta": tuple(raw["theta"])})


def _account(raw: dict[str, Any]) -> Account:
    pairs = tuple((str(reason), int(rows)) for reason, rows in raw["set_aside"])
    return Account(raw["log"], raw["read"], raw["used"], pairs)
