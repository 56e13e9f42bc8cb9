"""A part of a simulated log: its requests, what was served and shown, clicks and own scores.

`run.py` simulates the week before the test, then the test with the models fitted to that week.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abeval.simulate.visits import Bools
from abeval.simulate.world import Floats
from tests.worlds.plants.steps import Model, Offline, Random, Rows, Served, Signals, Steps
from tests.worlds.plants.traffic import Traffic


class Models(NamedTuple):
    """Both models."""

    baseline: Model = Model()
    candidate: Model = Model()

    def inflated(self, by: float) -> Models:
        """The same, with all log odds of the candidate too high by a number."""
        own = self.candidate
        return Models(self.baseline, Model(own.intercept + by, own.slope))


class Part(NamedTuple):
    """Requests, their pools, what was served, and the rows shown.

    ``baseline`` is the baseline's view of the rows; ``learned`` are rows of the training data,
    whose surprise the candidate remembers by ``memory``.
    """

    traffic: Traffic
    known: Signals
    served: Served
    rows: Rows
    baseline: Floats
    offline: Offline
    learned: Bools
    memory: float

    def candidate(self, model: Model) -> Floats:
        """The candidate's own log odds of a click, of the rows shown."""
        logit = model.logit(self.offline.view)
        surprise = self.rows.click - probability(logit)
        return logit + self.memory * np.where(self.learned, surprise, 0.0)


def simulated(steps: Steps, traffic: Traffic, models: Models, rng: Random) -> Part:
    """Run all steps on the requests of a part."""
    known = steps.signals(traffic, rng)
    own = steps.view(traffic, known, rng)
    logits = models.baseline.logit(known.first), models.candidate.logit(own)
    served = steps.serve(traffic, *logits, rng)
    chosen = steps.choose(traffic, served.logit, rng)
    position = steps.place(traffic, served.logit, chosen, rng)
    logit = steps.appeal(traffic, known) + steps.attention(traffic, position)
    clicked = rng.random(logit.shape) < probability(logit)
    rows = _shown(chosen, position, clicked)
    return Part(
        traffic,
        known,
        served,
        rows,
        rows.of(known.first),
        steps.rescore(traffic, rows, rows.of(own), rng),
        steps.learned(traffic, rows, rng),
        steps.memory,
    )


def _shown(chosen: Bools, position: np.ndarray, clicked: Bools) -> Rows:
    """The rows that were shown, by request and position."""
    request, place = np.nonzero(chosen)
    at = position[request, place]
    order = np.lexsort((at, request))
    request, place = request[order], place[order]
    return Rows(request, place, at[order], clicked[request, place])


def probability(logit: Floats) -> Floats:
    """The probability of log odds."""
    chance: Floats = 1 / (1 + np.exp(-logit))
    return chance
