"""Tables of the shapes that public experiments have, with what an analyst would say of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd


class Shape(NamedTuple):
    """A table, and the right answers.

    Attributes:
        frame: The table.
        unit: Column of the unit, `row` where there is none.
        variant: Column of the variant.
        control: Its value for control; None where only a person can say.
        outcomes: Columns that must be goals, and no others.
    """

    frame: pd.DataFrame
    unit: str
    variant: str | None
    control: str | None
    outcomes: set[str]


def shapes(rows: int = 3_000) -> dict[str, Shape]:
    random = np.random.default_rng(5)

    def flag(share: float) -> np.ndarray:
        return (random.random(rows) < share).astype(int)

    def pick(*values: object) -> np.ndarray:
        return random.choice(np.array(values, dtype=object), rows)

    def money() -> np.ndarray:
        return np.where(random.random(rows) < 0.1, random.gamma(2, 20, rows), 0).round(2)

    start = pd.Timestamp("2026-03-01")
    days = start + pd.to_timedelta(random.integers(0, 14, rows), unit="D")
    seconds = start + pd.to_timedelta(random.integers(0, 14 * 86_400, rows), unit="s")
    user = random.integers(0, rows // 8, rows)
    side = pick("control", "treatment")
    pages = np.where(side == "control", "old_page", "new_page")
    return {
        "mail_campaign": Shape(
            pd.DataFrame(
                {
                    "recency": random.integers(1, 13, rows),
                    "history_segment": pick("1) $0 - $100", "2) $100 - $200"),
                    "history": random.gamma(1, 200, rows).round(2),
                    "mens": flag(0.5),
                    "zip_code": pick("Urban", "Rural", "Surburban"),
                    "segment": pick("Mens E-Mail", "Womens E-Mail", "No E-Mail"),
                    "visit": flag(0.15),
                    "conversion": flag(0.02),
                    "spend": money(),
                }
            ),
            "row",
            "segment",
            "No E-Mail",
            {"visit", "conversion", "spend"},
        ),
        "ads_or_psa": Shape(
            pd.DataFrame(
                {
                    "index": range(rows),
                    "user id": 1_000_000 + random.permutation(rows),
                    "test group": np.where(random.random(rows) < 0.96, "ad", "psa"),
                    "converted": flag(0.03).astype(bool),
                    "total ads": random.integers(1, 200, rows),
                    "most ads hour": random.integers(0, 24, rows),
                }
            ),
            "user id",
            "test group",
            "psa",
            {"converted"},
        ),
        "brand_survey": Shape(
            pd.DataFrame(
                {
                    "auction_id": [f"{i:06x}-a" for i in random.permutation(rows)],
                    "experiment": pick("control", "exposed"),
                    "date": days,
                    "hour": random.integers(0, 24, rows),
                    "device_make": pick("Samsung", "Generic"),
                    "yes": flag(0.07),
                    "no": flag(0.08),
                }
            ),
            "auction_id",
            "experiment",
            "control",
            {"yes"},
        ),
        "game": Shape(
            pd.DataFrame(
                {
                    "userid": random.permutation(rows),
                    "version": pick("gate_30", "gate_40"),
                    "sum_gamerounds": random.integers(0, 300, rows),
                    "retention_1": flag(0.4).astype(bool),
                    "retention_7": flag(0.2).astype(bool),
                }
            ),
            "userid",
            "version",
            None,
            {"sum_gamerounds", "retention_1", "retention_7"},
        ),
        "landing_page": Shape(
            pd.DataFrame(
                {
                    "user_id": 600_000 + random.permutation(rows),
                    "timestamp": seconds,
                    "group": side,
                    "landing_page": pages,
                    "converted": flag(0.12),
                }
            ),
            "user_id",
            "group",
            "control",
            {"converted"},
        ),
        "two_columns": Shape(
            pd.DataFrame({"group": pick("A", "B"), "converted": flag(0.1)}),
            "row",
            "group",
            "A",
            {"converted"},
        ),
        "video_log": Shape(
            pd.DataFrame(
                {
                    "uid": user,
                    "variant": np.where(user % 2 == 0, "control", "model_b"),
                    "time_ms": (seconds.astype("int64") // 10**6).to_numpy(),
                    "video_id": random.integers(0, 500, rows),
                    "rank": random.integers(1, 11, rows),
                    "is_click": flag(0.2),
                    "play_time_ms": random.integers(0, 60_000, rows),
                    "tab": pick("home", "feed"),
                }
            ),
            "uid",
            "variant",
            "control",
            {"ctr"},
        ),
        "orders": Shape(
            pd.DataFrame(
                {
                    "visitorId": [f"v{i}" for i in user],
                    "abGroup": np.where(user % 2 == 0, "A", "B"),
                    "eventTime": seconds.tz_localize("UTC"),
                    "revenue": random.gamma(2, 10, rows).round(2),
                }
            ),
            "visitorId",
            "abGroup",
            "A",
            {"revenue"},
        ),
        "customers": Shape(
            pd.DataFrame(
                {
                    "customer": [f"c{i}" for i in range(rows)],
                    "treatment": flag(0.5),
                    "spend_before": money(),
                    "spend": money(),
                    "returned": flag(0.3).astype(bool),
                    "country": pick("de", "fr"),
                }
            ),
            "customer",
            "treatment",
            "0",
            {"spend"},
        ),
        "days_of_devices": Shape(
            pd.DataFrame(
                {
                    "device_id": [f"d{i}" for i in user],
                    "arm": np.where(user % 3 == 0, "ctrl", "new"),
                    "day": days,
                    "clicks": random.integers(0, 4, rows),
                    "revenue": random.gamma(1, 2, rows),
                }
            ),
            "device_id",
            "arm",
            "ctrl",
            {"clicks", "revenue"},
        ),
        "bandit": Shape(
            pd.DataFrame(
                {
                    "timestamp": seconds,
                    "item_id": random.integers(0, 34, rows),
                    "position": random.integers(1, 4, rows),
                    "click": flag(0.05),
                    "propensity_score": random.random(rows),
                    "policy": pick("random", "bts"),
                }
            ),
            "row",
            "policy",
            "random",
            {"ctr"},
        ),
        "ratings": Shape(
            pd.DataFrame(
                {
                    "userId": user,
                    "movieId": random.integers(0, 900, rows),
                    "rating": random.integers(1, 11, rows) / 2,
                    "timestamp": (seconds.astype("int64") // 10**9).to_numpy(),
                }
            ),
            "userId",
            None,
            None,
            {"rating"},
        ),
    }
