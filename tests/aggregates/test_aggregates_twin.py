"""Every built-in metric against the twin, on small logs with everything that goes wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy import stats

import abeval
from abeval.errors import LogError
from abeval.results.analysis import Result
from abeval.results.effects import Row as ScoreRow
from abeval.results.effects import SliceRow
from tests.aggregates.twin import DAILY, MEANS, RATIOS, Pair, Plan, Row, Twin
from tests.examples import drawn
from tests.leave_one_out import Known, ratio_of, t_test

EffectRow = ScoreRow | SliceRow

QUANTILES = {"dwell_p50": 0.5, "dwell_p90": 0.9}
EXACT = {"rel": 1e-9, "abs": 1e-9}
PERIOD = (datetime(2024, 3, 9), datetime(2024, 3, 12))
BEFORE = (datetime(2024, 3, 8), datetime(2024, 3, 9))
ZONES = {"UTC": 0, "America/New_York": 5, "Asia/Kathmandu": -5.75}
CLICK_COLUMNS = ("click", "dwell")

IDS = st.sampled_from([[1, 2, 3, 7, 40, 2**53 + 1], ["ü", "名前", "a b", "it's", "007", "7"]])
SCORES = st.sampled_from([None, math.inf, -math.inf, -0.5, 0.0, 0.1, 0.1, 0.25, 0.73, 1.0])
DWELLS = st.sampled_from([None, -1.0, 0.0, 0.25, 12.345, 29.999, 30.0, 30.0, 61.5])
FEW = settings(
    drawn(10),
    # An analysis takes a third of a second: shrinking a failure would take minutes.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


@st.composite
def logs(draw: st.DrawFn, zone: str) -> list[Row]:
    """Impressions of a few units, some of them repeated."""
    ids = draw(IDS)
    own = {unit: draw(st.sampled_from("ab")) for unit in ids}
    start = datetime(2024, 3, 9, tzinfo=UTC) + timedelta(hours=ZONES[zone])
    base = round(start.timestamp() * 1000)
    hour = 3_600_000
    often = st.integers(0, 71 * 6).map(lambda n: base + n * hour // 6)
    edges = [None, -30 * hour, -hour, -1, 0, hour // 2 + 1, 71 * hour - 1, 71 * hour, 72 * hour]
    rare = st.sampled_from([None if e is None else base + e for e in edges])
    rows = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "unit": st.sampled_from([*ids, *ids, *ids, None]),
                    "ms": often | often | often | rare,
                    "variant": st.sampled_from([*["own"] * 12, "a", "other", None]),
                    "request": st.sampled_from([1, 1, 2, 3, 4, None]),
                    "item": st.sampled_from([*range(8), None]),
                    "position": st.integers(1, 30) | st.none(),
                    "category": st.sampled_from(["x", "y", "ÿ", None]),
                    "click": st.sampled_from([0, 1, 1, None]),
                    "dwell": DWELLS,
                    "score_1": SCORES,
                    "score_2": SCORES,
                }
            ),
            min_size=6,
            max_size=50,
        )
    )
    taken: set[tuple[Any, ...]] = set()
    for row in rows:
        row["variant"] = own.get(row["unit"]) if row["variant"] == "own" else row["variant"]
        while row["position"] and (row["unit"], row["request"], row["position"]) in taken:
            row["position"] += 1
        taken.add((row["unit"], row["request"], row["position"]))
    again = draw(st.lists(st.sampled_from(rows), max_size=6))
    return [*rows, *(dict(row) for row in again)]


def frame(rows: Sequence[Row], columns: Sequence[str]) -> pd.DataFrame:
    """Rows as somebody's frame: whole numbers nullable, times in UTC."""
    made = pd.DataFrame({c: pd.Series([r[c] for r in rows], dtype=object) for c in columns})
    for column in made:
        if column == "ms":
            made[column] = pd.to_datetime(made[column].astype("Float64").astype("Int64"), unit="ms")
        elif column in ("dwell", "score_1", "score_2"):
            made[column] = made[column].astype(float)
        elif all(isinstance(v, int) for v in made[column] if v is not None):
            made[column] = made[column].astype("Int64")
    return made


def analyze(plan: Plan, sources: dict[str, pd.DataFrame]) -> Result:
    """The experiment file that says what the plan says."""
    named = {
        "ts": "ms",
        "request_id": "request",
        "item_id": "item",
        "impression_id": "impression",
    }
    entries: dict[str, Any] = {
        "logs": {
            name: {"columns": {k: v for k, v in named.items() if v in log}}
            for name, log in sources.items()
        }
    }
    for name, span in (("period", plan.period), ("pre_period", plan.before)):
        if span is not None:
            entries[name] = {"start": span[0], "end": span[1]}
    models = {v: f"model_{score}" for v, score in plan.serves.items()}
    loaded = abeval.define(
        name="twin",
        unit="unit",
        control="a",
        timezone=plan.zone,
        variants={v: ({"model": models[v]} if models else {}) for v in plan.variants},
        models={f"model_{score}": {"score": score} for score in plan.serves.values()},
        cleaning={"crossover": plan.crossover, "duplicates": plan.duplicates},
        metrics=[{"name": name} for name in (*MEANS, *RATIOS, "auc", *QUANTILES)],
        engine={"threads": 1},
        **entries,
    )
    return loaded.analyze(logs=sources)


def compare(twin: Twin, impressions: pd.DataFrame, **others: pd.DataFrame) -> None:
    sources = {"impressions": impressions, **others}
    if not any(row["in_period"] for row in twin.rows):
        with pytest.raises(LogError, match="nothing is left to analyse"):
            analyze(twin.plan, sources)
        return
    check(analyze(twin.plan, sources), twin)


def check(result: Result, twin: Twin) -> None:
    check_accounting(result, twin)
    check_left_out(result, twin)
    for name in (*MEANS, *RATIOS):
        arms = [twin.per_unit(name, v) for v in ("a", "b")]
        row = result[name]
        if row.reason == "no_clicks":
            assert twin.clicks == 0
        elif row.reason == "no_scores":
            assert not any(x for arm in arms for _, x in arm) or name != "q_ctr"
        else:
            check_effect(row, *arms, mean=name in MEANS)
    check_auc(result, twin)
    check_quantiles(result, twin)
    check_spreads(result, twin)
    check_unit_aucs(result, twin)
    if twin.plan.before is not None:
        check_balance(result, twin)
    if twin.plan.period is not None:
        check_days(result, twin)


def check_accounting(result: Result, twin: Twin) -> None:
    found = {
        account.log: {"used": account.used, **dict(account.set_aside)}
        for account in result.accounting
    }
    expected = {log: {"used": 0, **reasons} for log, reasons in twin.accounts.items()}
    assert found == expected
    for account in result.accounting:
        assert account.read == sum(twin.accounts[account.log].values())
    units = {v.name: v.units for v in result.experiment.variants}
    assert units == {v: len(twin.members(v)) for v in twin.plan.variants}
    crossover = next(c for c in result.trust if c.name == "crossover")
    assert f"{twin.crossovers} of {twin.candidates} units" in crossover.message


def check_left_out(result: Result, twin: Twin) -> None:
    found = {(r.metric, r.what, r.variant): r.count for r in result.left_out}
    expected = {
        (*key, variant): count
        for variant in twin.plan.variants
        if twin.members(variant)
        for key, count in twin.left_out(variant).items()
    }
    assert found == expected


def check_effect(row: EffectRow, control: list[Pair], treatment: list[Pair], mean: bool) -> None:
    """Values, units, and the interval that the per-unit values give."""
    assert (row.units_control, row.units) == (len(control), len(treatment))
    below = [math.fsum(x for _, x in arm) for arm in (control, treatment)]
    if 0 in below:
        assert (row.control, row.treatment, row.difference) == (None, None, None)
        assert row.reason == ("empty_denominator" if control and treatment else "no_units")
        return
    values = [
        math.fsum(y for y, _ in arm) / x for arm, x in zip((control, treatment), below, strict=True)
    ]
    assert row.control == pytest.approx(values[0], **EXACT)
    assert row.treatment == pytest.approx(values[1], **EXACT)
    if min(len(control), len(treatment)) < 2:
        assert (row.difference, row.reason) == (None, "too_few_units")
        return
    if few_successes(control, treatment):
        check_exact(row, [sum(y for y, _ in arm) for arm in (control, treatment)])
        return
    apart = residuals(control, mean), residuals(treatment, mean)
    shares = all(y in (0, 1) and (mean or x == 1) for y, x in (*control, *treatment))
    negative = any(y < 0 for y, _ in (*control, *treatment))
    at_effects = 0.0 if shares or negative else skewness_at_effects(*apart, values)
    if skewness_left(*apart) > SKEWED or at_effects > SKEWED_AT_EFFECTS:
        check_skewed(row)
        return
    if not mean and (one_holds_all(control) or one_holds_all(treatment)):
        assert (row.difference, row.reason) == (None, "too_few_units")
        return
    check_interval(
        row,
        values,
        [(estimate_mean if mean else estimate_ratio)(arm) for arm in (control, treatment)],
    )


SKEWED = 0.07
"""Skewness of a difference above which values have a test of their own."""


def residuals(pairs: list[Pair], mean: bool) -> np.ndarray:
    """Each unit's part in the error of the mean, or of the ratio."""
    y, x = np.array(pairs, dtype=float).T
    return y - y.mean() if mean else (y - y.sum() / x.sum() * x) / x.mean()


def skewness_left(control: np.ndarray, treatment: np.ndarray) -> float:
    """What uneven arms leave of the skewness of all units in the difference, without its sign."""
    n, m = len(control), len(treatment)
    both = np.concatenate([control, treatment])
    square = float(both @ both) / (n + m - 2)
    if square < 1e-12:
        return 0.0
    cube = float(both**2 @ both) * (n + m) / (n + m - 1) / (n + m - 2)
    return abs(cube * (1 / m**2 - 1 / n**2)) / (square * (1 / n + 1 / m)) ** 1.5


SKEWED_AT_EFFECTS = 0.15
"""The same at an effect of 2.8 standard errors, up or down."""


def skewness_at_effects(control: np.ndarray, treatment: np.ndarray, values: list[float]) -> float:
    """Skewness of the difference if treatment's values were so many times those of all units."""
    n, m = len(control), len(treatment)
    both = np.concatenate([control, treatment])
    value = (n * values[0] + m * values[1]) / (n + m)
    if value <= 0 or float(both @ both) < 1e-12 * (n + m):
        return 0.0
    effect = 2.8 * math.sqrt(float(both @ both) / (n + m - 2) * (1 / n + 1 / m)) / value
    square, cube = float(both @ both) / (n + m), float(both**2 @ both) / (n + m)
    return max(
        abs(cube * (k**3 / m**2 - 1 / n**2)) / (square * (k**2 / m + 1 / n)) ** 1.5
        for k in (1 + effect, 1 - min(effect, 0.9))
    )


def check_skewed(row: EffectRow) -> None:
    """Days and cells do not say their test: it is in `test_means_and_ratios_skew.py`."""
    if row.difference is None:
        assert row.reason in ("too_skewed", "too_few_units")
    else:
        assert "permutation_" in getattr(row, "method", "permutation_moments")


def few_successes(control: list[Pair], treatment: list[Pair]) -> bool:
    """Every unit 0 or 1 over 1, and few of one of them in an arm."""
    if any(x != 1 or y not in (0, 1) for y, x in (*control, *treatment)):
        return False
    fewer, more = sorted((len(control), len(treatment)))
    ones = [sum(y for y, _ in arm) for arm in (control, treatment)]
    zeros = [len(arm) - one for arm, one in zip((control, treatment), ones, strict=True)]
    return min(*ones, *zeros) < (50 if more > 2 * fewer else 10)


SHARES = ("ctr", "long_click_rate")
"""Metrics of 0s and 1s by definition, where a unit has one impression or click."""


def check_exact(row: EffectRow, successes: list[float]) -> None:
    units = row.units_control + row.units
    if sum(successes) in (0, units) and row.metric in SHARES:
        # As many more as are missed in 2.5 %: of the treatment, or of control where all succeed.
        largest = 1 - 0.025 ** (1 / (row.units_control if sum(successes) else row.units))
        assert (row.p_value, row.difference) == (1.0, 0.0)
        assert row.difference_high == pytest.approx(largest, rel=1e-6)
        return
    if sum(successes) in (0, units):
        assert row.reason == "zero_variance"
        return
    law = stats.hypergeom(units, sum(successes), row.units)
    tail = min(law.cdf(successes[1]), law.sf(successes[1] - 1)) - law.pmf(successes[1]) / 2
    assert row.p_value == pytest.approx(min(1.0, 2 * tail), rel=1e-6)
    assert row.difference_low <= row.difference <= row.difference_high


def one_holds_all(pairs: list[Pair]) -> bool:
    """Without that unit there is no ratio to compare with."""
    return sum(x != 0 for _, x in pairs) == 1


def estimate_mean(pairs: list[Pair]) -> Known:
    y = np.array([y for y, _ in pairs])
    return Known(float(y.mean()), float(y.var(ddof=1)) / len(y), len(y) - 1)


def estimate_ratio(pairs: list[Pair]) -> Known:
    """The ratio with what it is without each unit."""
    y, x = np.array(pairs, dtype=float).T
    return ratio_of(y, x)


def check_interval(row: EffectRow, values: list[float], arms: list[Known]) -> None:
    se = math.sqrt(sum(arm.variance for arm in arms))
    if row.difference is None:
        assert row.reason == "zero_variance"
        assert se < 1e-9
        return
    assert row.difference == pytest.approx(values[1] - values[0], **EXACT)
    if se < 1e-6:
        # The degrees of freedom of what rounding leaves of no variance have no meaning.
        assert row.difference_high - row.difference_low < 1e-4
        return
    found = (row.difference_high - row.difference_low) / 2
    df = se**4 / sum(arm.variance**2 / arm.df for arm in arms)
    assert found / stats.t.ppf(0.975, df) == pytest.approx(se, **EXACT)
    assert row.p_value == pytest.approx(
        2 * stats.t.sf(abs(values[1] - values[0]) / se, df), rel=1e-6, abs=1e-9
    )


def check_auc(result: Result, twin: Twin) -> None:
    row = result["auc"]
    arms = [twin.auc(v) for v in ("a", "b")]
    if row.reason in ("no_clicks", "no_scores"):
        assert twin.clicks == 0 or None in arms
    elif arms[0] is None or arms[1] is None:
        assert (row.control, row.treatment) == (None, None)
    else:
        assert row.control == pytest.approx(arms[0][0], **EXACT)
        assert row.treatment == pytest.approx(arms[1][0], **EXACT)
        if row.reason != "too_few_units":
            units = row.units_control, row.units
            known = [Known(a, v, n - 1) for (a, v), n in zip(arms, units, strict=True)]
            check_interval(row, [a for a, _ in arms], known)


def check_quantiles(result: Result, twin: Twin) -> None:
    for name, level in QUANTILES.items():
        row, arms = result[name], twin.quantiles(level)
        if row.reason in ("no_clicks", "no_units", "empty_denominator"):
            assert twin.clicks == 0 or None in arms
            continue
        control, treatment = (arm for arm in arms if arm is not None)
        assert (row.control, row.treatment) == pytest.approx(
            (control.value, treatment.value), **EXACT
        )
        ends = (control.low, control.high, treatment.low, treatment.high)
        if row.difference is None:
            assert row.reason in ("too_few_units", "tied_quantile", "zero_variance")
            assert None in ends or control.low == control.high
        else:
            assert None not in ends
            check_side(row.difference_low, row, treatment.low, control.high)
            check_side(row.difference_high, row, treatment.high, control.low)


def check_spreads(result: Result, twin: Twin) -> None:
    """The whole distribution of dwell, and its quantiles compared."""
    for one in result.spreads:
        shown = [twin.distribution(one.variant, level) / 1000 for level in one.levels]
        assert one.quantiles == pytest.approx(tuple(shown), **EXACT)
    compared = {one.level: one for one in result.quantile_effects}
    for name, level in QUANTILES.items():
        row, one = result[name], compared.get(level)
        assert (one is None) == (not result.spreads)
        if one is not None:
            numbers = ("control", "treatment", "difference_low", "lift_high", "p_value", "reason")
            assert [getattr(one, n) for n in numbers] == [getattr(row, n) for n in numbers]


def check_unit_aucs(result: Result, twin: Twin) -> None:
    """Units by their own AUC, and those that have none."""
    shown = {one.variant: one for one in result.unit_aucs}
    for variant in twin.plan.variants:
        fates = twin.unit_aucs(variant)
        if not fates:
            assert variant not in shown
            continue
        one = shown[variant]
        found = {("judged", round(20 * b.low)): b.units for b in one.bins}
        found |= {(w.reason, -1): w.units for w in one.without}
        assert found == dict(fates)
        pairs = twin.per_unit("gauc", variant)
        assert one.impressions == sum(int(n) for _, n in pairs)


def check_side(end: float, row: EffectRow, treatment: float, control: float) -> None:
    """One end of an effect, from the ends of the two values that give it."""
    z = stats.norm.ppf(0.975)
    ses = [(row.control - control) / z, (row.treatment - treatment) / z]
    units = row.units_control, row.units
    se = math.hypot(*ses)
    df = se**4 / sum(s**4 / (n - 1) for s, n in zip(ses, units, strict=True))
    half = stats.t.ppf(0.975, df) * se
    assert abs(end - row.difference) == pytest.approx(half, rel=1e-5)


def check_balance(result: Result, twin: Twin) -> None:
    """CTR before the period, of the units that are analysed in it, after Holm over all metrics."""
    arms = [twin.per_unit("ctr", v, before=True) for v in ("a", "b")]
    shown = [math.fsum(x for _, x in arm) for arm in arms]
    found = next(c for c in result.trust if c.name == "pre_period:ctr:b")
    if 0 in shown or min(map(len, arms)) < 2:
        assert found.status == "skipped"
        return
    if any(map(one_holds_all, arms)):
        assert found.status == "skipped"
        return
    ratios = [estimate_ratio(arm) for arm in arms]
    if sum(ratio.variance for ratio in ratios) < 1e-12:
        return
    *_, p_value = t_test(*ratios)
    compared = sum(c.name.startswith("pre_period:") for c in result.trust)
    assert found.value is not None
    assert p_value * (1 - 1e-6) - 1e-9 <= found.value
    assert found.value <= min(1.0, compared * p_value) * (1 + 1e-6) + 1e-9


def check_days(result: Result, twin: Twin) -> None:
    found = {(r.metric, r.cell): r for r in result.daily}
    shown = {name for name, _ in found}
    assert {day for _, day in found} <= set(twin.days(*twin.plan.variants))
    for name in DAILY:
        for day in twin.days(*twin.plan.variants) if name in shown else ():
            arms = [twin.per_unit_of_day(name, v, day) for v in ("a", "b")]
            check_effect(found[name, day], *arms, mean=name in MEANS)


@pytest.mark.whole
@FEW
@given(st.data())
def test_clicks_as_a_column(data: st.DataObject) -> None:
    plan = data.draw(plans())
    rows = data.draw(logs(plan.zone))
    compare(Twin(plan, rows), frame(rows, list(rows[0])))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    return Plan(
        period=PERIOD,
        before=draw(st.sampled_from([None, BEFORE])),
        zone=draw(st.sampled_from(list(ZONES))),
        crossover=draw(st.sampled_from(["first", "exclude"])),
        duplicates=draw(st.sampled_from(["drop", "drop", "keep", "unchecked"])),
        serves=draw(
            st.sampled_from([{"a": "score_1", "b": "score_2"}, {"a": "score_1", "b": "score_1"}])
        ),
    )


@pytest.mark.slow
@pytest.mark.whole
@FEW
@given(st.data())
def test_clicks_by_impression_id(data: st.DataObject) -> None:
    plan = data.draw(plans())
    rows = [
        {k: v for k, v in row.items() if k not in CLICK_COLUMNS}
        for row in data.draw(logs(plan.zone))
    ]
    numbers = {key: n for n, key in enumerate(dict.fromkeys(map(repr, rows)))}
    rows = [{**row, "impression": numbers[repr(row)]} for row in rows]
    clicks = data.draw(clicks_of(rows, ("impression",)))
    twin = Twin(plan, rows, clicks, ("impression",))
    compare(twin, frame(rows, list(rows[0])), clicks=frame(clicks, ["impression", "ms", "dwell"]))


@pytest.mark.whole
@FEW
@given(st.data())
def test_clicks_by_request_item_and_position(data: st.DataObject) -> None:
    plan = data.draw(plans())
    rows = [
        {k: v for k, v in row.items() if k not in CLICK_COLUMNS}
        for row in data.draw(logs(plan.zone))
    ]
    key = ("request", "item", "position")
    clicks = data.draw(clicks_of(rows, key))
    twin = Twin(plan, rows, clicks, key)
    compare(twin, frame(rows, list(rows[0])), clicks=frame(clicks, [*key, "ms", "dwell"]))


@st.composite
def clicks_of(draw: st.DrawFn, rows: Sequence[Row], key: Sequence[str]) -> list[Row]:
    """Clicks on some impressions, late ones and orphans among them, some repeated."""
    minute = 60_000
    delays = [0, minute, minute, 5 * minute, 24 * 60 * minute, 24 * 60 * minute + 1, -minute]
    made = []
    for row in draw(st.lists(st.sampled_from(rows), min_size=6, max_size=40)):
        delay = draw(st.sampled_from(delays))
        shown = row["ms"] if row["ms"] is not None else 1_710_000_000_000
        ms = draw(st.sampled_from([shown + delay] * 9 + [None]))
        made.append({**{k: row[k] for k in key}, "ms": ms, "dwell": draw(DWELLS)})
    orphans = [
        {**dict.fromkeys(key, 999), "ms": None, "dwell": 1.0},
        {**dict.fromkeys(key), "ms": 1_710_000_000_000, "dwell": None},
    ]
    made += draw(st.lists(st.sampled_from(orphans), max_size=2))
    return made + draw(st.lists(st.sampled_from(made), max_size=4))


@pytest.mark.slow
@pytest.mark.whole
@FEW
@given(st.data())
def test_exposures_and_categories_of_items(data: st.DataObject) -> None:
    plan = replace(data.draw(plans()), zone="UTC")
    rows = data.draw(logs("UTC"))
    start = round(datetime(2024, 3, 9, tzinfo=UTC).timestamp() * 1000)
    units = list(dict.fromkeys(r["unit"] for r in rows if r["unit"] is not None))
    stranger = "nobody" if units and isinstance(units[0], str) else 10**6
    exposures = data.draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "unit": st.sampled_from([*units, *units, stranger, None]),
                    "ms": st.integers(-6, 66).map(lambda hours: start + hours * 3_600_000),
                    "variant": st.sampled_from(["a", "b", "a", "b", "other"]),
                }
            ),
            min_size=1,
            max_size=14,
        )
    )
    # A column of nulls alone has no type.
    exposures.append({"unit": stranger, "ms": start, "variant": "a"})
    categories = data.draw(
        st.dictionaries(st.integers(0, 9), st.sampled_from(["x", "z"]), min_size=1)
    )
    twin = Twin(plan, rows, exposures=exposures, categories=categories)
    listed = [{"item": item, "category": c} for item, c in categories.items()]
    compare(
        twin,
        frame(rows, list(rows[0])),
        exposures=frame(exposures, ["unit", "ms", "variant"]),
        items=frame(listed, ["item", "category"]),
    )


def test_coverage_and_traffic() -> None:
    """Coverage by counting the sets of units, on a log whose arms differ in size."""
    random = np.random.default_rng(5)
    rows = [
        {
            **dict.fromkeys(("variant", "request", "position", "category", "click", "dwell")),
            "unit": unit,
            "ms": 1_710_000_000_000 + n,
            "variant": "a" if unit % 4 else "b",
            "item": int(random.zipf(1.4) % 60),
            "score": None,
        }
        for unit in range(400)
        for n in range(int(random.integers(1, 6)))
    ]
    # The day before, everybody saw everything: none of it counts.
    rows += [{**row, "ms": row["ms"] - 86_400_000, "item": n % 80} for n, row in enumerate(rows)]
    twin = Twin(Plan(period=PERIOD, before=BEFORE), rows)
    result = abeval.define(
        name="twin",
        unit="unit",
        control="a",
        variants={"a": {"weight": 3}, "b": {}},
        period={"start": PERIOD[0], "end": PERIOD[1]},
        pre_period={"start": BEFORE[0], "end": BEFORE[1]},
        logs={
            "impressions": {"columns": {"item_id": "item", "ts": "ms"}, "time_unit": "ms"},
            "items": {"columns": {"item_id": "item"}},
        },
        metrics=[{"name": name} for name in ("coverage", "gini", "entropy")],
    ).analyze(
        logs={
            "impressions": frame(rows, ["unit", "item", "variant"]).assign(
                ms=[r["ms"] for r in rows]
            ),
            "items": pd.DataFrame({"item": range(80)}),
        }
    )
    row = result["coverage"]
    assert (row.units_control, row.units) == (300, 100)
    assert row.control == pytest.approx(twin.coverage("a", 100, 80), **EXACT)
    assert row.treatment == pytest.approx(twin.coverage("b", 100, 80), **EXACT)
    # Of the smaller arm all units are compared, so its values are those of the whole arm.
    shown = np.zeros(80)
    for item, by_unit in twin.shown("b").items():
        shown[item] = sum(by_unit.values())
    share = np.sort(shown / shown.sum())
    gini = float(np.abs(share[:, None] - share[None, :]).sum()) / (2 * 80)
    entropy = -math.fsum(p * math.log(p) for p in share if p > 0)
    assert result["gini"].treatment == pytest.approx(gini, **EXACT)
    assert result["entropy"].treatment == pytest.approx(entropy, **EXACT)
