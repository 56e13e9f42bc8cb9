"""Build the built-in metrics from `builtin.toml`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from abeval.metrics import definition
from abeval.metrics.definition import ColumnTerm, Direction, Metric, RowTerm, Term
from abeval.packaged import table_beside

_TABLE = table_beside(__file__, "builtin.toml")

_SOURCES = {
    source.name: source
    for source in (
        *(definition.PAGE_VIEWS, definition.SESSIONS, definition.SERVED_RANKING),
        *(definition.CATEGORY_DIVERSITY, definition.NOVELTY, definition.SERENDIPITY),
        *(definition.GAUC, definition.AUC),
        *(definition.QUANTILE, definition.CATALOGUE, definition.UNIT_DAY),
    )
}


def builtin_metrics(long_seconds: float, gap_minutes: float) -> dict[str, Metric]:
    """Return every built-in metric by name.

    Example:
        >>> builtin_metrics(30, 30)["ctr"].formula
        'Σ clicks / Σ impressions'
    """
    thresholds = {"long_seconds": long_seconds, "gap_minutes": gap_minutes}
    # Logs have dwell in milliseconds.
    thresholds["long_ms"] = round(long_seconds * 1000)
    return {name: _metric(name, own, thresholds) for name, own in _TABLE["metrics"].items()}


def dwell_quantile(level: float) -> Metric:
    """Build the metric of a quantile of dwell over clicks."""
    own = {**_TABLE["metrics"]["dwell_p50"], "level": level}
    return _metric(f"dwell_p{round(100 * level)}", own, {})


def _metric(name: str, own: Mapping[str, Any], thresholds: Mapping[str, float]) -> Metric:
    """Build a metric from its table in `builtin.toml`."""
    terms = {key: _term(own[key], thresholds) for key in ("value", "per") if key in own}
    left_out = own.get("left_out", {}).items()
    made = {
        "kind": "ratio" if "per" in own else "mean",
        **own,
        **terms,
        "formula": own["formula"].format(**thresholds, level=own.get("level")),
        "needs": frozenset(own["needs"]),
        "source": _SOURCES[own.get("source", "unit_day")],
        "direction": Direction(**own.get("direction", {})),
        "left_out": tuple((words, _term(term, thresholds)) for words, term in left_out),
    }
    return Metric(name, **made)


def _term(own: str | Mapping[str, Any], thresholds: Mapping[str, float]) -> Term:
    """Build a term from its name, or from its table."""
    table = _TABLE["terms"][own] if isinstance(own, str) else own
    if "column" in table:
        return ColumnTerm(**table)
    term = RowTerm(**table)
    return replace(term, expression=term.expression.format(**thresholds))
