"""Write a log with a planted cause.

python -m benchmarks.plants DIR stale_model
"""

import argparse
from pathlib import Path

from abeval.simulate.world import DEFAULT_IMPRESSIONS
from tests.worlds.plants.causes import PLANTS
from tests.worlds.plants.run import simulate_plant


def main() -> None:
    """Write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("cause", choices=[plant.name for plant in PLANTS])
    parser.add_argument("--impressions", type=int, default=DEFAULT_IMPRESSIONS)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    simulate_plant(options.directory, options.cause, options.impressions, options.seed)


if __name__ == "__main__":
    main()
