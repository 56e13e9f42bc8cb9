"""Every cause that is checked, in one tuple, by four forms.

Differences of a share (`shares.py`, `serving.py`), AUC within strata (`strata.py`), facts of the
results (`facts.py`), and effects by day or cell (`days.py`).
"""

from abeval.agreement.case import CauseCheck
from abeval.agreement.causes import days, facts, serving, shares, strata
from abeval.packaged import load_toml_next_to

_NAMES = {name: x for m in (days, facts, serving, shares, strata) for name, x in vars(m).items()}
"""What the modules define, by name: a cause is checked by `check_` and its name."""

CAUSES = tuple(
    CauseCheck(name, _NAMES[f"check_{name}"], **entry)
    for name, entry in load_toml_next_to(__file__, "causes.toml").items()
)
"""In the order of their rows in `docs/agreement.md`; the result orders them by what they say."""
