"""Ranked logs without a fault: the top 10 of 150 candidates by the score of a model."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

import abeval
from abeval.results.agreement import Agreement
from abeval.stats.records import Floats, Integers

CANDIDATES = 150
SHOWN = 10
USERS = 1000
DAYS = 14
_ITEMS = 600
_CATEGORIES = 12
_START = np.datetime64("2026-09-14", "ms")
_DAY_MS = 86_400_000
_APPEAL = -3.8
_SHARED = 0.6
_HIDDEN = 0.6
_READINESS = 0.4
_ATTENUATION = 0.346
"""Variance of what a model does not know, on the scale of its logit (π²/3 turned to the probit)."""


BASELINE = 0.6
"""Spread of what the baseline alone knows of an item's appeal, in logits."""


@dataclass(frozen=True)
class World:
    """A ranked log without a fault.

    Attributes:
        name: In the table.
        candidate: Spread of what the candidate alone knows of an item's appeal.
        attention: Position p is looked at with probability 1 / log2(1 + p) to this power.
        explore: Share of the requests whose list is of random candidates.
        launched: Whether the candidate serves the variant; else the baseline does.
        columns: Whether features, their times, and training data are logged; else only
            the served score is.
    """

    name: str
    candidate: float = BASELINE
    attention: float = 0.0
    explore: float = 0.0
    launched: bool = True
    columns: bool = True

    @property
    def true(self) -> frozenset[str]:
        """The causes that may be named if there is a gap."""
        return frozenset({"position"} if self.attention else ())


_MUCH, _BETTER, _SLIGHTLY, _WORSE = 1.5, 0.9, 0.7, 0.3

WORLDS: tuple[World, ...] = (
    World("equal, no bias"),
    World("better, no bias", _BETTER),
    World("slightly better, no bias", _SLIGHTLY),
    World("worse, no bias", _WORSE),
    World("equal, bias", attention=1),
    World("better, bias", _BETTER, attention=1),
    World("slightly better, bias", _SLIGHTLY, attention=1),
    World("worse, bias", _WORSE, attention=1),
    World("equal, steep", attention=2),
    World("better, steep", _BETTER, attention=2),
    World("worse, steep", _WORSE, attention=2),
    World("equal, no bias, explored", explore=0.1),
    World("better, bias, explored", _BETTER, attention=1, explore=0.1),
    World("much better, no bias, few columns", _MUCH, columns=False),
    World("equal, bias, few columns", attention=1, columns=False),
    World("not launched, no bias", _BETTER, launched=False),
    World("not launched, bias", _BETTER, attention=1, launched=False),
)


def named_world(name: str) -> World:
    """A world by its name."""
    return {world.name: world for world in WORLDS}[name]


class Pools(NamedTuple):
    """Requests, one entry each, and their candidates: shape (requests, candidates).

    Attributes:
        user: Number of the user.
        treated: Whether the user is in treatment.
        at: Milliseconds since the start of the test; below zero before it.
        explored: Whether the list is in random order.
        item: Number of the item.
        click: Logit of a click on an item that is looked at.
        baseline: Logit of the baseline.
        candidate: Logit of the candidate.
    """

    user: Integers
    treated: Integers
    at: Integers
    explored: Integers
    item: Integers
    click: Floats
    baseline: Floats
    candidate: Floats


class Lists(NamedTuple):
    """What was shown: shape (requests, positions).

    Attributes:
        place: Of each item among the candidates of its request.
        served: The logit that was logged as served.
    """

    place: Integers
    served: Floats


def pools(world: World, rng: np.random.Generator, users: int = USERS) -> Pools:
    """Requests of users who differ in how often they come and how much they click."""
    treated = rng.integers(0, 2, users)
    visits = 1 + rng.negative_binomial(1.5, 0.5, users)
    user = np.repeat(np.arange(users), visits)
    at = np.sort(rng.integers(-3 * _DAY_MS, DAYS * _DAY_MS, user.size))
    user = rng.permutation(user)
    item = rng.integers(0, _ITEMS, (user.size, 1)) + np.arange(CANDIDATES) * (_ITEMS // CANDIDATES)
    item %= _ITEMS
    shape, popular = item.shape, 0.4 * rng.standard_normal(_ITEMS)
    both = _APPEAL + popular[item] + _SHARED * rng.standard_normal(shape)
    own = BASELINE * rng.standard_normal(shape), world.candidate * rng.standard_normal(shape)
    ready = (_READINESS * rng.standard_normal(users))[user][:, None]
    return Pools(
        user=user,
        treated=treated[user],
        at=at,
        explored=(rng.random(user.size) < world.explore).astype(np.int64),
        item=item,
        click=both + own[0] + own[1] + ready + _HIDDEN * rng.standard_normal(shape),
        baseline=_expected(both, own[0], world.candidate),
        candidate=_expected(both, own[1], BASELINE),
    )


def _expected(both: Floats, own: Floats, unseen: float) -> Floats:
    """The logit of the expected click of a model that does not see the rest."""
    rest = unseen**2 + _HIDDEN**2 + _READINESS**2
    logit: Floats = (both + own) / np.sqrt(1 + _ATTENUATION * rest)
    return logit


def lists(world: World, known: Pools, rng: np.random.Generator) -> Lists:
    """The top of the served score, best first; of explored requests any candidates."""
    by_candidate = known.treated & (known.at >= 0) & world.launched
    served = np.where(by_candidate[:, None], known.candidate, known.baseline)
    key = np.where(known.explored[:, None], rng.random(served.shape), served)
    place = np.argsort(-key, axis=1, kind="stable")[:, :SHOWN]
    return Lists(place, np.take_along_axis(served, place, axis=1))


class Log(NamedTuple):
    """The impressions of the test, and what the candidate learned from before it."""

    impressions: pd.DataFrame
    training: pd.DataFrame


def logged(world: World, known: Pools, shown: Lists, rng: np.random.Generator) -> Log:
    """Clicks by what was looked at, and the columns that causes read."""
    position = 1 + np.arange(shown.place.shape[1])
    looked: Floats = np.power(np.log2(1.0 + position), -world.attention)

    def of(values: Floats) -> Floats:
        return np.take_along_axis(values, shown.place, axis=1).ravel()

    def wide(values: Floats | Integers) -> Floats:
        own: Floats = np.repeat(values, shown.place.shape[1])
        return own

    item = np.take_along_axis(known.item, shown.place, axis=1).ravel()
    chance = np.tile(looked, len(known.user)) / (1 + np.exp(-of(known.click)))
    at = wide(known.at)
    late = rng.random(known.user.size) < 0.01
    rows = pd.DataFrame(
        {
            "user_id": wide(known.user),
            "request_id": wide(np.arange(known.user.size)),
            "time": _START + at.astype("timedelta64[ms]"),
            "variant": np.where(wide(known.treated) > 0, "treatment", "control"),
            "item_id": item,
            "category": item % _CATEGORIES,
            "position": np.tile(position, len(known.user)),
            "click": (rng.random(chance.size) < chance).astype(np.int64),
            "score_baseline": 1 / (1 + np.exp(-of(known.baseline))),
            "score_candidate": 1 / (1 + np.exp(-of(known.candidate))),
            "served_score": 1 / (1 + np.exp(-shown.served.ravel())),
            "surface": np.where(wide(known.user + known.at) % 5 < 2, "web", "app"),
            "timeout": wide(late.astype(np.int64)),
            "latency_ms": wide(60 * rng.lognormal(0, 0.4, known.user.size)),
            "model_trained": _START + (at // _DAY_MS * _DAY_MS).astype("timedelta64[ms]"),
            "features_written": _START
            + (at - wide(rng.integers(1000, 3_600_000, known.user.size))).astype("timedelta64[ms]"),
            "history": of(known.baseline + rng.standard_normal(known.item.shape)),
        }
    )
    before = at < 0
    learned = ["user_id", "item_id", "time", "click", "score_candidate"]
    return Log(rows[~before], rows.loc[before, learned].assign(policy="production"))


def drawn(world: World, seed: int, users: int = USERS) -> Log:
    """A log of a world."""
    rng = np.random.default_rng([seed, 27])
    known = pools(world, rng, users)
    return logged(world, known, lists(world, known, rng), rng)


_SERVED = {"served_score": "served_score"}
_ALL = {
    **_SERVED,
    "latency": "latency_ms",
    "model_time": "model_trained",
    "feature_time": "features_written",
    "features": ["history"],
    "treated": "surface = 'app'",
}


def agreement_of(world: World, log: Log) -> Agreement:
    """What `abeval agree` says of a log, through the API."""
    columns = {name: column for name, column in _ALL.items() if world.columns or name in _SERVED}
    if not world.launched:
        del columns["served_score"]
    frames = {"impressions": log.impressions, "training": log.training}
    names = [name for name in frames if world.columns or name == "impressions"]
    loaded = abeval.define(
        name="ranked",
        unit="user_id",
        control="control",
        period={"start": "2026-09-14", "end": "2026-09-28"},
        variants={"control": {"model": "baseline"}, "treatment": {"model": "candidate"}},
        models={name: {"score": f"score_{name}"} for name in ("baseline", "candidate")},
        logs={name: {"path": "none.parquet", "columns": {"ts": "time"}} for name in names},
        cuts={"surface": "surface"},
        events=[{"name": "sale", "start": "2026-09-22", "end": "2026-09-24"}],
        agreement=columns,
        metrics=[{"name": "ctr", "role": "goal"}],
    )
    return loaded.agree(metrics=["auc", "q_ctr"], logs={name: frames[name] for name in names})
