"""Every cause that is checked, in one tuple, by four forms.

Differences of a share (`shares.py`, `serving.py`), AUC within strata (`strata.py`), facts of the
results (`facts.py`), and effects by day or cell (`days.py`).
"""

from abeval.agreement.case import CauseCheck
from abeval.agreement.causes import days, facts, serving, shares, strata
from abeval.packaged import load_toml_next_to

_TABLE = load_toml_next_to(__file__, "causes.toml")

_FUNCTIONS = (
    strata.check_position,
    facts.check_calibration,
    shares.check_support,
    facts.check_backtest,
    facts.check_eligibility,
    days.check_reversal,
    days.check_promotion,
    days.check_novelty,
    facts.check_window,
    facts.check_split,
    facts.check_trust,
    serving.check_leakage,
    strata.check_overlap,
    strata.check_overfitting,
    serving.check_served_score,
    serving.check_half_precision,
    serving.check_serving,
    serving.check_stale_model,
    shares.check_cannibalised,
    shares.check_reordered,
    shares.check_candidates,
    shares.check_labels,
    shares.check_training_policy,
)
CAUSES = tuple(
    CauseCheck(name, function, **_TABLE[name])
    for function in _FUNCTIONS
    for name in (function.__name__.removeprefix("check_"),)
)
"""In the order of their rows in `docs/agreement.md`; the result orders them by what they say."""
