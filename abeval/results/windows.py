"""Hold effects over time.

In every row `metric` is the metric's id and `variant` the variant compared with control. `X_low`
and `X_high` are the ends of the interval of `X`, at 95 % unless the row says otherwise. `reason`
says why numbers are missing; it is None when they are there.
"""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from abeval.results.analysis import Ramp
from abeval.results.effects import Numbers, VariantRecord
from abeval.results.record import DrawnRecord, Tabled
from abeval.results.trust import AAResult, Balance
from abeval.views import view

if TYPE_CHECKING:
    import pandas as pd

TIME_SCHEMA_VERSION = "1"

AxisName = Literal["calendar", "exposure", "hour", "weekday"]
StabilityVerdict = Literal["stable", "settling", "drifting", "too_early"]
Declared = Literal["better", "worse", "different", "unclear"]


class WindowRow(VariantRecord, Numbers, kw_only=True):
    """The effect of a metric in one window, at a fixed horizon.

    `units` counts units active in the window; in a cumulative window, units that entered by its
    end.

    Attributes:
        axis: `calendar`, `exposure` (days since each unit's entry), `hour` or `weekday`.
        kind: `daily`, `cumulative` or `rolling`; `recurring` for an hour or a weekday.
        days: Length in days; for an hour or a weekday, the number of days of the log that have it.
        start: First day, as a date or as days since entry; for `recurring`, the hour or weekday.
    """

    FIRST: ClassVar = (
        *("metric", "variant", "axis", "kind", "days", "start", "end", "partial"),
        *Numbers.FIRST,
    )

    axis: AxisName
    kind: Literal["daily", "cumulative", "rolling", "recurring"]
    days: int
    start: str
    end: str
    partial: bool
    reason: str | None


class Rhythm(VariantRecord):
    """Whether the effect is the same at all hours of the day, or on all weekdays.

    `effect` is the mean effect, by generalised least squares; `p_value` is from Hotelling's test of
    the same effect in all parts, with their covariance.
    """

    by: AxisName
    parts: int
    scale: str | None = None
    effect: float | None = None
    effect_se: float | None = None
    p_value: float | None = None
    reason: str | None = None


class Look(VariantRecord):
    """The difference seen at the end of a day, and what three rules conclude.

    Attributes:
        always_p_value: Always-valid p-value; at most alpha if the always-valid interval excludes 0.
        information: Share of the planned information; without a plan, the information as a multiple
            of that at the first look.
        bound: Critical z of a planned look; None on other days.
    """

    day: str
    difference: float
    fixed_low: float
    fixed_high: float
    fixed_p_value: float
    always_low: float
    always_high: float
    always_p_value: float
    information: float
    bound: float | None
    fixed_declares: Declared
    always_declares: Declared
    planned_declares: Declared | None


class Stability(VariantRecord):
    """Whether an effect is stable over time, tested at 1 %.

    Attributes:
        scale: `relative`: effects are log(treatment / control); `absolute`: differences.
        effect: Mean daily effect, by generalised least squares.
        wald_p_value: P-value of Hotelling's test of the same effect on all days, apart from a
            weekly rhythm.
        late_less_early: Effect in the last whole weeks minus that in as many first ones; with fewer
            than two whole weeks, effect in the later half minus that in the earlier half.
        change_p_value: P-value of no change, for the shape that fits best, adjusted over all shapes
            tested.
        change: `trend`, `decay`, or None without a change.
        rhythm_p_value: P-value of no weekly rhythm in the effect; None with fewer than two whole
            weeks.
        sign_share: Share of rolling windows whose effect has the sign of the overall effect.
        significance_share: Share of rolling windows whose conclusion is that of the overall effect.
        window_days: Number of days after which the always-valid conclusion no longer changed.
    """

    verdict: StabilityVerdict
    reason: str
    scale: str | None = None
    days: int = 0
    weeks: int = 0
    effect: float | None = None
    effect_se: float | None = None
    wald_p_value: float | None = None
    slope: float | None = None
    slope_p_value: float | None = None
    late_less_early: float | None = None
    late_less_early_low: float | None = None
    late_less_early_high: float | None = None
    late_less_early_p_value: float | None = None
    change_p_value: float | None = None
    change: str | None = None
    shocks: tuple[str, ...] = ()
    rhythm_p_value: float | None = None
    sign_share: float | None = None
    significance_share: float | None = None
    window_days: int | None = None


class Novelty(VariantRecord):
    """Whether an effect decays with days since entry: a + b exp(−t / tau).

    Attributes:
        word: `novelty` (it wears off), `primacy` (it grows), or None without a decay.
        p_value: P-value of no decay, over all time constants tried.
        start: Fitted effect on the day of entry: a + b.
        long_run: Long-run effect: a; its interval covers all time constants that fit.
    """

    word: Literal["novelty", "primacy"] | None
    p_value: float | None
    days: int
    scale: str | None = None
    start: float | None = None
    long_run: float | None = None
    long_run_low: float | None = None
    long_run_high: float | None = None
    tau: float | None = None
    reason: str | None = None


class WeekSinceEntry(VariantRecord, kw_only=True):
    """The mean daily effect in a whole week since entry, 1 the first.

    Attributes:
        covariance: Covariance of its error with that of the first week: the same units return.
    """

    week: int
    scale: str
    effect: float
    se: float
    covariance: float


class EventRow(VariantRecord):
    """The mean daily effect during a calendar event, outside, and overall."""

    event: str
    days: int
    scale: str | None = None
    inside: float | None = None
    outside: float | None = None
    overall: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p_value: float | None = None
    reason: str | None = None


class TimeResult(Tabled[Stability], DrawnRecord):
    """Effects over time: by window, their stability and novelty, and daily looks.

    Attributes:
        ramps: Entry days with the same shares; one split period if they never changed.
        before: Effects between the same groups in the pre-period, before anything differed.
    """

    ROWS: ClassVar = ("stability", "metric", "variant")
    TABLES: ClassVar = "time_short:tabulate_time"

    schema_version: str
    name: str
    alpha: float
    days: tuple[str, ...]
    partial: tuple[str, ...]
    stability: tuple[Stability, ...]
    novelty: tuple[Novelty, ...]
    windows: tuple[WindowRow, ...]
    looks: tuple[Look, ...]
    events: tuple[EventRow, ...]
    ramps: tuple[Ramp, ...]
    refused: Mapping[str, str]
    notes: tuple[str, ...]
    rhythms: tuple[Rhythm, ...] = ()
    before: tuple[Balance, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    questions: tuple[str, ...] = ()
    weeks: tuple[WeekSinceEntry, ...] = ()

    def windows_frame(self) -> "pd.DataFrame":
        """Return one row per metric, variant and window."""
        return self._frame("windows")

    def looks_frame(self) -> "pd.DataFrame":
        """Return one row per metric, variant and day."""
        return self._frame("looks")

    def report(self, path: str | Path, aa: AAResult | None = None) -> Path:
        """Write everything as one self-contained HTML file.

        With A/A replays if given.
        """
        written: Path = view("page")(self, Path(path), aa)
        return written
