"""What happens to a request in a world without a fault, as steps that a cause may replace.

`run.py` runs the steps of a `Plant` in the order of `Steps`. All arrays have one row a request and
one column an item of its pool, until `shown` keeps the rows that were shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from abeval.simulate.visits import Bools
from abeval.simulate.world import DAY_MS, Floats, Ints
from tests.worlds.plants.traffic import (
    FEED,
    HOME_LENGTH,
    LIST_LENGTH,
    POOL,
    Traffic,
    draw_traffic,
)

ITEMS = 400
MEAN_APPEAL = -2.2
FIRST_SPREAD = 0.7
SECOND_SPREAD = 0.7
_HIDDEN_SPREAD = 0.5
_POSITION_EFFECT = -0.03
_SHARPNESS = 3.0
_BLUR = 0.3
_USUAL_LATENCY_MS = 60.0


class Signals(NamedTuple):
    """The items of each pool, and what makes them appealing to the user, as logits.

    Both models know ``first``, the candidate alone ``second``, and nobody ``hidden``.
    """

    item: Ints
    first: Floats
    second: Floats
    hidden: Floats


class Model(NamedTuple):
    """A logistic regression on a view of the items, fitted to the week before the test."""

    intercept: float = 0.0
    slope: float = 1.0

    def logit(self, view: Floats) -> Floats:
        """Predicted log odds of a click."""
        return self.intercept + self.slope * view


class Served(NamedTuple):
    """What the server did: a logit for each item, NaN where no model ranked, and its health.

    ``latency`` is in ms, ``trained`` in ms since the start of the log (-1 without a model).
    """

    logit: Floats
    failed: Bools
    latency: Floats
    trained: Ints


class Rows(NamedTuple):
    """The rows that were shown: the request and the place in its pool, position and click."""

    request: Ints
    place: Ints
    position: Ints
    click: Bools

    def of(self, values: Floats) -> Floats:
        """Values of the pools, of the rows that were shown."""
        own: Floats = values[self.request, self.place]
        return own


class Offline(NamedTuple):
    """What the candidate says of shown rows when its scores are computed after the test.

    ``feature`` is a third feature of it; ``known`` says when its features were written, in ms.
    """

    view: Floats
    feature: Floats
    known: Ints


Random = np.random.Generator


def signals(traffic: Traffic, rng: Random) -> Signals:
    """Items and their appeal, drawn anew for each request."""
    shape = (len(traffic.user), POOL)
    # One item of each group of items, so that none is repeated in a list.
    group = ITEMS // POOL * np.arange(POOL)
    return Signals(
        item=1 + group + rng.integers(0, ITEMS // POOL, shape),
        first=FIRST_SPREAD * rng.standard_normal(shape),
        second=SECOND_SPREAD * rng.standard_normal(shape),
        hidden=_HIDDEN_SPREAD * rng.standard_normal(shape),
    )


def appeal(traffic: Traffic, known: Signals) -> Floats:
    """The logit of a click at the first position."""
    own = MEAN_APPEAL + traffic.readiness[:, None]
    total: Floats = own + known.first + known.second + known.hidden
    return total


def view(traffic: Traffic, known: Signals, rng: Random) -> Floats:
    """What the candidate knows of each item."""
    del traffic, rng
    return known.first + known.second


def view_of_a_twin(traffic: Traffic, known: Signals, rng: Random) -> Floats:
    """The view of a candidate that knows a little less than the baseline."""
    del traffic
    blurred: Floats = known.first + _BLUR * rng.standard_normal(known.first.shape)
    return blurred


def serve(traffic: Traffic, baseline: Floats, candidate: Floats, rng: Random) -> Served:
    """The treatment's feed by the candidate, other feeds by the baseline, home by no model."""
    of_model = np.where(traffic.by_treatment[:, None], candidate, baseline)
    ranked = traffic.scene == FEED
    return Served(
        logit=np.where(ranked[:, None], of_model, np.nan),
        failed=np.zeros_like(ranked),
        latency=_USUAL_LATENCY_MS * rng.lognormal(0, 0.4, len(ranked)),
        trained=np.where(ranked, traffic.day * DAY_MS, -1),
    )


def choose(traffic: Traffic, logit: Floats, rng: Random) -> Bools:
    """The items shown: the best by a noisy order, any where no model ranked."""
    length = np.where(traffic.scene == FEED, LIST_LENGTH, HOME_LENGTH)
    return best(logit, length, rng)


def place(traffic: Traffic, logit: Floats, chosen: Bools, rng: Random) -> Ints:
    """Positions from 1, in random order; 0 for items that are not shown."""
    del traffic, logit
    return positions(rng.random(chosen.shape), chosen)


def attention(traffic: Traffic, position: Ints) -> Floats:
    """What the place and the moment do to the logit of a click: a little, in all variants."""
    del traffic
    seen: Floats = _POSITION_EFFECT * (position.astype(np.float64) - 1)
    return seen


def rescore(traffic: Traffic, rows: Rows, own: Floats, rng: Random) -> Offline:
    """The candidate's own view of the rows shown, with features from before the request."""
    at = traffic.at[rows.request]
    age = rng.integers(60_000, 3_600_000, len(at))
    return Offline(own, rng.standard_normal(len(at)), at - age)


def learned(traffic: Traffic, rows: Rows, rng: Random) -> Bools:
    """Which rows are the candidate's training data: those of the week before the test."""
    del rng
    return traffic.before[rows.request]


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a world, in their order.

    The candidate's log odds are too high by ``inflated_by``; those of a row that it learned from
    move by ``memory`` times the row's surprise.
    """

    traffic: Callable[[int, Random], Traffic] = draw_traffic
    signals: Callable[[Traffic, Random], Signals] = signals
    appeal: Callable[[Traffic, Signals], Floats] = appeal
    view: Callable[[Traffic, Signals, Random], Floats] = view
    serve: Callable[[Traffic, Floats, Floats, Random], Served] = serve
    choose: Callable[[Traffic, Floats, Random], Bools] = choose
    place: Callable[[Traffic, Floats, Bools, Random], Ints] = place
    attention: Callable[[Traffic, Ints], Floats] = attention
    rescore: Callable[[Traffic, Rows, Floats, Random], Offline] = rescore
    learned: Callable[[Traffic, Rows, Random], Bools] = learned
    inflated_by: float = 0.0
    memory: float = 0.0


@dataclass(frozen=True, slots=True)
class Plant:
    """A cause that a simulated log can have.

    Args:
        name: As the command has it.
        cause: The name of the cause in the result of ``abeval agree``; empty for none.
        mechanism: What happens, in a sentence.
        steps: Of the world.
    """

    name: str
    cause: str
    mechanism: str
    steps: Steps = field(default_factory=Steps)


def best(logit: Floats, length: Ints, rng: Random) -> Bools:
    """The best items of each pool, as many as its list has; noisy (Plackett and Luce)."""
    key = _SHARPNESS * np.nan_to_num(logit) + rng.gumbel(size=logit.shape)
    return positions(-key, np.ones(logit.shape, dtype=bool)) <= length[:, None]


def positions(key: Floats, chosen: Bools) -> Ints:
    """Places from 1 of the chosen items of each pool, the smallest key first; 0 for others."""
    order = np.argsort(np.where(chosen, key, np.inf), axis=1)
    rank = np.empty(order.shape, dtype=np.int64)
    np.put_along_axis(rank, order, np.arange(1, order.shape[1] + 1)[None, :], axis=1)
    return np.where(chosen, rank, 0)
