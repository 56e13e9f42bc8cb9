"""abeval's names for the columns of logs.

`consistency.py` checks what the file maps by them, `logs/mapping.py` the columns of the logs.
"""

from collections.abc import Mapping

from abeval.experiment.sources import OUTCOME

IDS = ("unit_id", "item_id", "impression_id", "request_id")
"""Columns whose values are ids."""

CANONICAL_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "impressions": (
        "impression_id",
        "request_id",
        "unit_id",
        "item_id",
        "ts",
        "variant",
        "position",
        "score",
        "click",
        "dwell",
        "category",
        "propensity",
        "timeout",
        "fallback",
        "stale",
    ),
    "units": ("unit_id", "variant"),
    "clicks": ("unit_id", "impression_id", "request_id", "item_id", "position", "ts", "dwell"),
    "items": ("item_id", "category", "embedding"),
    "exposures": ("unit_id", "ts", "variant"),
    "scores": ("model", "stage", "request_id", "item_id", "score", "rank"),
    "truth": ("request_id", "unit_id", "item_id", "grade"),
    "training": ("unit_id", "item_id", "ts", "click", "policy"),
}
"""abeval's names for the columns of each log."""

_OUTCOME_COLUMNS = ("unit_id", "ts")
"""Those of every outcome log."""


def canonical_columns(log: str) -> tuple[str, ...]:
    """The canonical columns of a log, by its path in the file below `logs`; of others none.

    Example:
        >>> canonical_columns("events.orders")
        ('unit_id', 'ts')
    """
    return _OUTCOME_COLUMNS if log.startswith(OUTCOME) else CANONICAL_COLUMNS.get(log, ())
