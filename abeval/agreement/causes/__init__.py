"""Every cause that is checked, in one tuple, by four forms.

Differences of a share (`shares.py`, `serving.py`), AUC within strata (`strata.py`), facts of the
results (`facts.py`), and effects by day or cell (`days.py`).
"""

from abeval.agreement.case import CauseCheck
from abeval.agreement.causes import days, facts, serving, shares, strata
from abeval.packaged import load_toml_next_to

_TABLE = load_toml_next_to(__file__, "causes.toml")

_FUNCTIONS = (
    *(strata.position, facts.calibration, shares.support, facts.backtest),
    *(facts.eligibility, days.reversal, days.promotion, days.novelty, facts.window),
    *(facts.split, facts.trust, serving.leakage, strata.overlap, strata.overfitting),
    *(serving.served_score, serving.half_precision, serving.serving, serving.stale_model),
    *(shares.cannibalised, shares.reordered, shares.candidates, shares.labels),
    shares.training_policy,
)
CAUSES = tuple(
    CauseCheck(function.__name__, function, **_TABLE[function.__name__]) for function in _FUNCTIONS
)
"""In the order of their rows in `docs/agreement.md`; the result orders them by what they say."""
