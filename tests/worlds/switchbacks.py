"""Cities that take turns: their plans, their minutes, and the sums of an analysis of them."""

from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np

import abeval
from abeval.aggregates.aggregates import Aggregates
from abeval.assignment.switchbacks import Schedule
from abeval.experiment.load import parse_experiment
from abeval.experiment.metrics import list_scorecard_metrics
from abeval.inference.compare import Analysis
from abeval.logs.clusters import PARTS, find_slots
from abeval.logs.unit_arrays import Labels
from abeval.results.analysis import Result
from abeval.simulate.turns import (
    ARMS,
    CITIES,
    DAYS,
    HOURS,
    MINUTES,
    SLOT,
    SLOTS,
    START,
    Minutes,
    build_log,
    draw_minutes,
)


class World(NamedTuple):
    """How slots were drawn, for how many minutes the variant before acts, and the burn-in.

    `is_uneven` says that one city has half of all impressions and another a tenth.
    """

    schedule: Schedule
    carry: int
    burn_in: int
    is_uneven: bool = False

    def draw(self, seed: int, lift: float) -> Minutes:
        """Draw an experiment."""
        drawn = draw_minutes(self.schedule, self.carry, seed, lift)
        if not self.is_uneven:
            return drawn
        rng, kept = np.random.default_rng([seed, 46]), np.array(SHARES)[:, None]
        x = rng.binomial(drawn.x, kept)
        y = rng.hypergeometric(drawn.y, drawn.x - drawn.y, x)
        return Minutes(y, x, drawn.treated)


SHARES = (1.0, 0.5, 0.3, 0.2)
"""Shares of the impressions of four cities that are kept where cities are uneven."""


WORLDS = (
    World("balanced", 0, 20),
    World("balanced", 30, 0),
    World("balanced", 30, 30),
    World("coin", 30, 30),
    World("alternating", 0, 20),
    World("balanced", 30, 30, is_uneven=True),
    World("coin", 30, 30, is_uneven=True),
)


def entries(world: World) -> dict[str, Any]:
    """Write the plan: clicks of impressions in slots of cities."""
    turns = {"cluster": "city", "slot": f"{HOURS}h", "burn_in": f"{world.burn_in}m"}
    return {
        "name": "cities",
        "unit": "user_id",
        "control": "control",
        "variants": {name: {} for name in ARMS},
        "period": {"start": str(START.date()), "end": str((START + timedelta(DAYS)).date())},
        "logs": {"impressions": {"path": "log.csv"}},
        "design": {"switchback": {**turns, "schedule": world.schedule}},
        "metrics": [{"name": "ctr", "role": "goal"}],
    }


def analysis_of(world: World, drawn: Minutes) -> Analysis:
    """Sum the minutes by part of a slot, as an analysis does."""
    experiment = parse_experiment(entries(world))
    slot, since = np.divmod(np.arange(MINUTES), SLOT)
    quarter = len(PARTS) * (since - world.burn_in) // (SLOT - world.burn_in)
    part = np.broadcast_to(quarter, (CITIES, MINUTES))
    counts = np.broadcast_to(since >= world.burn_in, (CITIES, MINUTES))
    unit = ((np.arange(CITIES)[:, None] * SLOTS + slot) * len(PARTS) + part)[counts]
    size = CITIES * SLOTS * len(PARTS)
    y, x = (np.bincount(unit, one[counts], size) for one in (drawn.y, drawn.x))
    known = np.flatnonzero(np.bincount(unit, minlength=size))
    cell, of_part = np.divmod(known, len(PARTS))
    city, number = np.divmod(cell, SLOTS)
    names = [str(one) for one in range(SLOTS)]
    labels = {
        "design.cluster": Labels(city.astype(np.int32), names[:CITIES]),
        "design.slot": Labels(number.astype(np.int32), names),
        "design.part": Labels(of_part.astype(np.int32), PARTS),
    }
    variant = drawn.treated[city, number].astype(np.int8)
    turns = experiment.switchback
    if turns is None:
        raise TypeError("the plan is a switchback")
    slots = find_slots(experiment, turns, variant, labels)
    rows = [np.bincount(slots.of_unit, one[known]) for one in (y, x)]
    parts = [
        np.bincount(slots.of_unit, one[known] * (of_part == which))
        for which in range(len(PARTS))
        for one in (y, x)
    ]
    others = np.zeros((6, len(slots.variant)))
    sums = np.stack([*rows, *others, *parts], axis=1)
    units = dict(zip(ARMS, np.bincount(slots.variant).tolist(), strict=True))
    of = Aggregates(
        units=units, clusters=slots, cluster_sums={"ctr": sums}, facts={"clicks": 1, "scored": 0}
    )
    return Analysis(experiment, list_scorecard_metrics(experiment), of)


def through_command(world: World, seed: int, lift: float) -> Result:
    """Analyse an experiment through the whole command."""
    log = build_log(world.draw(seed, lift), seed)
    return abeval.define(entries(world)).analyze(logs={"impressions": log})
