"""Offer the statistics as pure functions, usable without the rest of abeval.

Effects and lifts: `means`, `proportions`, `skewed`, `quantiles`, `effects`. Less variance:
`adjustment`. Many looks: `sequential`. Many tests: `multiplicity`. Planning: `design`. Conclusions:
`decisions`. Segments: `heterogeneity`, `composition`. Days: `shapes`. Sub-buckets: `resampling`,
`replay`, `catalogue`. Items of a catalogue: `item_exposure`. Many experiments: `latent`,
`shrinkage`. Traffic: `srm`. Other policies: `off_policy`. Lists of two rankers: `interleaving`. Few
clusters: `randomisation`, `clusters`. Logs: `faults`, and `influence` of single units. All of it
stands on `moments`, `records` and `distributions`. Each is imported when it is named.

Example:
    >>> from abeval import stats
    >>> control = stats.moments.Moments.of([1, 2, 3, 4])
    >>> effect = stats.means.welch(control, stats.moments.Moments.of([2, 4, 3, 5]))
    >>> effect.difference, round(effect.p_value, 3)
    (1.0, 0.315)
"""

from importlib import import_module
from types import ModuleType

__all__ = ["distributions", "moments", "records"]
__all__ += ["adjustment", "effects", "means", "proportions", "quantiles", "sequential", "skewed"]
__all__ += ["composition", "decisions", "design", "heterogeneity", "multiplicity", "shapes"]
__all__ += [
    "catalogue",
    "item_exposure",
    "latent",
    "off_policy",
    "replay",
    "resampling",
    "shrinkage",
    "srm",
]
__all__ += ["clusters", "faults", "influence", "interleaving", "randomisation"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"abeval.stats.{name}")
    raise AttributeError(f"module 'abeval.stats' has no attribute {name!r}")
