"""Build the built-in metrics from `builtin.toml`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from abeval.metrics import definition
from abeval.metrics.definition import ColumnTerm, Direction, Metric, RowTerm, Term
from abeval.packaged import load_toml_next_to

_TABLE = load_toml_next_to(__file__, "builtin.toml")

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
    return {name: _metric(name, entry, thresholds) for name, entry in _TABLE["metrics"].items()}


def dwell_quantile(level: float) -> Metric:
    """Build the metric of a quantile of dwell over clicks."""
    entry = {**_TABLE["metrics"]["dwell_p50"], "level": level}
    return _metric(f"dwell_p{round(100 * level)}", entry, {})


def _metric(name: str, entry: Mapping[str, Any], thresholds: Mapping[str, float]) -> Metric:
    """Build a metric from its table in `builtin.toml`."""
    terms = {key: _term(entry[key], thresholds) for key in ("value", "per") if key in entry}
    left_out = entry.get("left_out", {}).items()
    fields = {
        "kind": "ratio" if "per" in entry else "mean",
        **entry,
        **terms,
        "formula": entry["formula"].format(**thresholds, level=entry.get("level")),
        "needs": frozenset(entry["needs"]),
        "source": _SOURCES[entry.get("source", "unit_day")],
        "direction": Direction(**entry.get("direction", {})),
        "left_out": tuple((text, _term(term, thresholds)) for text, term in left_out),
    }
    return Metric(name, **fields)


def _term(entry: str | Mapping[str, Any], thresholds: Mapping[str, float]) -> Term:
    """Build a term from its name, or from its table."""
    table = _TABLE["terms"][entry] if isinstance(entry, str) else entry
    if "column" in table:
        return ColumnTerm(**table)
    term = RowTerm(**table)
    return replace(term, expression=term.expression.format(**thresholds))
