"""Every cause that is checked, in one tuple."""

from abeval.agreement.case import CauseCheck
from abeval.inference import power
from abeval.metrics import builtin

CAUSES: tuple[CauseCheck, ...] = (
    strata.CHECK,
    facts.CHECK,
    power.CHECK,
    facts.CHECK,
    exploration.CHECK,
    strata.CHECK,
    builtin.CHECK,
    days.CHECK,
    strata.CHECK,
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
    shares.CHECK,
    shares.CHECK,
)
"""In the order of their rows in `docs/agreement.md`; the result orders them by what they say."""
