"""A quarter in one log: tests one after the other, what they launch, and a holdout of all of it."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from abeval.assignment.plan import Assignment, Holdout, Plan

START = date(2026, 7, 6)
RATE = 0.2


class Quarter(NamedTuple):
    """What happens in it: effects on the log of the click rate, in the order of the tests.

    `left` is the share of a launch's effect that is left after its test of a week. A launch ships
    if it is among `shipped`; tests begin a day after each other.
    """

    effects: tuple[float, ...]
    shipped: tuple[int, ...]
    left: float = 1.0
    users: int = 4_000
    days: int = 42
    share: float = 0.2
    test_days: int = 7
    ahead: int = 14
    seed: int = 0


def day(number: int) -> str:
    """A day of the quarter, from its first."""
    return str(START + timedelta(days=number))


def write_quarter(folder: Path, world: Quarter) -> float:
    """Write the log, a file of each test, and of the holdout; return the true lift of all days."""
    random = np.random.default_rng(world.seed)
    ids = np.array([f"u{i}" for i in range(world.users)])
    held = variants("q3", {"holdout": world.share, "everyone": 1 - world.share}, ids) == "holdout"
    taste = 0.5 * random.standard_normal(world.users)
    days = np.arange(-world.ahead, world.days)
    logs, live = np.zeros((2, world.users, days.size))
    for i, effect in enumerate(world.effects):
        start, end = i, i + world.test_days
        new = variants(f"e{i}", {"old": 0.5, "new": 0.5}, ids, Holdout("q3", world.share)) == "new"
        logs[np.ix_(new, (days >= start) & (days < end))] += effect
        kept = effect * world.left * (i in world.shipped)
        logs[np.ix_(~held, days >= end)] += kept
        live[:, days >= end] += kept
        live[:, (days >= start) & (days < end)] += effect / 2
        write_test(folder, i, start, end, world.share)
    rates = RATE * np.exp(taste[:, None] + logs)
    there = random.random(rates.shape) < 0.6
    user, when = np.nonzero(there)
    clicked = random.random(user.size) < np.minimum(rates[user, when], 1.0)
    frame = pd.DataFrame(
        {
            "user": ids[user],
            "time": pd.to_datetime(START) + pd.to_timedelta(24 * days[when] + 12, unit="h"),
            "clicked": clicked.astype(int),
        }
    )
    frame.to_parquet(folder / "q3.parquet")
    for i in range(len(world.effects)):
        in_test = (days[when] >= i) & (days[when] < i + world.test_days)
        frame[in_test].to_parquet(folder / f"e{i}.parquet")
    write_holdout(folder, world)
    everyone = np.exp(live[:, days >= 0])
    return float(everyone.mean() - 1)


def variants(
    salt: str, weights: dict[str, float], ids: np.ndarray, holdout: Holdout | None = None
) -> np.ndarray:
    """The variant of each user; without one where it is held out."""
    rule = Plan(Assignment(salt, weights), 1.0, None, holdout).rule()
    return np.array([str(variant) for variant in rule.variants(list(ids))])


def write_test(folder: Path, number: int, start: int, end: int, share: float) -> None:
    """Write the file of a test, of all who are not held out."""
    text = f"""
        name = "e{number}"
        unit = "user"
        control = "old"
        [period]
        start = {day(start)}
        end = {day(end)}
        [variants.old]
        [variants.new]
        [assignment]
        salt = "e{number}"
        holdout = {{ salt = "q3", share = {share} }}
        {_LOG.format(log=f"e{number}")}"""
    (folder / f"e{number}.toml").write_text(text)


def write_holdout(folder: Path, world: Quarter) -> None:
    """Write the file of the holdout."""
    text = f"""
        name = "q3"
        unit = "user"
        control = "holdout"
        [period]
        start = {day(0)}
        end = {day(world.days)}
        [pre_period]
        start = {day(-world.ahead)}
        end = {day(0)}
        [variants.holdout]
        weight = {world.share}
        [variants.everyone]
        weight = {1 - world.share}
        [assignment]
        salt = "q3"
        [holdout]
        [inference]
        adjust = "cuped"
        {_LOG.format(log="q3")}"""
    (folder / "holdout.toml").write_text(text)


_LOG = """
        [logs.impressions]
        path = "{log}.parquet"
        columns = {{ ts = "time", click = "clicked" }}
        [[metrics]]
        name = "ctr"
        role = "goal"
"""
