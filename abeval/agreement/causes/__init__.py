"""Every cause that is checked, in one tuple."""

from abeval.agreement.case import CauseCheck
from abeval.agreement.causes import position, promotion

CAUSES: tuple[CauseCheck, ...] = (
    position.CHECK,
    promotion.CHECK,
)
"""In the order of their rows in `docs/agreement.md`; the result orders them by what they say."""
