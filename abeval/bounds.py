"""Bound the numbers that a user may set."""

from numbers import Real

from abeval.errors import ExperimentError

MAX_WEIGHT = 1e12
"""Of a variant: the sum of all weights must stay a number."""

MIN_ALPHA = 1e-12

MAX_VALUE = 1e15
"""Of a target, a margin or a number of units."""

MIN_RESOLUTION = 1e-12

MAX_VARIANTS = 100
"""Of an experiment: what is compared and checked grows with their square."""

MAX_METRICS = 500
"""Of an experiment, and of a table where each column of numbers becomes one."""

MAX_SEGMENTS = 100
"""Of an experiment, and likewise of cuts: each has a check and a table."""

MAX_SEGMENT_VALUES = 10_000
"""Of a segment: what has more is an id."""

MAX_CLUSTERS = 20_000
"""Of a design, and of its slots: each is drawn again 9,999 times."""

MAX_LOOKS = 100
"""That are planned: each is integrated over those before it."""

MAX_FILES = 50_000
"""Of a log: each is opened by every query."""

MAX_GAP_MINUTES = 1e7
MAX_LONG_SECONDS = 1e9
MAX_ATTRIBUTION_HOURS = 1e6
MAX_THREADS = 1024

MIN_EFFECT, MAX_EFFECT = 1e-6, 1e3
"""Relative effects to plan for: 0.0001 % to 100,000 %."""

MIN_DAYS, MAX_DAYS = 0.01, 36_500.0
MAX_REPLAYS = 1_000_000
MAX_CUTOFF = 999_999_999
MAX_BINS = 10_000
MAX_CURVE = 1_000
MAX_IMPRESSIONS = 1_000_000_000

MAX_WINDOW_DAYS = 400
"""Windows keep the values of each unit by day: memory grows with both."""


def check_between(name: str, value: float, low: float, high: float) -> None:
    """Refuse a value that is not a number within its bounds; NaN is outside.

    Example:
        >>> check_between("days", float("nan"), 1, 9)
        Traceback (most recent call last):
        abeval.errors.ExperimentError: days nan: use a number from 1 to 9
    """
    if not isinstance(value, Real) or not low <= value <= high:
        what = f"{name} {value}: use a number from {low:,.12g} to {high:,.12g}"
        raise ExperimentError(what)


def check_seed(seed: int) -> None:
    """Refuse a negative seed."""
    if seed < 0:
        raise ExperimentError(f"seed {seed} is negative", "use 0 or more")
