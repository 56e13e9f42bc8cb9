"""Why a metric has no value for a model, and what its definition leaves out.

`offline/estimates/estimates.py` asks for both, from the `Sums`, and puts them into the rows of the
result.
"""

from collections.abc import Callable

from abeval.offline.groups import needs_history
from abeval.offline.metrics import OfflineMetric, Policy
from abeval.offline.sums import Sums

_OF_PROBABILITIES = frozenset(
    {"log_loss", "log_likelihood", "ne", "rig", "q_ctr", "brier", "ece"},
)
"""Metrics without meaning for scores outside [0, 1]."""

_LARGEST_EXPONENT = 20
"""Relevance above this has no exponential gain: one such item would dominate every sum."""


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
    metric: OfflineMetric, total: Callable[[str], int], policy: Policy
) -> tuple[tuple[str, int], ...]:
    """Requests, units or rows that the definition leaves out; `total` sums a column over units."""
    match metric.definition.family:
        case "list" | "r_precision" | "tied":
            counts = _left_out_requests(metric, total, policy)
        case "pairs" if metric.definition.name == "gauc" and "half" not in metric.id:
            counts = _left_out_pairs(total)
        case _:
            counts = []
    return tuple((what, count) for what, count in counts if count)


def _left_out_requests(
    metric: OfflineMetric, total: Callable[[str], int], policy: Policy
) -> list[tuple[str, int]]:
    listed = total("listed")
    dropped = policy.missing_for(metric.definition.name) == "drop"
    irrelevant = listed - total("listed_relevant") if policy.no_relevant == "drop" else 0
    return [
        ("requests_without_relevant", irrelevant),
        ("requests_without_scores", total("requests") - listed if dropped else 0),
    ]


def _left_out_pairs(total: Callable[[str], int]) -> list[tuple[str, int]]:
    return [
        ("single_class_units", total("single_class_units")),
        ("single_class_impressions", total("all_impressions") - total("impressions")),
        ("single_class_clicks", total("all_clicks") - total("gauc_clicks")),
    ]
