"""Why a metric has no value for a model, and what its definition leaves out.

`offline/estimates/estimates.py` asks for both, from the `Sums` and the `UnitValues` of a model, and
puts them into the rows of the result.
"""

from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.metrics.presets import Policy
from abeval.offline.metrics.units import UnitValues
from abeval.offline.sums.beyond import needs_history
from abeval.offline.sums.sums import Sums
from abeval.stats.arrays import Bools

_OF_PROBABILITIES = frozenset(
    {"log_loss", "log_likelihood", "ne", "rig", "q_ctr", "brier", "ece"},
)
"""Metrics without meaning for scores outside [0, 1]."""

_LARGEST_EXPONENT = 20
"""Relevance above this has no exponential gain: one such item would dominate every sum."""

_LEFT_OUT_PAIRS = ("single_class_units", "single_class_impressions", "single_class_clicks")


def refusal(metric: OfflineMetric, model: str, sums: Sums) -> str | None:
    """The reason why a metric has no value for a model with scores; None if it has one."""
    definition, of_model = metric.definition, sums.models[model]
    if definition.same_for_all and sums.same_lists and metric.cutoff >= sums.longest > 0:
        return "k_covers_list"
    if definition.name in _OF_PROBABILITIES and not of_model.probabilities:
        return "not_probabilities"
    if "exp" in definition.variant and sums.largest_grade > _LARGEST_EXPONENT:
        return "gain_too_large"
    if needs_history(metric) and not sums.has_history:
        return "no_history"
    if definition.family == "point" and "point_rows" not in of_model.values.columns:
        return "scores_too_large"
    return None


def left_out(
    metric: OfflineMetric, values: UnitValues, mask: Bools, policy: Policy
) -> tuple[tuple[str, int], ...]:
    """Requests, units or rows that the definition leaves out, counted over some units."""
    match metric.definition.family:
        case "list" | "r_precision" | "tied":
            counts = _left_out_requests(metric, values, mask, policy)
        case "pairs" if metric.definition.name == "gauc" and "half" not in metric.id:
            counts = _left_out_pairs(values, mask)
        case _:
            counts = []
    return tuple((what, count) for what, count in counts if count)


def _left_out_requests(
    metric: OfflineMetric, values: UnitValues, mask: Bools, policy: Policy
) -> list[tuple[str, int]]:
    listed = _total(values, "listed", mask)
    missing = _total(values, "requests", mask) - listed
    irrelevant = listed - _total(values, "listed_relevant", mask)
    dropped = policy.missing_for(metric.definition.name) == "drop"
    return [
        ("requests_without_relevant", irrelevant if policy.no_relevant == "drop" else 0),
        ("requests_without_scores", missing if dropped else 0),
    ]


def _left_out_pairs(values: UnitValues, mask: Bools) -> list[tuple[str, int]]:
    units = _total(values, "single_class_units", mask)
    rows = _total(values, "all_impressions", mask) - _total(values, "impressions", mask)
    clicks = _total(values, "all_clicks", mask) - _total(values, "gauc_clicks", mask)
    return list(zip(_LEFT_OUT_PAIRS, (units, rows, clicks), strict=True))


def _total(values: UnitValues, name: str, mask: Bools) -> int:
    return int(values[name][mask].sum())
