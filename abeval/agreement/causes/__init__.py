"""Every cause that is checked, in one tuple."""

from abeval.agreement import case
from abeval.agreement.case import CauseCheck
from abeval.store import saved

CAUSES: tuple[CauseCheck, ...] = (
    saved.CHECK,
    facts.CHECK,
    shares.CHECK,
    facts.CHECK,
    exploration.CHECK,
    strata.CHECK,
    case.CHECK,
    days.CHECK,
    days.CHECK,
    novelty.CHECK,
    facts.CHECK,
    split.CHECK,
    trust.CHECK,
    serving.CHECK,
    strata.CHECK,
    strata.CHECK,
    serving.CHECK,
    serving.CHECK,
    serving.CHECK,
    serving.CHECK,
    shares.CHECK,
    shares.CHECK,
    shares.CHECK,
    shares.CHECK,
)
"""In the order of their rows in `docs/agreement.md`; the result orders them by what they say."""
