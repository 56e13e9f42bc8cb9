"""The results: frozen records of plain values. Here are the parts of an analysis."""

from abeval.results.analysis import Account, ExperimentInfo, LeftOut, MetricInfo, Ramp, VariantInfo
from abeval.results.effects import (
    Adjustment,
    Belief,
    Boundary,
    FamilyInterval,
    Row,
    SegmentContrast,
    SegmentTest,
    SliceRow,
    Status,
    TargetGain,
)
from abeval.results.trust import (
    AAMetric,
    Balance,
    Check,
    CheckStatus,
    Decision,
    Influence,
    SplitDay,
    SplitPlace,
    Verdict,
)

__all__ = [
    "AAMetric",
    "Account",
    "Adjustment",
    "Balance",
    "Belief",
    "Boundary",
    "Check",
    "CheckStatus",
    "Decision",
    "ExperimentInfo",
    "FamilyInterval",
    "Influence",
    "LeftOut",
    "MetricInfo",
    "Ramp",
    "Row",
    "SegmentContrast",
    "SegmentTest",
    "SliceRow",
    "SplitDay",
    "SplitPlace",
    "Status",
    "TargetGain",
    "VariantInfo",
    "Verdict",
]
