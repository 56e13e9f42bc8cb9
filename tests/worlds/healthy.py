"""Draw logs in which nothing is wrong, each of a kind that a check could take for a fault.

People come by habit: few come much, some click more than others, and the treatment moves nothing
but how often they click. Every world has a log of impressions and one of clicks, and what its
experiment file says beside them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from abeval.stats.records import Floats, Integers

DAYS = 14
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
START = np.datetime64("2026-09-14", "ms")
"""A Monday."""

Random = np.random.Generator


class World(NamedTuple):
    """Logs by name, and the entries of the experiment file that are not those of every world."""

    logs: Mapping[str, pd.DataFrame]
    entries: Mapping[str, Any]


class Visits(NamedTuple):
    """Lists that people see: who, when (ms since the start), and how much of a list is clicked."""

    user: Integers
    ms: Integers
    taste: Floats


class Split(NamedTuple):
    """Weights of the variants from a time on (ms since the start)."""

    ms: int
    weights: Sequence[float]


EVEN = (Split(0, (0.5, 0.5)),)
NAMES = ("control", "treatment", "third")

_HOURS = np.arange(24)
FLAT = np.ones(DAYS)
BY_DAY = 1 + 0.8 * np.sin((_HOURS - 9) / 24 * 2 * np.pi)
"""How many come in each hour of the day."""


def draw_visits(
    random: Random,
    users: int,
    days: Floats = FLAT,
    hours: Floats = BY_DAY,
    first: Integers | int = 0,
) -> Visits:
    """Draw 3.7 lists a user on average, lognormal, from the day on on which the user is first seen.

    `days` and `hours` are how many lists each has; shapes (14,) and (24,).
    """
    lists = 1 + random.poisson(random.lognormal(0.6, 0.9, users))
    user = np.repeat(np.arange(users), lists)
    total = np.concatenate([[0.0], np.cumsum(days)])
    start = total[np.broadcast_to(first, users)[user]]
    drawn = start + random.random(user.size) * (total[-1] - start)
    day = np.searchsorted(total, drawn, side="right") - 1
    hour = random.choice(24, user.size, p=hours / hours.sum())
    ms = (day * 24 + hour) * HOUR_MS + random.integers(0, HOUR_MS, user.size)
    return Visits(user, ms, random.beta(2, 18, users)[user])


def draw_logs(
    random: Random,
    visits: Visits,
    lift: Floats | float,
    splits: Sequence[Split] = EVEN,
    unit: Integers | None = None,
) -> dict[str, pd.DataFrame]:
    """Draw the variant of each unit when it is first seen, its lists, and what is clicked.

    `lift` is of all visits, or of each; `unit` is the unit of each visit, where that is not the
    user.
    """
    unit = visits.user if unit is None else unit
    units = int(unit.max()) + 1
    first = np.full(units, DAYS * DAY_MS)
    np.minimum.at(first, unit, visits.ms)
    split = np.searchsorted([one.ms for one in splits], first, side="right") - 1
    weights = np.array([one.weights for one in splits], dtype=float)
    shares = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    variant = (random.random(units)[:, None] >= shares[split][:, :-1]).sum(axis=1)
    length = 1 + random.poisson(3.0, visits.ms.size)
    request = np.repeat(np.arange(length.size), length)
    position = np.arange(request.size) - np.repeat(np.cumsum(length) - length, length) + 1
    score = random.beta(2, 4, request.size)
    impressions = pd.DataFrame(
        {
            "impression_id": np.arange(request.size),
            "user_id": visits.user[request],
            "variant": np.array(NAMES)[variant[unit]][request],
            "ts": START + visits.ms[request].astype("timedelta64[ms]"),
            "request_id": request,
            "position": position,
            "item_id": random.zipf(1.3, request.size) % 400,
            "score": np.round(score, 3),
            "device": np.array(["phone", "desktop", "tablet"])[visits.user[request] % 10 // 4],
        }
    )
    treated = (variant[unit] == 1)[request]
    lifts = np.broadcast_to(lift, visits.ms.size)[request]
    chance = visits.taste[request] * (0.5 + 1.5 * score) * np.where(treated, 1 + lifts, 1.0)
    clicked = np.flatnonzero(random.random(request.size) < chance / (1 + 0.1 * (position - 1)))
    wait = random.lognormal(np.log(20_000.0), 1.2, clicked.size).astype("timedelta64[ms]")
    clicks = impressions.loc[clicked, ["impression_id", "user_id"]]
    clicks = clicks.assign(ts=impressions["ts"].to_numpy()[clicked] + wait)
    return {"impressions": impressions, "clicks": clicks.reset_index(drop=True)}


def declare_splits(splits: Sequence[Split]) -> dict[str, Any]:
    """Return the entries of an experiment file that declare splits; its weights are the last."""
    weights = [dict(zip(NAMES, one.weights, strict=False)) for one in splits]
    start = [(START + np.timedelta64(one.ms, "ms")).item() for one in splits]
    return {
        "variants": {name: {"weight": weight} for name, weight in weights[-1].items()},
        "assignment": {
            "splits": [{"from": at, "weights": of} for at, of in zip(start, weights, strict=True)]
        },
    }


def bots(random: Random, users: int, lift: float) -> World:
    """1 % of the units are machines, randomised like people, which click a tenth as often."""
    people, count = draw_visits(random, users), max(users // 100, 1)
    lists = random.integers(55, 90, count)
    bot = np.repeat(np.arange(count), lists)
    gap = random.integers(20, 90, count)[bot] * random.uniform(950, 1_050, bot.size)
    since = np.cumsum(gap) - np.repeat(np.cumsum(gap)[np.cumsum(lists) - lists], lists)
    start = random.integers(0, (DAYS - 1) * DAY_MS, count)[bot]
    taste = np.full(bot.size, 0.01)
    visits = Visits(
        np.concatenate([people.user, users + bot]),
        np.concatenate([people.ms, start + since.astype(np.int64)]),
        np.concatenate([people.taste, taste]),
    )
    return World(draw_logs(random, visits, lift), {})


def newcomers(random: Random, users: int, lift: float) -> World:
    """New users arrive on every day, come again, and click less than those who came before."""
    first = random.integers(0, DAYS, users)
    visits = draw_visits(random, users, first=first)
    taste = visits.taste * (1.3 - 0.6 * first / DAYS)[visits.user]
    return World(draw_logs(random, visits._replace(taste=taste), lift), {})


def rhythm(random: Random, users: int, lift: float) -> World:
    """Half or twice as many come at the weekend, and nearly nobody at night."""
    days = np.where(np.arange(DAYS) % 7 >= 5, random.choice([0.5, 2.0]), 1.0)
    hours = np.where(_HOURS < 6, 0.02, BY_DAY)
    return World(draw_logs(random, draw_visits(random, users, days, hours), lift), {})


def clock_change(random: Random, users: int, lift: float) -> World:
    """Clocks are put forward or back within the period; times are local, or in UTC."""
    zone, start = ZONES[int(random.integers(len(ZONES)))]
    logs = draw_logs(random, draw_visits(random, users), lift)
    shift, local = pd.Timestamp(start) - pd.Timestamp(START), bool(random.integers(2))
    for name, log in logs.items():
        at = (log["ts"] + shift).dt.tz_localize(
            zone, ambiguous=np.zeros(len(log), bool), nonexistent="shift_forward"
        )
        times = at.dt.tz_localize(None) if local else at.dt.tz_convert("UTC")
        logs[name] = log.assign(ts=times)
    end = (pd.Timestamp(start) + pd.Timedelta(days=DAYS)).date()
    entries = {"timezone": zone, "period": {"start": pd.Timestamp(start).date(), "end": end}}
    if local:
        entries["logs"] = {name: {"ts_zone": zone} for name in logs}
    return World(logs, entries)


ZONES = (
    ("Europe/Berlin", "2026-03-23"),
    ("Europe/Berlin", "2026-10-19"),
    ("America/New_York", "2026-03-02"),
    ("America/New_York", "2026-10-26"),
)
"""A zone, and a Monday from which on two weeks have the change of its clocks."""


def ramp(random: Random, users: int, lift: float) -> World:
    """The split changes as declared, at midnight or at another hour; users come once or again."""
    stages, hour = RAMPS[int(random.integers(len(RAMPS)))], int(random.choice([0, 12, 17]))
    return draw_ramp(random, users, lift, stages, hour)


Stages = Sequence[tuple[int, Sequence[float]]]
"""Weights of the variants from a day on."""


def draw_ramp(random: Random, users: int, lift: float, stages: Stages, hour: int) -> World:
    """Draw a log whose split changes at this hour of the days of the stages."""
    splits = [Split((day * 24 + hour) * HOUR_MS if day else 0, of_day) for day, of_day in stages]
    first = random.integers(0, DAYS, users)
    visits = draw_visits(random, users, first=first)
    if random.integers(2):
        visits = visits._replace(ms=first[visits.user] * DAY_MS + visits.ms % DAY_MS)
    return World(draw_logs(random, visits, lift, splits), declare_splits(splits))


RAMPS: Sequence[Stages] = (
    ((0, (0.95, 0.05)), (1, (0.5, 0.5))),
    ((0, (0.5, 0.5)), (13, (0.9, 0.1))),
    ((0, (0.5, 0.5)), (6, (0.9, 0.1)), (7, (0.5, 0.5))),
    ((0, (0.9, 0.1)), (3, (0.75, 0.25)), (7, (0.5, 0.5))),
    ((0, (0.5, 0.5)), (5, (0.8, 0.2)), (9, (0.5, 0.5))),
    ((0, (0.95, 0.05)), (1, (0.8, 0.2)), (2, (0.5, 0.5)), (12, (0.1, 0.9))),
    ((0, (0.5, 0.5)), (10, (0.1, 0.9))),
    ((0, (0.8, 0.1, 0.1)), (1, (0.34, 0.33, 0.33))),
    ((0, (0.4, 0.4, 0.2)), (7, (0.2, 0.6, 0.2)), (13, (0.1, 0.8, 0.1))),
)
"""Stages from a day on: the first, the last or one between of a day; up, down; three variants."""


def devices(random: Random, users: int, lift: float) -> World:
    """Users have several devices, some of which they share; either of the two is randomised."""
    visits = draw_visits(random, users)
    count = random.choice([1, 2, 3], users, p=[0.6, 0.3, 0.1])
    chosen = (random.random(visits.user.size) * count[visits.user]).astype(np.int64)
    of_user = np.cumsum(count) - count
    device = of_user[visits.user] + chosen
    # A tenth of the users share their first device with the user before them.
    shares = np.flatnonzero(random.random(users) < 0.1)
    shares = shares[shares > 0]
    other = np.arange(int(count.sum()))
    other[of_user[shares]] = of_user[shares - 1]
    device = other[device]
    by_device = bool(random.integers(2))
    logs = draw_logs(random, visits, lift, unit=device if by_device else None)
    shown = logs["impressions"]
    shown["device_id"] = device[shown["request_id"]]
    logs["clicks"]["device_id"] = shown["device_id"].to_numpy()[logs["clicks"]["impression_id"]]
    return World(logs, {"unit": "device_id"} if by_device else {})


def retries(random: Random, users: int, lift: float) -> World:
    """Of clicks in both variants 1 % are logged again: as they were, later, or with its arrival."""
    logs = draw_logs(random, draw_visits(random, users), lift)
    clicks, form = logs["clicks"], random.integers(3)
    again = clicks[random.random(len(clicks)) < 0.01]
    late = pd.to_timedelta(random.integers(500, 5_000, len(again)), unit="ms")
    if form == 1:
        again = again.assign(ts=again["ts"] + late)
    if form == 2:
        clicks = clicks.assign(message_id=np.arange(len(clicks)), received_at=clicks["ts"])
        again = clicks.loc[again.index]
        again = again.assign(received_at=again["received_at"] + late)
    return World({**logs, "clicks": pd.concat([clicks, again])}, {})


def late(random: Random, users: int, lift: float) -> World:
    """Rows arrive a minute late, some by hours, in the order of arrival; the last are to come."""
    logs = draw_logs(random, draw_visits(random, users), lift)
    end = START + np.timedelta64(DAYS * DAY_MS + HOUR_MS, "ms")
    for name, log in logs.items():
        delay = random.lognormal(np.log(60_000.0), 2.0, len(log)).astype("timedelta64[ms]")
        own = log.assign(received_at=log["ts"] + delay)
        logs[name] = own[own["received_at"] <= end].sort_values("received_at")
    return World(logs, {})


def changing(random: Random, users: int, lift: float) -> World:
    """The effect fades from five times its size, comes late, or is of weekends."""
    visits, form = draw_visits(random, users), random.integers(3)
    day = visits.ms / DAY_MS
    late = np.where(day >= 5, 2.5, 0.0)
    weekend = np.where(day.astype(int) % 7 >= 5, 2.5, 0.0)
    shapes = [5 * np.exp(-day / 2), late, weekend]
    return World(draw_logs(random, visits, lift * shapes[form]), {})


def heavy(random: Random, users: int, lift: float) -> World:
    """Few users have most of the lists, many of them on one day."""
    lists = np.minimum(1 + random.poisson(random.lognormal(0.3, 2.0, users)), 3_000)
    user = np.repeat(np.arange(users), lists)
    own, other = random.integers(0, DAYS, users)[user], random.integers(0, DAYS, user.size)
    day = np.where(random.random(user.size) < 0.5, own, other)
    ms = day * DAY_MS + random.integers(0, DAY_MS, user.size)
    return World(draw_logs(random, Visits(user, ms, random.beta(2, 18, users)[user]), lift), {})


def buyers(random: Random, users: int, lift: float) -> World:
    """Orders come days after the exposure; the lift is of them."""
    shown = draw_logs(random, draw_visits(random, users), 0.0)["impressions"]
    exposures = shown.groupby(["user_id", "variant"])["ts"].min().reset_index()
    rate = np.where(exposures["variant"] == "treatment", 0.3 * (1 + lift), 0.3)
    orders = exposures.loc[np.repeat(exposures.index, random.poisson(rate))]
    wait = pd.to_timedelta(random.exponential(48.0, len(orders)), unit="h").round("ms")
    orders = orders[["user_id"]].assign(
        ts=orders["ts"] + wait, amount=np.round(random.lognormal(3.0, 1.0, len(orders)), 2)
    )
    orders = orders[orders["ts"] < START + np.timedelta64(DAYS, "D")].reset_index(drop=True)
    return World(
        {"impressions": shown, "exposures": exposures, "orders": orders},
        {
            "logs": {"impressions": {}, "exposures": {}, "events": {"orders": {}}},
            "metrics": [
                {"name": "buyers", "role": "goal", "log": "orders", "per_unit": "any"},
                {"name": "revenue", "log": "orders", "value": "amount", "per_unit": "sum"},
            ],
        },
    )


KINDS: Mapping[str, Callable[[Random, int, float], World]] = {
    "bots": bots,
    "new users": newcomers,
    "weekday and night": rhythm,
    "clock change": clock_change,
    "declared ramp": ramp,
    "shared devices": devices,
    "retried clicks": retries,
    "late rows": late,
    "changing effects": changing,
    "heavy users": heavy,
    "late orders": buyers,
}
