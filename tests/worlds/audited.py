"""Logs with a known fault, each of one variant, and what the whole analysis says of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from abeval.api import LoadedExperiment
from abeval.results.analysis import Result
from abeval.results.trust import Check
from tests.worlds.experiments import define_experiment

START = np.datetime64("2026-09-14", "ms")
DAYS = 14
HOUR_MS = 3_600_000
LIST = 20
PHONE = 0.3
COUNTRIES = ("us", "us", "de", "jp")
BOTS = 12
RATE = 0.08
SEGMENTS = {
    "device": "device",
    "country": "country",
    "half": "case when item_id < 1000 then 'a' else 'b' end",
}
METRICS = ("ctr", "clicks_per_user", "impressions_per_user", "sessions_per_user")
TWENTY = (
    *METRICS,
    *("page_views_per_user", "active_days_per_user", "session_length", "q_ctr", "ndcg", "mrr"),
    *("map", "category_diversity", "gauc", "auc", "coverage", "gini", "entropy"),
    *("dwell_per_user", "dwell_per_click", "long_click_rate"),
)


class Log(NamedTuple):
    """A simulated log: frames with the columns that the experiment reads."""

    impressions: pd.DataFrame
    clicks: pd.DataFrame


def simulated(impressions: int, seed: int, effect: float = 0.0) -> Log:
    """A log without a fault; people come by day more than by night, some much more than others.

    Args:
        impressions: About so many.
        seed: Of the random numbers.
        effect: The treatment's effect on clicks; lists grow by a fifth of their length, people come
            more often, clicks take longer, and other items are shown, all by as much.
    """
    random = np.random.default_rng(seed)
    users = impressions // 60
    treated = random.integers(0, 2, users) == 1
    phone = random.random(users) < PHONE
    activity = random.gamma(1.0, 3.0, users) * np.where(treated, 1 + effect / 3, 1.0)
    requests = random.poisson(activity)
    user = np.repeat(np.arange(users), requests)
    at = _times(random, user.size)
    longer = treated[user] & (random.random(user.size) < effect)
    length = np.where(longer, LIST + LIST // 5, LIST)
    request = np.repeat(np.arange(user.size), length)
    first = np.cumsum(length) - length
    position = np.arange(request.size) - np.repeat(first, length) + 1
    who = user[request]
    of_new = random.random(request.size) < np.where(treated[who], 0.02 * (1 + effect), 0.02)
    frame = pd.DataFrame(
        {
            "impression_id": np.arange(request.size),
            "user_id": who,
            "variant": np.where(treated[who], "treatment", "control"),
            "device": np.where(phone[who], "phone", "desktop"),
            "country": np.array(COUNTRIES)[who % len(COUNTRIES)],
            "ts": START + at[request].astype("timedelta64[ms]"),
            "request_id": request,
            "position": position,
            "item_id": random.integers(0, 2_000, request.size),
            "category": pd.Series("c", np.arange(request.size)).mask(of_new),
            "score": random.random(request.size),
        }
    )
    rate = RATE / np.sqrt(position) * 2 * np.where(treated[who], 1 + effect, 1.0)
    clicked = np.flatnonzero(random.random(request.size) < rate)
    wait = random.lognormal(np.log(20_000.0), 1.5, clicked.size)
    wait *= np.where(treated[who[clicked]], 1 + effect, 1.0)
    clicks = pd.DataFrame(
        {
            "impression_id": clicked,
            "ts": frame["ts"].to_numpy()[clicked] + wait.astype("timedelta64[ms]"),
            "dwell": random.lognormal(3.0, 1.0, clicked.size),
        }
    )
    return Log(frame, clicks)


def _times(random: np.random.Generator, size: int) -> np.ndarray:
    """Milliseconds since the start, by the rhythm of a day."""
    hours = np.arange(24)
    weights = 1 + 0.8 * np.sin((hours - 9) / 24 * 2 * np.pi) + 0.2 * np.sin(hours / 3)
    hour = random.choice(24, size, p=weights / weights.sum())
    day = random.integers(0, DAYS, size)
    return (day * 24 + hour) * HOUR_MS + random.integers(0, HOUR_MS, size)


def _without(log: Log, lost: np.ndarray) -> Log:
    """A log without some impressions and their clicks."""
    left = log.impressions[~lost]
    return Log(left, log.clicks[log.clicks["impression_id"].isin(left["impression_id"])])


def _treated(log: Log) -> np.ndarray:
    return (log.impressions["variant"] == "treatment").to_numpy()


def lost_on_device(log: Log, random: np.random.Generator) -> Log:
    """1 % of treatment's rows on phones."""
    phone = (log.impressions["device"] == "phone").to_numpy()
    return _without(log, _treated(log) & phone & (random.random(phone.size) < 0.01))


def lost_positions(log: Log, random: np.random.Generator) -> Log:
    """Half of positions 18 to 20 of treatment."""
    deep = log.impressions["position"].between(18, 20).to_numpy()
    return _without(log, _treated(log) & deep & (random.random(deep.size) < 0.5))


def lost_hour(log: Log, random: np.random.Generator) -> Log:
    """One hour of treatment, at daytime."""
    start = START + np.timedelta64(int(random.integers(1, DAYS)) * 24 + 14, "h")
    ts = log.impressions["ts"].to_numpy()
    return _without(log, _treated(log) & (ts >= start) & (ts < start + np.timedelta64(1, "h")))


def double_assignment(log: Log, random: np.random.Generator) -> Log:
    """2 % of the users are in a variant at random, list by list."""
    frame = log.impressions
    user = frame["user_id"].to_numpy()
    both = random.random(int(user.max()) + 1) < 0.02
    new = random.integers(0, 2, int(frame["request_id"].max()) + 1) == 1
    drawn = np.where(new[frame["request_id"]], "treatment", "control")
    variant = np.where(both[user], drawn, frame["variant"])
    return Log(frame.assign(variant=variant), log.clicks)


def early_clicks(log: Log, random: np.random.Generator) -> Log:
    """Treatment's clicks are logged 10 minutes before they were made."""
    of_treated = set(log.impressions["impression_id"].to_numpy()[_treated(log)])
    treated = log.clicks["impression_id"].isin(of_treated).to_numpy()
    minutes = np.where(treated, np.timedelta64(10, "m"), np.timedelta64(0, "m"))
    return Log(log.impressions, log.clicks.assign(ts=log.clicks["ts"].to_numpy() - minutes))


def shifted_clock(log: Log, random: np.random.Generator) -> Log:
    """All times of treatment are 8 hours late."""
    treated = _treated(log)
    of_treated = set(log.impressions["impression_id"].to_numpy()[treated])
    clicks = log.clicks["impression_id"].isin(of_treated).to_numpy()
    late, none = np.timedelta64(8, "h"), np.timedelta64(0, "h")
    return Log(
        log.impressions.assign(ts=log.impressions["ts"].to_numpy() + np.where(treated, late, none)),
        log.clicks.assign(ts=log.clicks["ts"].to_numpy() + np.where(clicks, late, none)),
    )


def null_scores(log: Log, random: np.random.Generator) -> Log:
    """30 % of treatment's scores."""
    gone = _treated(log) & (random.random(len(log.impressions)) < 0.3)
    return Log(log.impressions.assign(score=log.impressions["score"].mask(gone)), log.clicks)


def _with_units(log: Log, random: np.random.Generator, at: np.ndarray, rate: float) -> Log:
    """A log with more units of treatment.

    Args:
        log: The log.
        random: Random numbers.
        at: Milliseconds since the start of the lists of each, shape (units, lists).
        rate: Share of the impressions that they click.
    """
    frame, units = log.impressions, len(at)
    times, size = at.ravel(), at.size * LIST
    number, row = np.arange(size), np.repeat(np.arange(at.size), LIST)
    last, request = int(frame["impression_id"].max()) + 1, int(frame["request_id"].max()) + 1
    own = pd.DataFrame(
        {
            "impression_id": last + number,
            "user_id": int(frame["user_id"].max()) + 1 + row // (at.size // units),
            "variant": "treatment",
            "device": "desktop",
            "country": "us",
            "ts": START + times[row].astype("timedelta64[ms]"),
            "request_id": request + row,
            "position": number % LIST + 1,
            "item_id": random.integers(0, 2_000, size),
            "category": "c",
            "score": random.random(size),
        }
    )
    clicked = own[random.random(size) < rate]
    ts = clicked["ts"] + np.timedelta64(2, "s")
    clicks = pd.DataFrame({"impression_id": clicked["impression_id"], "ts": ts, "dwell": 1.0})
    return Log(pd.concat([frame, own]), pd.concat([log.clicks, clicks]))


def bot(log: Log, random: np.random.Generator) -> Log:
    """One unit of treatment with 50,000 clicks on as many impressions."""
    return _with_units(log, random, _times(random, 50_000 // LIST)[None], 1.0)


def bots(log: Log, random: np.random.Generator) -> Log:
    """Twelve units of treatment that click every item of a list every ten seconds."""
    start = _times(random, BOTS)[:, None]
    return _with_units(log, random, start + np.arange(100) * 10_000, 1.0)


def testers(log: Log, random: np.random.Generator) -> Log:
    """Twelve units of treatment that come a hundred times each, and click every other item."""
    return _with_units(log, random, _times(random, BOTS * 100).reshape(BOTS, 100), 0.5)


def _of(log: Log, rows: np.ndarray) -> np.ndarray:
    """Which clicks are on some rows."""
    chosen = log.impressions["impression_id"].to_numpy()[rows]
    return log.clicks["impression_id"].isin(chosen).to_numpy()


def _on_phones(log: Log) -> np.ndarray:
    return _treated(log) & (log.impressions["device"] == "phone").to_numpy()


def double_clicks(log: Log, random: np.random.Generator) -> Log:
    """Each click of treatment on a phone is logged again a second later."""
    again = log.clicks[_of(log, _on_phones(log))]
    again = again.assign(ts=again["ts"].to_numpy() + np.timedelta64(1, "s"))
    return Log(log.impressions, pd.concat([log.clicks, again]))


def phones_without_clicks(log: Log, random: np.random.Generator) -> Log:
    """The phones of treatment log no clicks."""
    return Log(log.impressions, log.clicks[~_of(log, _on_phones(log))])


def lost_last_day(log: Log, random: np.random.Generator) -> Log:
    """60 % of the lists of treatment on the last day."""
    request = log.impressions["request_id"].to_numpy()
    lost = random.random(int(request.max()) + 1) < 0.6
    last = log.impressions["ts"].to_numpy() >= START + np.timedelta64(DAYS - 1, "D")
    return _without(log, _treated(log) & last & lost[request])


def positions_from_0(log: Log, random: np.random.Generator) -> Log:
    """Positions of treatment start at 0."""
    positions = log.impressions["position"] - _treated(log)
    return Log(log.impressions.assign(position=positions), log.clicks)


def lost_first_rows(log: Log, random: np.random.Generator) -> Log:
    """The first row of a tenth of the lists of treatment."""
    first = (log.impressions["position"] == 1).to_numpy()
    return _without(log, _treated(log) & first & (random.random(first.size) < 0.1))


def cached_list(log: Log, random: np.random.Generator) -> Log:
    """A fifth of the lists of treatment are one and the same."""
    request = log.impressions["request_id"].to_numpy()
    cached = random.random(int(request.max()) + 1) < 0.2
    listed = random.integers(0, 2_000, 2 * LIST)[log.impressions["position"]]
    items = np.where(_treated(log) & cached[request], listed, log.impressions["item_id"])
    return Log(log.impressions.assign(item_id=items), log.clicks)


def lists_sent_again(log: Log, random: np.random.Generator) -> Log:
    """Half of the lists of treatment on phones are logged twice, with ids of their own."""
    frame = log.impressions
    request, last = frame["request_id"].to_numpy(), int(frame["request_id"].max()) + 1
    again = frame[_on_phones(log) & (random.random(last) < 0.5)[request]]
    again = again.assign(
        request_id=again["request_id"] + last,
        impression_id=int(frame["impression_id"].max()) + 1 + np.arange(len(again)),
        ts=again["ts"].to_numpy() + np.timedelta64(2, "s"),
    )
    return Log(pd.concat([frame, again]), log.clicks)


def shifted_country(log: Log, random: np.random.Generator) -> Log:
    """All times of treatment in one country are 9 hours late."""
    rows = _treated(log) & (log.impressions["country"] == "jp").to_numpy()
    late, none = np.timedelta64(9, "h"), np.timedelta64(0, "h")
    return Log(
        log.impressions.assign(ts=log.impressions["ts"].to_numpy() + np.where(rows, late, none)),
        log.clicks.assign(ts=log.clicks["ts"].to_numpy() + np.where(_of(log, rows), late, none)),
    )


class Fault(NamedTuple):
    """A fault, the check that must find it, and words that its message must have."""

    plant: Callable[[Log, np.random.Generator], Log]
    check: str
    words: tuple[str, ...]


LISTS, CLICKS = "lists_by_variant", "clicks_by_variant"

FAULTS: Mapping[str, Fault] = {
    "1 % of rows lost on one device": Fault(lost_on_device, LISTS, ("device = 'phone'",)),
    "half of positions 18 to 20": Fault(lost_positions, LISTS, ("18", "19")),
    "one hour missing": Fault(lost_hour, "missing_hours", ("treatment", "14:00")),
    "2 % double assignment": Fault(double_assignment, "crossover", ("more than one variant",)),
    "clicks before impressions": Fault(early_clicks, CLICKS, ("treatment",)),
    "clock 8 h off": Fault(shifted_clock, "clock", ("8 hours later",)),
    "30 % of scores null": Fault(null_scores, "nulls", ("score", "treatment")),
    "a bot with 50,000 clicks": Fault(bot, "influence", ("one single unit of treatment",)),
    "phones log clicks twice": Fault(double_clicks, CLICKS, ("device = 'phone'", "ten seconds")),
    "twelve bots": Fault(bots, "influence", ("12 units of treatment",)),
    "twelve testers": Fault(testers, "influence", ("12 units of treatment",)),
    "last day 60 % lost": Fault(lost_last_day, "short_days", ("treatment", "(the last day)")),
    "positions from 0": Fault(positions_from_0, LISTS, ("position 0", "treatment 100")),
    "first rows lost": Fault(lost_first_rows, LISTS, ("without their first", "treatment")),
    "one cached list": Fault(cached_list, LISTS, ("one and the same list", "treatment")),
    "lists logged twice": Fault(lists_sent_again, LISTS, ("within ten seconds",)),
    "phones log no clicks": Fault(
        phones_without_clicks, CLICKS, ("device = 'phone'", "treatment 0.00%")
    ),
    "one country's clock 9 h off": Fault(
        shifted_country, "clock", ("treatment in country = 'jp' is", "hours later")
    ),
}


def experiment_of(metrics: Sequence[str]) -> LoadedExperiment:
    """The experiment file of a simulated log."""
    return define_experiment(
        control="control",
        variants={"control": {}, "treatment": {}},
        period={"start": "2026-09-14", "end": "2026-09-28"},
        logs={"impressions": {}, "clicks": {}},
        segments=SEGMENTS,
        metrics=[{"name": name, **({"role": "goal"} if name == "ctr" else {})} for name in metrics],
        cleaning={"duplicates": "unchecked"},
    )


def analysed(log: Log, metrics: Sequence[str] = METRICS) -> Result:
    """The analysis of a simulated log."""
    return experiment_of(metrics).analyze(logs=log._asdict())


def fired(result: Result) -> list[Check]:
    """The checks that warn or fail, the failed ones first."""
    open_checks = [check for check in result.trust if check.status in ("warn", "fail")]
    return sorted(open_checks, key=lambda check: check.status != "fail")


class Outcome(NamedTuple):
    """Whether a fault was found by name, and whether its check is the first of those that fire."""

    found: bool
    first: bool
    others: tuple[str, ...]


def outcome(fault: Fault, result: Result) -> Outcome:
    """What an analysis says of a planted fault."""
    checks = fired(result)
    own = [check for check in checks if check.name == fault.check]
    found = bool(own) and all(word in own[0].message for word in fault.words)
    others = tuple(check.name for check in checks if check.name != fault.check)
    return Outcome(found, found and checks[0].name == fault.check, others)


def leaks(log: Log, random: np.random.Generator, share: float) -> bool:
    """Whether `audit` finds that another layer gives a share of the units the same variant."""
    first = log.impressions.drop_duplicates("user_id").set_index("user_id")["variant"]
    anew = np.where(random.random(first.size) < 0.5, "control", "treatment")
    other = np.where(random.random(first.size) < share, first, anew)
    layer = pd.Series(other.tolist(), first.index.astype(str), dtype="str")
    (pair,) = experiment_of(METRICS).audit(logs=log._asdict(), others={"other": layer}).pairs
    return pair.p_adjusted is not None and pair.p_adjusted < 0.001
