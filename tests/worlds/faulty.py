"""Draw logs with one fault each, of one variant or of one log, which no analysis may decide on."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from abeval.results.analysis import Result
from tests.worlds import audited as audits
from tests.worlds.healthy import (
    DAYS,
    EVEN,
    HOUR_MS,
    START,
    Random,
    Split,
    World,
    buyers,
    declare_splits,
    draw_logs,
    draw_visits,
)

USERS = 6_000


class Fault(NamedTuple):
    """A fault, the checks of which one must fail or warn, and words that it must say."""

    draw: Callable[[Random], World]
    checks: tuple[str, ...]
    words: tuple[str, ...] = ()

    def is_found(self, result: Result) -> bool:
        """Tell whether a check finds the fault and names it."""
        return any(
            check.name in self.checks and all(word in check.message for word in self.words)
            for check in audits.fired(result)
        )


def plant(fault: audits.Fault, impressions: int, random: Random) -> World:
    """Plant a fault of `audits` into a log of its own kind."""
    log = audits.simulated(impressions, int(random.integers(2**31)))
    return World(fault.plant(log, random)._asdict(), {"segments": audits.SEGMENTS})


def is_lost(log: pd.DataFrame, first: int, hours: int) -> "pd.Series[bool]":
    """Tell which rows of treatment are in some hours since the start."""
    start = START + np.timedelta64(first * HOUR_MS, "ms")
    end = start + np.timedelta64(hours * HOUR_MS, "ms")
    return (log["variant"] == "treatment") & (log["ts"] >= start) & (log["ts"] < end)


def lose_hours(random: Random, first: int, splits: Sequence[Split] = ()) -> World:
    """Three busy hours of treatment are lost."""
    logs = draw_logs(random, draw_visits(random, USERS), 0.0, splits or EVEN)
    shown, clicks = logs["impressions"], logs["clicks"]
    shown = shown[~is_lost(shown, first, 3)]
    clicks = clicks[clicks["impression_id"].isin(shown["impression_id"])]
    entries = declare_splits(splits) if splits else {}
    return World({"impressions": shown, "clicks": clicks}, entries)


def lose_clicks(random: Random, variant: str, device: str = "", lasts: int = DAYS) -> World:
    """A variant's clicks are lost from a day on: all, or those of a device; for good, or a day."""
    logs = draw_logs(random, draw_visits(random, USERS), 0.0)
    shown, start = logs["impressions"], int(random.integers(2, DAYS - 1))
    day = (shown["ts"] - START).dt.days
    lost = (shown["variant"] == variant) & day.between(start, start + lasts - 1)
    lost &= shown["device"].str.startswith(device)
    clicks = logs["clicks"]
    kept = ~clicks["impression_id"].isin(shown["impression_id"][lost])
    return World({"impressions": shown, "clicks": clicks[kept]}, {})


def lose_orders(random: Random, variant: str, start: int) -> World:
    """A variant's orders are lost from a day on."""
    world = buyers(random, USERS, 0.0)
    orders, exposures = world.logs["orders"], world.logs["exposures"]
    units = exposures["user_id"][exposures["variant"] == variant]
    late = orders["ts"] >= START + np.timedelta64(start, "D")
    kept = orders[~(late & orders["user_id"].isin(units))].reset_index(drop=True)
    return World({**world.logs, "orders": kept}, world.entries)


def redeliver(random: Random) -> World:
    """Two of five clicked rows of treatment come again, of which only the arrival differs."""
    logs = draw_logs(random, draw_visits(random, USERS // 3), 0.0)
    log = logs["impressions"].drop(columns=["impression_id"])
    log["click"] = logs["impressions"]["impression_id"].isin(logs["clicks"]["impression_id"]) * 1
    log["message_id"] = np.arange(len(log))
    log["received_at"] = log["ts"] + pd.Timedelta(seconds=1)
    chosen = (log["variant"] == "treatment") & (log["click"] == 1) & (random.random(len(log)) < 0.4)
    again = log[chosen]
    again = again.assign(received_at=again["received_at"] + pd.Timedelta(seconds=45))
    return World({"impressions": pd.concat([log, again])}, {})


def shift_zone(random: Random, hours: int) -> World:
    """Exposures are in UTC, orders in local time without a zone: many come before exposure."""
    visits = draw_visits(random, USERS)
    logs = draw_logs(random, visits, 0.0)
    first = logs["impressions"].groupby(["user_id", "variant"], as_index=False)["ts"].min()
    buys = random.random(len(first)) < np.where(first["variant"] == "treatment", 0.36, 0.30)
    wait = pd.to_timedelta(np.round(random.exponential(6.0, len(first)), 4), unit="h")
    local = (first["ts"] + wait + pd.Timedelta(hours=hours))[buys]
    orders = pd.DataFrame({"user_id": first["user_id"][buys], "amount": 10.0})
    orders["ts"] = local.dt.strftime("%Y-%m-%d %H:%M:%S")
    exposures = first.assign(ts=first["ts"].dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    entries: dict[str, Any] = {
        "logs": {"impressions": {}, "exposures": {}, "events": {"orders": {}}},
        "metrics": [{"name": "buyers", "role": "goal", "log": "orders", "per_unit": "any"}],
    }
    shown = logs["impressions"]
    return World({"impressions": shown, "exposures": exposures, "orders": orders}, entries)


_UP = Split(0, (0.8, 0.2)), Split(24 * HOUR_MS, (0.5, 0.5))
_BETWEEN = Split(0, (0.5, 0.5)), Split(144 * HOUR_MS, (0.7, 0.3)), Split(168 * HOUR_MS, (0.5, 0.5))

FAULTS: Mapping[str, Fault] = {
    **{
        name: Fault(
            partial(plant, fault, 400_000 if "hour" in name else 120_000),
            (fault.check,),
            fault.words,
        )
        for name, fault in audits.FAULTS.items()
    },
    "three hours": Fault(partial(lose_hours, first=134), ("missing_hours",), ("treatment",)),
    "the first three busy hours": Fault(
        partial(lose_hours, first=12), ("missing_hours",), ("treatment",)
    ),
    "three hours after a ramp of a day": Fault(
        partial(lose_hours, first=36, splits=_UP), ("missing_hours",), ("treatment",)
    ),
    "three hours of a stage of a day": Fault(
        partial(lose_hours, first=158, splits=_BETWEEN), ("missing_hours",), ("treatment",)
    ),
    "treatment's clicks end": Fault(partial(lose_clicks, variant="treatment"), ("breaks",)),
    "control's clicks end": Fault(partial(lose_clicks, variant="control"), ("breaks",)),
    "phones' clicks end": Fault(
        partial(lose_clicks, variant="treatment", device="phone"), ("breaks",), ("'phone'",)
    ),
    "clicks of a day": Fault(
        partial(lose_clicks, variant="control", lasts=1), ("breaks",), ("clicks on ",)
    ),
    "control's orders end": Fault(
        partial(lose_orders, variant="control", start=7), ("breaks",), ("orders",)
    ),
    "control has no orders": Fault(
        partial(lose_orders, variant="control", start=0), ("missing_outcomes",), ("orders",)
    ),
    "events delivered again": Fault(redeliver, ("duplicates_by_variant",)),
    "orders eight hours behind": Fault(
        partial(shift_zone, hours=-8), ("before_exposure:orders",), ("8 hours",)
    ),
    "orders five hours behind": Fault(
        partial(shift_zone, hours=-5), ("before_exposure:orders",), ("5 hours",)
    ),
}
"""The old ones of `audits`, hours lost under a ramp, rows that end, events again, other zones."""
