"""Plan of a simulated log: its size, dates, names and rates of defects.

`simulate.run` makes it from the options of `abeval simulate` and hands it to the other modules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date
from typing import ClassVar

from abeval.bounds import MAX_IMPRESSIONS, check_seed
from abeval.errors import ExperimentError

DEFAULT_IMPRESSIONS = 200_000
LEAST_IMPRESSIONS = 5_000
LIST_LENGTH = 20
POOL = 40

PRE_START = date(2026, 9, 7)
START = date(2026, 9, 14)
END = date(2026, 9, 28)
DAY_MS = 86_400_000
PRE_DAYS = (START - PRE_START).days
DAYS = (END - PRE_START).days

NAME = "sample"
VARIANTS = ("control", "treatment")
# Users are assigned by a hash of the experiment's name and their id. From this id on, the variants
# are nearly equal in size, whatever the number of users.
FIRST_USER = 20_000


@dataclass(frozen=True, slots=True)
class DirtRates:
    """Rate of each kind of defect, as a share of the rows, requests or users that can have it."""

    duplicate_impressions: float = 0.005
    null_score_impressions: float = 0.0005
    null_user_requests: float = 0.002
    crossover_users: float = 0.003
    orphan_clicks: float = 0.004
    late_clicks: float = 0.003
    duplicate_clicks: float = 0.004
    null_dwell_clicks: float = 0.005


@dataclass(frozen=True, slots=True)
class Plan:
    """A simulation, determined by its size and seed.

    Args:
        impressions: Impressions before duplicates are added, with the pre-period; the log has
            `requests` times 20 of them.
        seed: The same seed gives the same rows.

    >>> plan = Plan(200_000)
    >>> plan.requests, plan.users, plan.items
    (10000, 3333, 2000)
    >>> Plan(20_000_000).users
    500000
    """

    impressions: int = DEFAULT_IMPRESSIONS
    seed: int = 7
    dirt: DirtRates = field(default_factory=DirtRates)

    requests_per_chunk: ClassVar[int] = 50_000

    def __post_init__(self) -> None:
        """Check the seed, and that the log is large enough for every kind of defect."""
        if self.impressions < LEAST_IMPRESSIONS:
            raise ExperimentError(
                f"{self.impressions:,} impressions are too few to simulate",
                hint=f"use at least {LEAST_IMPRESSIONS:,}",
            )
        if self.impressions > MAX_IMPRESSIONS:
            raise ExperimentError(
                f"{self.impressions:,} impressions are too many to simulate",
                hint=f"use at most {MAX_IMPRESSIONS:,}",
            )
        check_seed(self.seed)

    @property
    def requests(self) -> int:
        """Number of requests, each with a list of 20."""
        return self.impressions // LIST_LENGTH

    @property
    def users(self) -> int:
        """Number of users: 3 requests a user on average, down to 2 in larger logs."""
        decades = math.log10(self.impressions / DEFAULT_IMPRESSIONS)
        return round(self.requests / min(3.0, max(2.0, 3 - decades / 2)))

    @property
    def items(self) -> int:
        """Number of items, a multiple of the pool from which a list is selected."""
        return POOL * min(2_500, max(10, self.impressions // 4_000))
