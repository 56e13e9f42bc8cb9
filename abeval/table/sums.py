"""A table of sums as an experiment: its variants and metrics are what its rows name.

`api/` calls it for `abeval.analyze_sums`, `cli/table.py` for `abeval analyze --sums`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.experiment.problems import check_spelled_once
from abeval.store.summaries import BEFORE, DENOMINATOR, Summary, name_of
from abeval.table.read import control_of, weights_of


def sums_experiment(
    rows: Sequence[Summary],
    source: object,
    control: str | None = None,
    weights: Mapping[str, float] | None = None,
    entries: Mapping[str, Any] | None = None,
) -> Experiment:
    """The experiment of a table of sums; every metric is a goal unless `entries` say otherwise.

    Args:
        rows: The sums.
        source: Where they are from.
        control: The variant that the others are compared with; None for one that is called so.
        weights: Variant → intended share; None for equal ones, if the shares are near them.
        entries: More top-level entries of an experiment.

    Raises:
        ExperimentError: A name is none, or there are no two variants.
    """
    counts = _units(rows)
    check_spelled_once("the table of sums", counts, "give both one name and add their sums")
    shares, whence = weights_of(weights, counts)
    has_before = any(BEFORE[0] in row.sums for row in rows)
    ratios = {row.metric for row in rows if DENOMINATOR[0] in row.sums}
    names = dict.fromkeys(row.metric for row in rows)
    own = {
        "name": name_of(source).partition(".")[0] or "sums",
        "unit": "unit",
        "control": control_of(control, list(counts)),
        "weights": whence,
        "variants": {name: {"weight": shares[name]} for name in counts},
        "logs": {"units": {"covariates": ["before"] if has_before else []}},
        "inference": {"adjust": "cuped" if has_before else "none"},
        "metrics": [_metric(name, name in ratios) for name in names],
    }
    return parse_experiment({**own, **(entries or {})}, source="the analysis")


def _metric(name: str, is_ratio: bool) -> dict[str, str]:
    if is_ratio:
        return {"name": name, "numerator": "y", "denominator": "x", "role": "goal"}
    return {"name": name, "value": "y", "role": "goal"}


def _units(rows: Sequence[Summary]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        if row.day is None:
            counts[row.variant] = max(counts.get(row.variant, 0), row.units)
    return dict(sorted(counts.items()))
