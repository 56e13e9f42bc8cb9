"""Realistic results, built by hand: what the views of a result are tested on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from abeval.inference.verdict import decide
from abeval.results.analysis import (
    SCHEMA_VERSION,
    Account,
    ExperimentInfo,
    LeftOut,
    MetricInfo,
    Result,
    VariantInfo,
)
from abeval.results.effects import Row, SliceRow
from abeval.results.trust import Check

HOSTILE = "</script><script>window.pwned=1</script>"
HOSTILE_VARIANT = '<img src=x onerror=window.pwned=1> & "b" \'%{x}'
DAYS = tuple(f"2022-04-{day}" for day in range(22, 29))


def metric(name: str = "ctr", **changes: Any) -> MetricInfo:
    base = MetricInfo(
        name, "ratio", "Σ clicks / Σ impressions", "share", "increase", "goal", None, None
    )
    return replace(base, **changes)


def row(name: str = "ctr", **changes: Any) -> Row:
    base = Row(
        metric=name,
        kind="ratio",
        role="goal",
        direction="increase",
        variant="treatment",
        units_control=10_021,
        units=9_987,
        control=0.1034,
        treatment=0.1095,
        difference=0.0061,
        difference_low=0.0032,
        difference_high=0.0090,
        lift=0.0590,
        lift_low=0.0307,
        lift_high=0.0873,
        p_value=0.00004,
        p_adjusted=0.00008,
        method="delta_t",
        status="better",
        reason=None,
    )
    return replace(base, **changes)


def effect(lift: float, half: float, control: float = 1.0) -> dict[str, float]:
    """The numbers of a row with this lift and half-width."""
    ends = {"lift": lift, "lift_low": lift - half, "lift_high": lift + half}
    absolute = {k.replace("lift", "difference"): v * control for k, v in ends.items()}
    return {**ends, **absolute, "control": control, "treatment": control * (1 + lift)}


NO_EFFECT = dict.fromkeys(
    [f.replace("x", e) for f in ("x", "x_low", "x_high") for e in ("difference", "lift")]
    + ["p_value", "p_adjusted", "method"]
)

SESSIONS = row(
    "sessions_per_user",
    kind="mean",
    role="guardrail",
    p_value=0.412,
    p_adjusted=None,
    method="welch_t",
    status="non_inferior",
    **effect(0.004, 0.0095, 3.2),
)
LATENCY = row(
    "latency_ms",
    kind="mean",
    role="guardrail",
    direction="decrease",
    p_value=0.006,
    p_adjusted=None,
    method="welch_t",
    status="worse",
    **effect(0.038, 0.0275, 182.0),
)
DWELL = row(
    "dwell_per_user",
    kind="mean",
    role="goal",
    p_value=0.21,
    p_adjusted=0.21,
    method="welch_t",
    status="unclear",
    **effect(0.004, 0.007, 84.3),
)
GAUC = row(
    "gauc",
    role="diagnostic",
    p_value=0.02,
    p_adjusted=None,
    status="better",
    **effect(0.011, 0.009, 0.612),
)
Q_CTR = row(
    "q_ctr",
    role="diagnostic",
    direction="toward 1",
    p_value=0.5,
    p_adjusted=None,
    status="unclear",
    **effect(0.08, 0.24, 1.08),
)

METRICS = (
    metric(),
    metric("dwell_per_user", kind="mean", formula="Σ dwell / units", unit="s"),
    metric(
        "sessions_per_user",
        kind="mean",
        formula="sessions / units; a session ends after 30 minutes without an impression",
        unit="",
        role="guardrail",
        margin=0.02,
        margin_relative=True,
    ),
    metric(
        "latency_ms",
        kind="mean",
        formula="Σ latency / units",
        unit="ms",
        direction="decrease",
        role="guardrail",
        margin=0.02,
        margin_relative=True,
    ),
    metric(
        "gauc",
        formula="Σ impressions × AUC of the unit / Σ impressions, over units with both classes",
        unit="",
        role="diagnostic",
    ),
    metric(
        "q_ctr",
        formula="Σ predicted click probability / Σ clicks",
        unit="",
        direction="toward 1",
        role="diagnostic",
    ),
)

TRUST = (
    Check("srm", "pass", 0.41, 0.001, "10,021 and 9,987 units where 1:1 was planned."),
    Check("crossover", "pass", 0.0004, 0.01, "8 units were seen in two variants."),
    Check("duplicates", "warn", 0.029, 0.01, "2.9% of rows repeat another. Look at the logger."),
    Check("pre_period", "skipped", None, None, "No pre-period in the experiment file."),
)

ACCOUNTING = (
    Account("impressions", 94_784, 92_010, (("duplicate", 2_750), ("null_unit", 24))),
    Account("clicks", 41_105, 41_011, (("no_impression", 61), ("late", 33))),
)

LEFT_OUT = (
    LeftOut("gauc", "control", "units with one class only", 1_203),
    LeftOut("gauc", "treatment", "units with one class only", 1_190),
)


def daily(name: str, lift: float, variant: str = "treatment") -> tuple[SliceRow, ...]:
    """A week of days around a lift; the first is partial and the fourth has no clicks."""
    wiggles = (0.05, 0.011, -0.013, 0.0, 0.02, -0.004, 0.008)
    rows = []
    for i, (day, wiggle) in enumerate(zip(DAYS, wiggles, strict=True)):
        numbers = effect(lift + wiggle, 0.09 if i == 0 else 0.028, 0.1034)
        numbers = {**numbers, "p_value": 0.2}
        reason = None
        if i == 3:
            numbers, reason = dict.fromkeys(numbers), "no_clicks"
        units = 300 if i == 0 else 3_012
        rows.append(
            SliceRow(
                metric=name,
                variant=variant,
                slice="day",
                cell=day,
                partial=i == 0,
                units_control=units,
                units=units + 7,
                reason=reason,
                **numbers,
            )
        )
    return tuple(rows)


def segment(name: str, cell: str, lift: float, variant: str = "treatment") -> SliceRow:
    numbers = effect(lift, 0.045, 0.1034)
    return SliceRow(
        metric=name,
        variant=variant,
        slice="device",
        cell=cell,
        partial=False,
        units_control=4_000,
        units=4_010,
        p_value=0.04,
        reason=None,
        **numbers,
    )


def result(**changes: Any) -> Result:
    """A result whose verdicts follow from its rows."""
    variants = (
        VariantInfo("control", 1.0, "ranker_v1", 10_021),
        VariantInfo("treatment", 1.0, "ranker_v2", 9_987),
    )
    rows = (row(), DWELL, SESSIONS, GAUC, Q_CTR)
    named = {r.metric for r in changes.get("scorecard", rows)}
    base = Result(
        schema_version=SCHEMA_VERSION,
        experiment=ExperimentInfo(
            "ranker_v2",
            "user_id",
            "control",
            "UTC",
            "2022-04-22",
            "2022-04-29",
            None,
            None,
            0.05,
            variants,
        ),
        verdicts=(),
        trust=TRUST,
        scorecard=rows,
        metrics=tuple(m for m in METRICS if m.name in named),
        daily=(
            *daily("ctr", 0.059),
            *daily("dwell_per_user", 0.004),
            *daily("sessions_per_user", 0.004),
            *daily("gauc", 0.011),
        ),
        segments=tuple(
            segment(name, cell, lift)
            for name, lift in (("ctr", 0.06), ("gauc", 0.01))
            for cell, lift in (("phone", lift), ("tablet", lift - 0.05), ("desktop", lift + 0.01))
        ),
        left_out=LEFT_OUT,
        accounting=ACCOUNTING,
        notes=("Metrics per unit divide by active units: the experiment file gives no exposures.",),
    )
    built = replace(base, **changes)
    if "verdicts" in changes:
        return built
    return replace(built, verdicts=decide(built.trust, built.scorecard, built.metrics))


def ship() -> Result:
    return result()


def do_not_ship() -> Result:
    return result(scorecard=(row(), DWELL, SESSIONS, LATENCY, GAUC, Q_CTR))


def untrusted() -> Result:
    srm = Check(
        "srm",
        "fail",
        2.4e-7,
        0.001,
        "10,571 and 9,437 units where 1:1 was planned. Look at redirects, bot filters and joins.",
    )
    base = result()
    rows = tuple(replace(r, status="untrusted") for r in base.scorecard)
    return result(trust=(srm, *TRUST[1:]), scorecard=rows)


def three_variants() -> Result:
    base = result()
    variants = (*base.experiment.variants, VariantInfo("challenger", 1.0, None, 10_102))
    other = (
        row(variant="challenger", status="unclear", p_adjusted=0.4, **effect(0.01, 0.03, 0.1034)),
        replace(SESSIONS, variant="challenger", status="unclear", **effect(-0.01, 0.02, 3.2)),
    )
    rows = tuple(r for pair in zip((row(), SESSIONS), other, strict=True) for r in pair)
    return result(
        experiment=replace(base.experiment, variants=variants),
        scorecard=rows,
        daily=(*daily("ctr", 0.059), *daily("ctr", 0.01, "challenger")),
    )


def refused() -> Result:
    """Numbers that cannot be had, lifts without bounds, and no guardrail."""
    rows = (
        row(
            status="too_little_data", reason="no_clicks", treatment=None, control=None, **NO_EFFECT
        ),
        replace(
            DWELL,
            lift=0.3,
            lift_low=None,
            lift_high=None,
            difference=1.2,
            difference_low=-0.7,
            difference_high=3.1,
            reason="control_near_zero",
        ),
        row(
            "gauc",
            role="diagnostic",
            status="too_little_data",
            reason="no_scores",
            control=None,
            treatment=None,
            **NO_EFFECT,
        ),
    )
    return result(scorecard=rows, daily=(), segments=(), left_out=(), notes=())


def hostile() -> Result:
    """Names that would break out of HTML, scripts, Plotly templates, markup or the terminal."""
    base = result()
    variants = (
        base.experiment.variants[0],
        replace(base.experiment.variants[1], name=HOSTILE_VARIANT, model="[red]\u2028\x1b[31m"),
    )
    rows = tuple(
        replace(r, metric=HOSTILE if r.metric == "ctr" else r.metric, variant=HOSTILE_VARIANT)
        for r in base.scorecard
    )
    metrics = tuple(
        replace(m, name=HOSTILE, formula="a < b & c > d") if m.name == "ctr" else m
        for m in base.metrics
    )
    return result(
        experiment=replace(base.experiment, name=HOSTILE, variants=variants),
        scorecard=rows,
        metrics=metrics,
        trust=(*TRUST, Check("log_gap", "warn", None, None, f"{HOSTILE} [bold]x[/bold]")),
        daily=daily(HOSTILE, 0.05, HOSTILE_VARIANT),
        segments=(replace(segment(HOSTILE, "a<b>&c", 0.03), variant=HOSTILE_VARIANT),),
        left_out=(LeftOut(HOSTILE, HOSTILE_VARIANT, "<b>rows</b>", 3),),
        notes=(HOSTILE,),
    )
