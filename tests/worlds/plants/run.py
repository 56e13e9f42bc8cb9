"""The simulation of a log with one planted cause, from end to end.

A test or a person gives a folder, a cause, a size and a seed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from abeval.errors import ExperimentError
from abeval.simulate.run import open_simulation_folder
from abeval.simulate.world import DEFAULT_IMPRESSIONS, Plan
from tests.worlds.plants.causes import named_plant
from tests.worlds.plants.files import FILES, write_impressions, write_training
from tests.worlds.plants.fit import fitted
from tests.worlds.plants.part import Models, Part, simulated
from tests.worlds.plants.steps import Plant
from tests.worlds.plants.template import EXPERIMENT
from tests.worlds.plants.truth import PlantedTruth


def simulate_plant(
    directory: Path | str, cause: str, impressions: int = DEFAULT_IMPRESSIONS, seed: int = 7
) -> PlantedTruth:
    """Write a log whose offline and online results differ for one known cause.

    A candidate model serves the feed of the treatment for two weeks; home has no model. The folder
    gets ``impressions/log.parquet``, ``training.parquet`` (what the candidate learned from),
    ``experiment.toml`` and ``truth.json``.

    Args:
        directory: folder for the files; created if missing. An earlier simulation is replaced.
        cause: such as ``stale_model``; ``none`` for a log without a fault.
        impressions: about so many are in the log.
        seed: the same seed gives the same rows.

    Raises:
        ExperimentError: if there is no such cause, or the size or the folder cannot be used.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     truth = simulate_plant(folder, "stale_model", impressions=10_000)
    >>> truth.plant, truth.cause
    ('stale_model', 'stale_model')
    """
    plant, plan = named_plant(cause), Plan(impressions, seed)
    if not str(directory):
        raise ExperimentError("the name is empty", "name a folder; `.` is the working directory")
    before, models, test = _weeks(plant, plan)
    with open_simulation_folder(Path(directory), EXPERIMENT, FILES) as folder:
        write_impressions(folder / "impressions" / "log.parquet", test, models)
        write_training(folder / "training.parquet", before, test, models)
        truth = PlantedTruth.of(plant, seed, test)
        truth.write(folder / "truth.json")
    return truth


def _weeks(plant: Plant, plan: Plan) -> tuple[Part, Models, Part]:
    """The week before the test, the models that learned from it, and the test."""
    # Each part has its own random numbers, so that a change of one does not affect the others.
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(plan.seed).spawn(3)]
    traffic = plant.steps.traffic(plan.impressions, streams[0])
    before = simulated(plant.steps, traffic.where(traffic.before), Models(), streams[1])
    click = before.rows.click
    models = Models(fitted(before.baseline, click), fitted(before.offline.view, click))
    models = models.inflated(plant.steps.inflated_by)
    test = simulated(plant.steps, traffic.where(~traffic.before), models, streams[2])
    return before, models, test
