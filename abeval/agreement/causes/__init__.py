"""Every cause that is checked, in one tuple."""

from abeval.agreement.case import CauseCheck
from abeval.inference import power

CAUSES: tuple[CauseCheck, ...] = (
    strata.CHECK,
    facts.CHECK,
    shares.CHECK,
    facts.CHECK,
    exploration.CHECK,
    power.CHECK,
    power.CHECK,
    days.CHECK,
    days.CHECK,
    novelty.CHECK,
    facts.CHECK,
    power.CHECK,
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
    power.CHECK,
    shares.CHECK,
)
"""In the order of their rows in `docs/agreement.md`; the result orders them by what they say."""
