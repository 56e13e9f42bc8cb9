"""Worlds of triggered tests: some assigned users are exposed, heavy ones more often."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import abeval
from tests.worlds.experiments import define_experiment

START = pd.Timestamp("2026-10-01")


class World(NamedTuple):
    """What triggers, what the treatment does, and what is broken.

    Attributes:
        rate: Chance that a user of mean activity is exposed; active users are more often.
        days: Length of the test; a user's exposure may fall on any day.
        lift: Lift of the chance of a click, after the exposure.
        shown: Lift of the impressions, after the exposure.
        shape: Of the gamma distribution of activity: below 1 a few users have most of it.
        treated: Share of the users.
        hurt: Lift of the impressions of users who are never exposed, in the treatment.
        wider: Factor of the chance of an exposure in the treatment: it triggers on others, too.
        heavier: Whether the treatment triggers on active users alone, as many as control's.
    """

    rate: float = 0.3
    days: int = 7
    lift: float = 0.1
    shown: float = 0.0
    shape: float = 0.7
    treated: float = 0.5
    users: int = 4_000
    hurt: float = 0.0
    wider: float = 1.0
    heavier: bool = False

    @property
    def site_lifts(self) -> dict[str, float]:
        """Return the true lift of each metric if all traffic had the treatment."""
        activity = np.random.default_rng(1).gamma(self.shape, 10 / self.shape, 2_000_000)
        share = float((activity * self._chance(activity)).sum() / activity.sum())
        exposed = share * (self.days + 1) / (2 * self.days)
        shown = self.shown * exposed
        clicked = ((1 + self.shown) * (1 + self.lift) - 1) * exposed
        rate = (1 + clicked) / (1 + shown) - 1
        return {"ctr": rate, "clicks_per_user": clicked, "impressions_per_user": shown}

    def _chance(self, activity: np.ndarray) -> np.ndarray:
        return np.minimum(1.0, self.rate * (0.4 + 0.06 * activity))

    def draw_users(self, seed: int) -> "Users":
        """Draw what all users do, before and after their exposure."""
        rng, n = np.random.default_rng([seed, 53]), self.users
        treated, chosen, day = rng.random(n) < self.treated, rng.random(n), rng.random(n)
        activity, rate = rng.gamma(self.shape, 10 / self.shape, n), rng.beta(2, 14, n)
        chance = self._chance(activity)
        exposed = chosen < chance * np.where(treated, self.wider, 1.0)
        if self.heavier:
            active = activity > np.quantile(activity, 1 - chance.mean())
            exposed = np.where(treated, active, chosen < chance)
        first = np.floor(day * self.days)
        after = np.where(exposed, (self.days - first) / self.days, 0.0)
        before_rate = np.where(treated & ~exposed, 1 + self.hurt, 1.0) * (1 - after)
        after_rate = np.where(treated, 1 + self.shown, 1.0) * after
        seen = rng.poisson(activity * np.stack([before_rate, after_rate]))
        lifts = np.stack([np.ones(n), np.where(treated, 1 + self.lift, 1.0)])
        clicks = rng.binomial(seen, np.minimum(1.0, rate * lifts))
        return Users(treated, exposed, first, seen, clicks)

    def draw(self, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Draw the impressions of all users, and the exposures."""
        users, rng = self.draw_users(seed), np.random.default_rng([seed, 54])
        number = np.arange(self.users)
        variant = np.where(users.treated, "b", "a")
        parts = []
        for part in (0, 1):
            user = np.repeat(number, users.seen[part])
            place = np.arange(len(user)) - np.searchsorted(user, user)
            start = users.first[user] * part
            end = np.where((part == 1) | ~users.exposed[user], self.days, users.first[user])
            hours = 24 * (start + (end - start) * rng.random(len(user)))
            times = {"ts": START + pd.to_timedelta(hours, unit="h")}
            clicked = {"click": (place < users.clicks[part][user]).astype(int)}
            labels = {"user_id": user, "variant": variant[user], "item_id": 1}
            parts.append(pd.DataFrame({**labels, **times, **clicked}))
        entry = START + pd.to_timedelta(24 * users.first, unit="h")
        exposures = pd.DataFrame({"user_id": number, "ts": entry, "variant": variant})
        return pd.concat(parts), exposures[users.exposed]


class Users(NamedTuple):
    """What users do; `seen` and `clicks` before and after the exposure, shape (2, users)."""

    treated: np.ndarray
    exposed: np.ndarray
    first: np.ndarray
    seen: np.ndarray
    clicks: np.ndarray


METRICS = ({"name": "clicks_per_user"}, {"name": "ctr"}, {"name": "impressions_per_user"})


def analyze_world(world: World, seed: int, **entries: Any) -> abeval.Result:
    """Analyze a world of the treatment b through the whole path."""
    log, exposures = world.draw(seed)
    experiment = define_experiment(
        **{
            "variants": {"a": {"weight": 1 - world.treated}, "b": {"weight": world.treated}},
            "period": {
                "start": f"{START:%Y-%m-%d}",
                "end": f"{START + pd.Timedelta(days=world.days):%Y-%m-%d}",
            },
            "logs": {"impressions": {}, "exposures": {}},
            "metrics": [*METRICS],
            "trust": {"aa_runs": 0},
            **entries,
        }
    )
    return experiment.analyze(logs={"impressions": log, "exposures": exposures})
