"""Sources: where the values of a metric come from, one frozen record each.

A source is a query of `queries/units`, or a kernel in its place, that returns a value per unit (and
day); quantiles, functions and catalogue metrics have queries of their own.

Each `Metric` has one; `aggregates/` computes it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """What a metric's values are computed from.

    One of `daily`, `of_days` and `no_days` says what its values are by day.

    Attributes:
        name: Its id, and the name of its relation.
        title: The step that computes it, as a progress bar shows it.
        reads: Columns of `impressions` that its query reads, `in_period` among them; empty if it
            reads the sums per unit and day only.
        scored: Whether it reads the score of the model that a variant serves.
        per_unit: Whether each unit has one value; if not, other queries compute it.
        daily: Whether its query has a row per day (column `day`), and days add up. Only such
            metrics are compared before the period.
        of_days: Whether each day has a value, but days do not add up to the period's.
        no_days: Why it has no effects by day, for users to read.
        no_replays: Why A/A replays cannot split it, None if they can.
        no_cuts: Why parts of the traffic cannot have it, None if they can.
        events: The log whose rows since a unit's exposure it is made of, empty where it is several
            logs; None for other sources.

    Raises:
        ValueError: Not exactly one of `daily`, `of_days` and `no_days` is set.

    Example:
        >>> GAUC.query, GAUC.daily, AUC.no_days, AUC.capped
        ('units/gauc', False, 'AUC over all impressions does not add up over days', False)
    """

    name: str
    title: str
    reads: tuple[str, ...] = ()
    scored: bool = False
    per_unit: bool = True
    daily: bool = False
    of_days: bool = False
    no_days: str | None = None
    no_replays: str | None = None
    no_cuts: str | None = None
    events: str | None = None

    def __post_init__(self) -> None:
        """Check that the source says what its values are by day."""
        if self.daily + self.of_days + (self.no_days is not None) != 1:
            raise ValueError(f"source {self.name!r}: set one of daily, of_days and no_days")

    @property
    def capped(self) -> bool:
        """Whether units' totals can be capped; windows need them by day."""
        return self.no_days is None

    @property
    def has_before(self) -> bool:
        """Whether its units have values before the period, which groups are compared by."""
        return self.daily or self.events not in (None, "units")

    @property
    def query(self) -> str:
        """Its query in `queries/`."""
        return f"units/{self.name if self.events is None else 'unit_events'}"

    def __str__(self) -> str:
        return self.name


_LISTS = "it needs whole lists, and a cut takes rows out of them"
_SESSIONS = "it needs whole sessions, and a cut takes rows out of them"

UNIT_DAY = Source("unit_day", "sums per unit", daily=True)
PAGE_VIEWS = Source(
    "page_views", "page views", ("in_period", "day", "request_id"), daily=True, no_cuts=_LISTS
)
SERVED_RANKING = Source(
    "served_ranking",
    "served lists",
    ("in_period", "day", "request_id", "position", "item_id", "click"),
    daily=True,
    no_cuts=_LISTS,
)
CATEGORY_DIVERSITY = Source(
    "category_diversity",
    "category diversity",
    ("in_period", "day", "request_id", "category"),
    daily=True,
    no_cuts=_LISTS,
)
SESSIONS = Source(
    "sessions", "sessions", ("in_period", "day", "time_ms"), daily=True, no_cuts=_SESSIONS
)
GAUC = Source("gauc", "GAUC", ("in_period", "day", "click"), scored=True, of_days=True)
AUC = Source(
    "auc",
    "AUC",
    ("in_period", "click"),
    scored=True,
    no_days="AUC over all impressions does not add up over days",
)
QUANTILE = Source(
    "quantile",
    "quantiles",
    ("in_period", "day"),
    per_unit=False,
    no_days="a quantile over impressions does not add up over days",
    no_replays="not a sum over units: a quantile is over all impressions",
    no_cuts="a quantile is not a sum over units",
)
FUNCTION = Source(
    "function",
    "functions",
    per_unit=False,
    no_days="a function of other metrics is resampled over the whole period",
    no_replays="not a sum over units: a function of other metrics",
    no_cuts="a function of other metrics is resampled over all impressions",
)
CATALOGUE = Source(
    "catalogue",
    "catalogue",
    ("in_period", "item_id"),
    per_unit=False,
    no_days="sets of shown items do not add up over days",
    no_replays="not a sum over units: items overlap",
    no_cuts="it counts distinct items, and one item may be in several cells",
)


def events_of(log: str) -> Source:
    """The source of what units do in a log since their exposure; of several logs without a name.

    Example:
        >>> events_of("orders").query, events_of("orders").has_before
        ('units/unit_events', True)
    """
    of_impressions = log in ("impressions", "")
    return Source(
        f"events_of_{log}" if log else "funnels",
        f"events of {log}" if log else "funnels",
        ("in_period", "time_ms", "day") if of_impressions else (),
        no_days="a value since a unit's exposure does not add up over days",
        no_cuts="a value since a unit's exposure is not a sum over the impressions of a cell",
        events=log,
    )
