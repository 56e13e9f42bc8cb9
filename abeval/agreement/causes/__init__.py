"""Every cause that is checked, in one tuple."""

from abeval.agreement import compare
from abeval.agreement.case import CauseCheck
from abeval.inference import power
from abeval.logs import prepare

CAUSES: tuple[CauseCheck, ...] = (
    strata.CHECK,
    facts.CHECK,
    shares.CHECK,
    facts.CHECK,
    exploration.CHECK,
    strata.CHECK,
    compare.CHECK,
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
    prepare.CHECK,
    shares.CHECK,
)
"""In the order of their rows in `docs/agreement.md`; the result orders them by what they say."""
