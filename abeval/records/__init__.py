"""What a result is made of: frozen records of plain values, one field a number."""

from abeval.records.background import Account, ExperimentInfo, LeftOut, MetricInfo, VariantInfo
from abeval.records.effects import Row, SegmentContrast, SegmentTest, SliceRow, Status
from abeval.records.inference import Adjustment, Belief, Boundary, FamilyInterval
from abeval.records.trust import AAMetric, Balance, Check, CheckStatus, Decision, Verdict

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
    "LeftOut",
    "MetricInfo",
    "Row",
    "SegmentContrast",
    "SegmentTest",
    "SliceRow",
    "Status",
    "VariantInfo",
    "Verdict",
]
