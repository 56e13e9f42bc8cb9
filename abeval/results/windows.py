"""What the analysis over time is made of: frozen rows of plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

AxisName = Literal["calendar", "exposure", "hour", "weekday"]
Verdict = Literal["stable", "settling", "drifting", "too_early"]
Declared = Literal["better", "worse", "different", "unclear"]


@dataclass(frozen=True)
class WindowRow:
    """The effect of a metric in one window, at a fixed horizon. Effects keep their raw sign.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        axis: `calendar`, `exposure` for days since each unit's entry, or `hour`, `weekday`.
        kind: `daily`, `cumulative` or `rolling`; `recurring` for an hour or a weekday.
        days: Its length; of an hour or a weekday, how many days of the log have it.
        start: First day: a date, or days since entry; or which hour or weekday.
        end: Last day.
        partial: Whether a day of it is only partly covered by the log.
        units_control: Units of control in the window: active in it, or entered by its end where
            it is cumulative.
        units: The same of the variant.
        control: Value in control, in the metric's unit.
        treatment: Value in the variant.
        difference: `treatment - control`.
        difference_low: Lower end of its interval.
        difference_high: Upper end.
        lift: `difference / abs(control)`.
        lift_low: Lower end of its interval, None where it has no bound.
        lift_high: Upper end.
        p_value: Two-sided.
        reason: Why a number is missing, else None.
    """

    metric: str
    variant: str
    axis: AxisName
    kind: Literal["daily", "cumulative", "rolling", "recurring"]
    days: int
    start: str
    end: str
    partial: bool
    units_control: int
    units: int
    control: float | None
    treatment: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    p_value: float | None
    reason: str | None


@dataclass(frozen=True)
class Rhythm:
    """Whether the effect is the same at all hours of the day, or on all weekdays.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        by: `hour` or `weekday`.
        parts: Hours or weekdays that were compared.
        scale: `relative` or `absolute`.
        effect: Their mean effect, by generalised least squares.
        effect_se: Its standard error.
        p_value: Of one effect in all of them (Wald), with their covariance.
        reason: Why there is no test, else None.
    """

    metric: str
    variant: str
    by: AxisName
    parts: int
    scale: str | None = None
    effect: float | None = None
    effect_se: float | None = None
    p_value: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Look:
    """What a reader would have seen, and declared, at the end of a day.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        day: The day.
        difference: Effect on the data up to then.
        fixed_low: Lower end of the interval that holds for one look only.
        fixed_high: Upper end.
        fixed_p_value: Its p-value.
        always_low: Lower end of the always-valid interval.
        always_high: Upper end.
        always_p_value: Always-valid p-value; at most alpha where 0 is outside that interval.
        information: Share of the planned information that was in.
        bound: Critical z of a planned look, None on other days.
        fixed_declares: What the naive reader would have declared.
        always_declares: What the always-valid test declares.
        planned_declares: What the planned look declares, None on other days.
    """

    metric: str
    variant: str
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


@dataclass(frozen=True)
class Stability:
    """Whether an effect is one effect, with the evidence. Tests inside are at 1 %.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        verdict: `stable`, `settling`, `drifting` or `too_early`.
        reason: In words.
        scale: `relative`: effects are log(treatment / control); `absolute`: differences.
        days: Whole days that were compared.
        weeks: Whole weeks among them.
        effect: Mean daily effect, by generalised least squares.
        effect_se: Its standard error.
        wald_p_value: Of all days having the same effect, apart from a weekly rhythm.
        slope: Change a day.
        slope_p_value: Its p-value.
        late_less_early: Effect of the late whole weeks less that of as many early ones; of the
            halves where there are not two whole weeks.
        late_less_early_low: Lower end of its 95 % interval.
        late_less_early_high: Upper end.
        late_less_early_p_value: Its p-value.
        change_p_value: Of the shape that fits best, over all shapes looked for.
        change: `trend`, `decay`, or None where no change was found.
        shocks: Single days that are unlike the others.
        rhythm_p_value: Of a weekly rhythm in the effect, from two whole weeks on.
        sign_share: Share of rolling windows whose sign is that of the whole.
        significance_share: Share of rolling windows that say the same as the whole.
        window_days: Days after which the always-valid conclusion held to the end.
        days_needed: More days that an unclear effect needs at today's traffic, if it is as large
            as it looks.
    """

    metric: str
    variant: str
    verdict: Verdict
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
    days_needed: float | None = None


@dataclass(frozen=True)
class Novelty:
    """Whether an effect decays with the days since a unit's entry: a + b exp(-t / tau).

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        cohort: `all`, or the entry days of the units.
        word: `novelty` (it wears off), `primacy` (it grows), or None: no decay was found.
        p_value: Of no decay, over all time constants tried; of a cohort, at the constant of all.
        days: Days since entry that were compared.
        scale: `relative` or `absolute`.
        start: Effect on the day of entry, by the fit.
        long_run: Effect that it comes to: a.
        long_run_low: Lower end of its 95 % interval, over the time constants that fit.
        long_run_high: Upper end.
        tau: Time constant in days.
        reason: Why there is no fit, else None.
    """

    metric: str
    variant: str
    cohort: str
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


@dataclass(frozen=True)
class EventRow:
    """The effect inside a calendar event against outside.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        event: Its name.
        days: Whole days inside it.
        scale: `relative` or `absolute`.
        inside: Mean daily effect inside.
        outside: Mean daily effect outside, which is the effect without the event.
        overall: Mean daily effect with it.
        difference: `inside - outside`.
        difference_low: Lower end of its 95 % interval.
        difference_high: Upper end.
        p_value: Of no difference.
        reason: Why a number is missing, else None.
    """

    metric: str
    variant: str
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


@dataclass(frozen=True)
class Ramp:
    """Entry days over which traffic was dealt out at the same shares."""

    start: str
    end: str
    shares: Mapping[str, float]
