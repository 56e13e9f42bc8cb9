"""Logs whose offline and online results differ for one known cause, or for none.

`simulate_plant` writes them. `traffic.py` draws the visits, `steps.py` what happens to them in a
world without a fault; each other module here is one cause: it replaces one or two of the steps.
"""

from tests.worlds.plants.run import simulate_plant
from tests.worlds.plants.truth import PlantedTruth

__all__ = ["PlantedTruth", "simulate_plant"]
