"""Every cause that is checked, in one tuple."""

from abeval.agreement.case import CauseCheck
from abeval.agreement.causes import (
    backtest,
    calibration,
    drift,
    eligibility,
    exploration,
    novelty,
    position,
    promotion,
    reversal,
    split,
    support,
    trust,
    window,
)

CAUSES: tuple[CauseCheck, ...] = (
    position.CHECK,
    calibration.CHECK,
    support.CHECK,
    backtest.CHECK,
    exploration.CHECK,
    drift.CHECK,
    eligibility.CHECK,
    reversal.CHECK,
    promotion.CHECK,
    novelty.CHECK,
    window.CHECK,
    split.CHECK,
    trust.CHECK,
)
"""In the order of their rows in `docs/agreement.md`; the result orders them by what they say."""
