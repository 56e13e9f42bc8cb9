"""Which columns the value of a metric depends on, beside those of every row.

`inference/trust/` asks it, so that a fault of one column touches only the metrics that read it.
"""

from collections.abc import Collection, Iterable
from functools import lru_cache

from abeval.metrics.definition import Metric, event_terms, row_terms
from abeval.metrics.row_text import columns_of


def columns_of_metric(metric: Metric) -> frozenset[str]:
    """Columns that its value depends on, in lower case: canonical ones, and the log's own.

    Example:
        >>> from abeval.metrics.builtin import builtin_metrics
        >>> builtin = builtin_metrics(30, 30)
        >>> sorted(columns_of_metric(builtin["ctr"]))
        ['click']
        >>> sorted(columns_of_metric(builtin["sessions_per_user"]))
        ['day', 'in_period', 'time_ms', 'ts', 'unit']
    """
    terms = (*row_terms(metric), *event_terms(metric))
    texts = {column for term in terms for column in _columns(term.expression)}
    parts = (columns_of_metric(part) for part in metric.parts)
    return frozenset(texts).union(metric.needs, metric.source.reads, *parts)


@lru_cache(maxsize=4096)
def _columns(expression: str) -> frozenset[str]:
    """Of one expression: every check asks for those of all metrics."""
    return frozenset(column.lower() for column in columns_of(expression))


def reading(metrics: Iterable[Metric], columns: Collection[str]) -> tuple[str, ...]:
    """The names of the metrics that read one of these columns.

    Args:
        metrics: In any order, which is kept.
        columns: In lower case.

    Example:
        >>> from abeval.metrics.builtin import builtin_metrics
        >>> builtin = builtin_metrics(30, 30)
        >>> some = [builtin[name] for name in ("ctr", "sessions_per_user", "dwell_per_user")]
        >>> reading(some, {"click", "dwell"})
        ('ctr', 'dwell_per_user')
    """
    return tuple(m.name for m in metrics if not columns_of_metric(m).isdisjoint(columns))
