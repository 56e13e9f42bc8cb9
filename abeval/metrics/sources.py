"""Sources: where the values of a metric come from, one frozen record each.

A source is a query of `queries/units`, or a kernel in its place, that returns a value per unit (and
day); quantiles, functions and catalogue metrics have queries of their own.

Each `Metric` has one; `aggregates/` and `time/` run its query.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """What a metric's values are computed from.

    Attributes:
        name: Its id, and the name of its relation.
        title: The step that computes it, as a progress bar shows it.
        reads: Columns of the impressions that its query reads, beside scores; empty if the sums
            per unit and day are enough.
        scored: Whether it reads the score of the variant's model.
        per_unit: Whether it has one value per unit, so that sums over units describe it.
        daily: Whether its values belong to a day and add up over days.
        day_query: The query of its values by day, if they are computed otherwise than the period's.
        no_days: Why it has no effects by day; None if it has.
        no_replays: Why A/A replays cannot split it; None if they can.
        capped: Whether the total of a unit can be capped.

    Example:
        >>> GAUC.query, GAUC.daily, AUC.no_days
        ('units/gauc', False, 'AUC over all impressions does not add up over days')
    """

    name: str
    title: str
    reads: tuple[str, ...] = ()
    scored: bool = False
    per_unit: bool = True
    daily: bool = False
    day_query: str | None = None
    no_days: str | None = None
    no_replays: str | None = None
    capped: bool = True

    @property
    def query(self) -> str:
        """Its query in `queries/`."""
        return f"units/{self.name}"

    def __str__(self) -> str:
        return self.name


UNIT_DAY = Source("unit_day", "sums per unit", daily=True)
PAGE_VIEWS = Source("page_views", "page views", ("in_period", "day", "request_id"), daily=True)
SERVED_RANKING = Source(
    "served_ranking",
    "served lists",
    ("in_period", "day", "request_id", "position", "item_id", "click"),
    daily=True,
)
CATEGORY_DIVERSITY = Source(
    "category_diversity",
    "category diversity",
    ("in_period", "day", "request_id", "category"),
    daily=True,
)
SESSIONS = Source("sessions", "sessions", ("in_period", "day", "time_ms"), daily=True)
GAUC = Source("gauc", "GAUC", ("in_period", "day", "click"), scored=True, day_query="time/gauc_day")
AUC = Source(
    "auc",
    "AUC",
    ("in_period", "click"),
    scored=True,
    no_days="AUC over all impressions does not add up over days",
    capped=False,
)
QUANTILE = Source(
    "quantile",
    "quantiles",
    ("in_period", "day"),
    per_unit=False,
    no_days="a quantile over impressions does not add up over days",
    no_replays="not a sum over units: a quantile is over all impressions",
    capped=False,
)
FUNCTION = Source(
    "function",
    "functions",
    per_unit=False,
    no_days="a function of other metrics is resampled over the whole period",
    no_replays="not a sum over units: a function of other metrics",
    capped=False,
)
CATALOGUE = Source(
    "catalogue",
    "catalogue",
    ("in_period", "item_id"),
    per_unit=False,
    no_days="sets of shown items do not add up over days",
    no_replays="not a sum over units: items overlap",
    capped=False,
)
