"""The statistics: pure functions of numbers, to be used with or without the rest of abeval.

Effects: `means`, `ratios`, `proportions`, `skewed`, `quantiles`, `paired`; relative effects:
`relative`. Variance reduction: `cuped`, `regression`, `stratification`. Many looks: `sequential`,
`group_sequential`. Beliefs: `bayes`. Sub-buckets: `resampling`, `replay`, `catalogue`. Many tests:
`multiplicity`, `dunnett`. Planning: `design`, `duration`, `retrodesign`. Conclusions: `decisions`.
Segments: `heterogeneity`, `simpson`; cuts: `mix`. Many experiments: `latent`,
`shrinkage`. Days: `stability`, `windows`, `shapes`. Traffic: `srm`, `srm_segments`,
`changed_split`, `interleaving`. Other policies: `off_policy`, `off_policy_model_based`. All of it
stands on `moments`, `effects` and `records`. Every other module is a helper of these.

Modules are imported as they are named, so that none pays for the others:

Example:
    >>> from abeval import stats
    >>> control = stats.moments.Moments.of([1, 2, 3, 4])
    >>> effect = stats.means.welch(control, stats.moments.Moments.of([2, 4, 3, 5]))
    >>> effect.difference, round(effect.p_value, 3)
    (1.0, 0.315)
"""

from importlib import import_module
from types import ModuleType

__all__ = [
    "bayes",
    "catalogue",
    "changed_split",
    "cuped",
    "decisions",
    "design",
    "dunnett",
    "duration",
    "effects",
    "group_sequential",
    "heterogeneity",
    "interleaving",
    "latent",
    "means",
    "mix",
    "moments",
    "multiplicity",
    "off_policy",
    "off_policy_model_based",
    "paired",
    "proportions",
    "quantiles",
    "ratios",
    "records",
    "regression",
    "relative",
    "replay",
    "resampling",
    "retrodesign",
    "sequential",
    "shapes",
    "shrinkage",
    "simpson",
    "skewed",
    "srm",
    "srm_segments",
    "stability",
    "stratification",
    "windows",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"abeval.stats.{name}")
    raise AttributeError(f"module 'abeval.stats' has no attribute {name!r}")
