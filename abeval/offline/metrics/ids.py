"""Ids of offline metrics: from a text such as `ndcg@10[lin]` to its metric, and the default ids.

`offline/metrics/presets.py` and `offline/options.py` read the ids of a user or a preset;
`offline/estimates/curves.py` and `report/replay_views.py` read those of a curve and of a result.
"""

import re
from collections.abc import Iterable, Sequence

from abeval.errors import ExperimentError
from abeval.offline.metrics import BEYOND, DEFINITIONS, RANKING, SCORES, OfflineMetric

_ID = re.compile(r"^([a-z_0-9]+?)(?:@([1-9][0-9]{0,8}))?(?:\[([A-Za-z_,]+)\])?$")

_LIBRARIES = ("bin", "bin,list", "bin,k", "lin,ties")
"""Variants that only the numbers of some library need."""

_ON_REQUEST = ("threshold", "vectors")
"""Variants that need an option or a column."""


def parse_metric(text: str) -> OfflineMetric:
    """The metric of an id.

    Raises:
        ExperimentError: There is no such metric, or the id leaves its definition open.

    Example:
        >>> parse_metric("ndcg@10")
        Traceback (most recent call last):
        abeval.errors.ExperimentError: 'ndcg@10' has several definitions: choose one
          hint: one of ndcg@10[bin], ndcg@10[lin], ndcg@10[exp], ndcg@10[bin,list], \
ndcg@10[lin,list], ndcg@10[exp,list], ndcg@10[bin,k], ndcg@10[lin,ties]
    """
    match = _ID.match(text)
    name, k, variant = match.groups() if match else (text, None, None)
    known = dict.fromkeys(d.name for d in DEFINITIONS.values())
    if name not in known:
        from abeval.experiment.problems import suggestion

        raise ExperimentError(f"no offline metric is called {text!r}{suggestion(name, known)}")
    cut = None if k is None else int(k)
    definition = DEFINITIONS.get((name, variant or ""))
    if definition is None:
        raise ExperimentError(_which(text, variant), f"one of {', '.join(_ids(name, cut))}")
    if (definition.cut == "none" and k) or (definition.cut == "required" and k is None):
        wanted = "needs a cut-off, such as @10" if k is None else "has no cut-off"
        raise ExperimentError(f"{text!r}: {name} {wanted}")
    return OfflineMetric(definition, cut)


def _which(text: str, variant: str | None) -> str:
    if variant is None:
        return f"{text!r} has several definitions: choose one"
    return f"{text!r}: there is no definition [{variant}]"


def _ids(name: str, k: int | None) -> list[str]:
    return [OfflineMetric(d, k).id for d in DEFINITIONS.values() if d.name == name]


def metrics_of(texts: Iterable[str]) -> tuple[OfflineMetric, ...]:
    """The metrics of some ids, each once."""
    return tuple(dict.fromkeys(parse_metric(text) for text in texts))


def default_metrics(ks: Sequence[int]) -> tuple[OfflineMetric, ...]:
    """The default metrics: those with a cut-off at each of `ks`, and those of scores.

    Example:
        >>> [m.id for m in default_metrics([5])][:4]
        ['precision@5', 'recall@5', 'recall@5[cap]', 'f1@5']
    """
    cut = [d for d in RANKING if d.cut != "none" and d.variant not in _LIBRARIES]
    at_k = [OfflineMetric(d, k) for k in ks for d in cut]
    whole = [OfflineMetric(d) for d in SCORES if d.variant not in _ON_REQUEST]
    lists = [OfflineMetric(d, k) for k in ks for d in BEYOND if d.variant not in _ON_REQUEST]
    return (*at_k, *whole, *lists)
