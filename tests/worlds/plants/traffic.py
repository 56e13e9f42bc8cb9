"""Visits of users to two scenes, and which of them the treatment serves.

`run.py` draws it once for every cause; `steps.py` and the causes read it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from abeval.simulate.visits import Bools, assign_variants
from abeval.simulate.world import DAY_MS, DAYS, PRE_DAYS, Floats, Ints

FEED, HOME = 0, 1
APP, WEB = 0, 1
SCENES = ("feed", "home")
SURFACES = ("app", "web")

LIST_LENGTH = 10
HOME_LENGTH = 4
POOL = 20
_SCENES_PER_VISIT = 2
_VISITS_PER_USER = 2.0
_ACTIVITY_SHAPE = 2.0
_READINESS_SPREAD = 0.4
_WEB_SHARE = 0.45


@dataclass(frozen=True, slots=True)
class Traffic:
    """One entry a request, in time order; each visit is a request of the feed, then one of home.

    ``at`` is in ms since the start of the week before the test. ``readiness`` is the user's, as a
    logit. No model knows it.
    """

    user: Ints
    at: Ints
    scene: Ints
    surface: Ints
    treated: Bools
    readiness: Floats

    @property
    def day(self) -> Ints:
        """Day of the log; the test begins on day 7."""
        days: Ints = self.at // DAY_MS
        return days

    @property
    def before(self) -> Bools:
        """Whether a request is of the week before the test, which the models learn from."""
        early: Bools = self.at < PRE_DAYS * DAY_MS
        return early

    def where(self, kept: Bools) -> Traffic:
        """Some of the requests."""
        return Traffic(*(getattr(self, field.name)[kept] for field in fields(self)))

    @property
    def by_treatment(self) -> Bools:
        """Whether the treatment serves a request: in the feed only, and only in the test."""
        own: Bools = self.treated & ~self.before & (self.scene == FEED)
        return own


def draw_traffic(
    impressions: int, rng: np.random.Generator, busy: tuple[int, ...] = (), times: float = 1.0
) -> Traffic:
    """Requests of about so many impressions in the test, and of half as many before it.

    Days that are ``busy`` have so many ``times`` the visits of another day.
    """
    visits = max(200, impressions // (LIST_LENGTH + HOME_LENGTH))
    users = round(visits / _VISITS_PER_USER)
    before = visits * PRE_DAYS // (DAYS - PRE_DAYS)
    at = np.concatenate(
        [
            _times(np.ones(PRE_DAYS), 0, before, rng),
            _times(_weights(busy, times), PRE_DAYS, visits, rng),
        ]
    )
    visit = np.argsort(at, kind="stable")
    activity = rng.gamma(_ACTIVITY_SHAPE, 1.0, users)
    user = rng.choice(users, len(visit), p=activity / activity.sum())
    surface = (rng.random(len(visit)) < _WEB_SHARE).astype(np.int64)
    # Home comes seconds after the feed of the same visit.
    scene = np.tile([FEED, HOME], len(visit))
    twice = np.repeat(visit, _SCENES_PER_VISIT)
    later = scene * rng.integers(20_000, 90_000, len(scene))
    return Traffic(
        user=user[twice],
        at=at[twice] + later,
        scene=scene,
        surface=surface[twice],
        treated=assign_variants(users).astype(bool)[user][twice],
        readiness=(_READINESS_SPREAD * rng.standard_normal(users))[user][twice],
    )


def _weights(busy: tuple[int, ...], times: float) -> Floats:
    weights = np.ones(DAYS - PRE_DAYS)
    weights[np.array(busy, dtype=np.int64) - PRE_DAYS] = times
    return weights


def _times(weights: Floats, first: int, visits: int, rng: np.random.Generator) -> Ints:
    """Moments from a day on; the last minutes of a day are free, so that no visit leaves it."""
    day = first + rng.choice(len(weights), visits, p=weights / weights.sum())
    at: Ints = day * DAY_MS + rng.integers(0, DAY_MS - 120_000, visits)
    return at
