"""Logs made of what engines disagree about, and the experiments that read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from abeval.api import LoadedExperiment, define
from abeval.experiment.metrics import list_available_metrics

NAMES = [
    "Ünïcødé",
    "日本語",
    "👍🏽",
    "a'b",
    'q"q',
    "back\\slash",
    "100%_x",
    " lead",
    "ß",
    "${x}",
    "",
    "é",
]
"""Ids: quotes, wildcards, spaces, an empty text, an accent that is a character of its own."""


def words(rows: int = 600, seed: int = 0) -> dict[str, object]:
    """Text ids, every score and dwell that is no number, days without a row, a change of clocks."""
    random = np.random.default_rng(seed)
    unit = random.integers(0, 60, rows)
    request = random.integers(0, rows // 4, rows)
    score = random.integers(0, 8, rows) / 8
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e300, 1e-300])
    where = random.random(rows) < 0.15
    score[where] = odd[random.integers(0, len(odd), where.sum())]
    dwell = np.round(random.exponential(20_000, rows)) / 1000
    dwell[random.random(rows) < 0.1] = np.nan
    dwell[:3] = [-1.0, np.inf, 2.0005]
    # New York's clocks go forward on 8 March 2026; nobody is there on the 10th.
    seconds = random.integers(0, 6 * 86_400, rows)
    seconds = np.where((seconds > 4 * 86_400) & (seconds < 5 * 86_400), 100, seconds)
    # Parts of a millisecond, before a whole second too.
    micros = seconds * 1_000_000 + random.choice([0, 499, 500, 999_700], rows)
    log = pd.DataFrame(
        {
            "who": [f"{NAMES[u % len(NAMES)]}{u}" for u in unit],
            "variant": np.where(unit % 3 == 0, "it's \\b", "Ä"),
            "ts": pd.Timestamp("2026-03-06 05:00") + pd.to_timedelta(micros, unit="us"),
            "request_id": [f"r{r}{NAMES[r % len(NAMES)]}" for r in request],
            "item_id": [NAMES[i] for i in random.integers(0, len(NAMES), rows)],
            "position": pd.array(random.integers(1, 6, rows), dtype="Int32"),
            "category": random.choice([*NAMES[:4], None], rows),
            "model_score": score.astype(np.float32),
            "click": random.random(rows) < 0.3,
            "dwell": dwell,
            "price": [None if i % 17 == 0 else i % 7 * 1.25 for i in range(rows)],
            "tax": np.float32(0.1) * random.integers(0, 5, rows).astype(np.float32),
            "Device": random.choice(["Phone", "phone ", "TABLET", None, "déjà"], rows),
            "prop": random.random(rows).clip(0.05),
        }
    )
    log.loc[log.index[:5], "who"] = None
    log.loc[log.index[5:9], "variant"] = None
    log.loc[log.index[9:12], "ts"] = pd.NaT
    log.loc[log.index[12:15], "request_id"] = None
    return {"impressions": pd.concat([log, log.iloc[20:40]], ignore_index=True)}


def numbers(rows: int = 700, seed: int = 1) -> dict[str, object]:
    """Ids beyond 64-bit signed and 53-bit numbers, times as numbers, and every log beside."""
    random = np.random.default_rng(seed)
    unit = random.integers(0, 70, rows)
    request = np.arange(rows) // 4
    start = 1_790_000_000_000
    log = pd.DataFrame(
        {
            "who": (np.uint64(2**63) + unit[request].astype(np.uint64)),
            "time": start + random.integers(-4 * 86_400_000, 5 * 86_400_000, rows),
            "request_id": 2**53 + request,
            "item_id": -(2**62) + random.integers(0, 15, rows),
            "position": np.arange(rows) % 4,
            "a": random.integers(0, 50, rows) / 50,
            "b": random.integers(0, 50, rows) / 50,
            "amount": random.integers(-(2**30), 2**30, rows),
            "spent": random.integers(0, 10_000, rows) / 100,
        }
    )
    log.loc[log.index[:4], "time"] = 2**62
    clicked = log.sample(frac=0.3, random_state=seed)
    clicks = clicked[["request_id", "item_id", "position", "time"]].assign(
        time=clicked["time"] + 1000, dwell=random.integers(0, 60_000, len(clicked))
    )
    clicks.loc[clicks.index[:5], "request_id"] = 7
    clicks.loc[clicks.index[5:9], "time"] += 10**9
    items = pd.DataFrame({"item_id": -(2**62) + np.arange(20), "category": list("abcd") * 5})
    vectors = random.integers(-3, 4, (20, 4)) / 3
    items["embedding"] = [None if i % 6 == 5 else list(vectors[i]) for i in range(20)]
    exposed = pd.DataFrame({"who": np.uint64(2**63) + np.arange(60, dtype=np.uint64)})
    exposed["time"] = start - 86_400_000 + np.arange(60) * 3_600_000
    return {
        "impressions": pd.concat([log, log.iloc[:12]], ignore_index=True),
        "clicks": pd.concat([clicks, clicks.iloc[:10]], ignore_index=True),
        "items": items,
        "exposures": exposed,
    }


def busy(requests: int = 60, seed: int = 2) -> dict[str, object]:
    """Long lists with many clicks and ties, and a log of another model's scores."""
    random = np.random.default_rng(seed)
    rows = 20 * requests
    request = np.arange(rows) // 20
    log = pd.DataFrame(
        {
            "who": request % 6,
            "variant": np.where(request % 6 < 3, "a", "b"),
            "ts": pd.Timestamp("2026-10-23 12:00") + pd.to_timedelta(request * 90, unit="m"),
            "request_id": request,
            "item_id": np.arange(rows) % 20,
            "position": np.arange(rows) % 20 + 1,
            "category": random.choice(["x", "y", "z"], rows),
            "score": random.integers(0, 5, rows) / 5,
            "click": random.integers(0, 2, rows),
        }
    )
    scores = log[["request_id", "item_id"]].assign(model="other", score=log["score"].sample(frac=1))
    scores.loc[scores.index[:3], "score"] = np.nan
    return {
        "impressions": pd.concat([log, log.iloc[:20]], ignore_index=True),
        "scores": pd.concat([scores.iloc[5:], scores.iloc[5:9]], ignore_index=True),
    }


def busy_experiment() -> LoadedExperiment:
    """Without segments, and over the night in which Berlin's clocks go back."""
    return define(
        name="busy",
        unit="who",
        control="a",
        timezone="Europe/Berlin",
        variants={"a": {}, "b": {}},
        period={"start": "2026-10-23", "end": "2026-10-28"},
        logs={"impressions": {}, "scores": {}},
        metrics=[{"name": "ctr"}, {"name": "ndcg"}],
    )


def tied(rows: int = 90) -> dict[str, object]:
    """Units in several variants, of which times do not always say which was first."""
    index = np.arange(rows)
    day = pd.Timestamp("2026-10-23")
    log = pd.DataFrame(
        {
            "who": index % 30,
            "variant": np.where(index % 4 == 1, "b", "a"),
            "ts": day + pd.to_timedelta(index // 30 * (index % 3), unit="h"),
            "click": index % 2,
        }
    )
    log.loc[log.index % 13 == 0, "ts"] = pd.NaT
    exposures = log[["who", "variant", "ts"]].iloc[:75]
    exposures["Plan"] = np.where(exposures.index % 3 == 0, "Pro ", None)
    return {"impressions": log, "exposures": exposures}


def spelled(log: pd.DataFrame) -> pd.DataFrame:
    """The log with some variants that no experiment names."""
    names = np.select([log.index % 7 == 1, log.index % 7 == 2], ["A ", "Ä"], log["variant"])
    return log.assign(variant=names)


def tied_experiment(**entries: Any) -> LoadedExperiment:
    """Uneven weights, so that ties are broken by hash."""
    base: dict[str, Any] = {
        "name": "tied",
        "unit": "who",
        "control": "a",
        "variants": {"a": {"weight": 2}, "b": {}},
        "logs": {"impressions": {}, "exposures": {}},
        "segments": {"plan": {"value": "lower(trim(Plan))", "known": "exposure"}},
        "metrics": [{"name": "ctr"}],
    }
    return define(**{**base, **entries})


def touched(rows: int = 600) -> dict[str, object]:
    """Clicks without an id: equal and missing times, items seen again, clicks on nothing."""
    random = np.random.default_rng(8)
    minutes = pd.to_timedelta(random.integers(0, 3_000, rows), unit="m")
    log = pd.DataFrame(
        {
            "who": [NAMES[i] for i in random.integers(0, len(NAMES), rows)],
            "variant": "a",
            "item_id": random.integers(0, 5, rows),
            "ts": pd.Timestamp("2026-10-23") + minutes,
        }
    )
    number = log["who"].map({name: i for i, name in enumerate(NAMES)})
    log["variant"] = np.where(number % 2 == 0, "a", "b")
    clicks = log.sample(200, random_state=1).drop(columns="variant")
    clicks["ts"] += pd.to_timedelta(random.integers(-60, 2_000, 200), unit="m")
    clicks = clicks.assign(dwell=random.integers(0, 90, 200), item_id=clicks["item_id"] + 1)
    log.loc[log.index % 17 == 0, "ts"] = pd.NaT
    clicks.loc[clicks.index % 11 == 0, "ts"] = pd.NaT
    return {"impressions": log, "clicks": pd.concat([clicks, clicks.head(9)])}


def touched_experiment() -> LoadedExperiment:
    """Clicks of the last impression of the unit and item before them, within six hours."""
    return define(
        name="touched",
        unit="who",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"impressions": {}, "clicks": {"attribution_hours": 6}},
        cleaning={"duplicates": "unchecked"},
        metrics=[{"name": "ctr"}, {"name": "dwell_per_click"}],
    )


def units(rows: int = 300) -> dict[str, object]:
    """One row a unit, but for copies and for units whose rows differ."""
    random = np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "who": [f"{NAMES[i % len(NAMES)]}{i}" for i in range(rows)],
            "group": np.where(random.random(rows) < 0.5, "Ä", "it's \\b"),
            "click": random.poisson(3, rows),
            "views": 5 + random.poisson(3, rows),
            "spent": [None if i % 17 == 0 else i % 7 * 1.25 for i in range(rows)],
            "before": random.gamma(2.0, 3.0, rows),
            "Device": random.choice(["Phone", "TABLET", None], rows),
        }
    )
    table.loc[:2, "who"] = None
    again = table.iloc[20:26].assign(click=99)
    return {"units": pd.concat([table, table.iloc[5:12], again], ignore_index=True)}


def units_experiment() -> LoadedExperiment:
    """Covariates, a quantile, and columns that are called as canonical ones."""
    return define(
        name="units",
        unit="who",
        control="Ä",
        variants={"Ä": {}, "it's \\b": {}},
        logs={"units": {"columns": {"variant": "group"}, "covariates": ["before", "click"]}},
        segments={"device": "lower(Device)"},
        inference={"adjust": "cuped"},
        metrics=[
            {"name": "spent", "missing": "drop"},
            {"name": "ctr", "numerator": "click", "denominator": "views", "missing": "zero"},
            {"name": "p90", "value": "spent", "quantile": 0.9, "missing": "drop"},
        ],
    )


OWN: list[dict[str, Any]] = [
    {"name": "revenue", "value": "price * click * 1.1 + tax"},
    {"name": "per_position", "value": "1 / (position - 1)"},
    {"name": "rounded", "value": "cast(price / 0.3 as int) + floor(price) + round(price / 2.5)"},
    {"name": "logs", "value": "ln(price) + ln(price) + sqrt(price - 1)"},
    {
        "name": "ratio",
        "numerator": "greatest(dwell, 1.5) * click",
        "denominator": "coalesce(price, 0)",
        "cap": 0.95,
    },
]


def words_experiment(**entries: Any) -> LoadedExperiment:
    """Every built-in metric, and expressions that engines compute in ways of their own."""
    segments = {
        "device": "lower(trim(Device))",
        "band": "floor(price / 2.5)",
        "label": "Device || '-' || position",
        "weekday": "extract(dow from ts)",
    }
    base: dict[str, Any] = {
        "name": "nasty",
        "unit": "who",
        "control": "Ä",
        "timezone": "America/New_York",
        "variants": {"Ä": {}, "it's \\b": {}},
        "period": {"start": "2026-03-07", "end": "2026-03-12"},
        "pre_period": {"start": "2026-03-06", "end": "2026-03-07"},
        "logs": {"impressions": {"columns": {"score": "model_score", "propensity": "prop"}}},
        "segments": segments,
        "inference": {"adjust": "cuped"},
    }
    return _with_metrics({**base, **entries}, OWN)


def agreed_experiment() -> LoadedExperiment:
    """Two models of the same rows, and columns that say why offline and online differ."""
    return words_experiment(
        variants={"Ä": {"model": "x"}, "it's \\b": {"model": "y"}},
        models={"x": {"score": "model_score"}, "y": {"score": "tax"}},
        agreement={"latency": "dwell", "model_version": "Device"},
    )


def numbers_experiment(**entries: Any) -> LoadedExperiment:
    """Assigned by hash, clicks and exposures apart, clocks that move by half an hour."""
    columns = {"ts": "time"}
    base: dict[str, Any] = {
        "name": "huge",
        "unit": "who",
        "control": "c",
        "timezone": "Australia/Lord_Howe",
        "variants": {"c": {"weight": 2, "model": "x"}, "t": {"model": "y"}},
        "models": {"x": {"score": "a"}, "y": {"score": "b"}},
        "assignment": {"salt": "s-1"},
        "period": {"start": "2026-09-20", "end": "2026-09-25"},
        "pre_period": {"start": "2026-09-16", "end": "2026-09-20"},
        "logs": {
            "impressions": {"columns": columns, "time_unit": "ms", "first_position": 0},
            "clicks": {"columns": columns, "time_unit": "ms", "dwell_unit": "ms"},
            "items": {},
            "exposures": {"columns": columns, "time_unit": "ms"},
        },
        "cleaning": {"duplicate_key": ["request_id", "item_id", "position"]},
        "segments": {"big": "case when amount > 0 then 'plus' else 'minus' end"},
    }
    own = [
        {"name": "amount_per_user", "value": "amount"},
        {"name": "spent_", "value": "spent / 3"},
        # Its cubes do not fit 128 bits.
        {"name": "basket", "value": "5e6 + 0 * amount"},
        {"name": "each", "numerator": "5e6 + 0 * amount", "denominator": "1"},
    ]
    return _with_metrics({**base, **entries}, own)


def _with_metrics(entries: dict[str, Any], own: list[dict[str, Any]]) -> LoadedExperiment:
    names = list(list_available_metrics(define(**{**entries, "metrics": []}).experiment))
    return define(**{"metrics": [*({"name": name} for name in names), *own], **entries})
