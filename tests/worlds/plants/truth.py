"""The truth of a log with a planted cause, as written to ``truth.json``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.worlds.plants.part import Part
from tests.worlds.plants.steps import Plant

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class PlantedTruth:
    """What was planted into a log.

    Attributes:
        schema: version of this record.
        seed: seed of the simulation.
        plant: what was planted, as the command has it.
        cause: the cause that ``abeval agree`` should name first; empty if nothing was planted.
        mechanism: what happens in the log, in a sentence.
        impressions: rows of the log.
        clicks: clicks in it.
    """

    schema: int
    seed: int
    plant: str
    cause: str
    mechanism: str
    impressions: int
    clicks: int

    @classmethod
    def of(cls, plant: Plant, seed: int, test: Part) -> PlantedTruth:
        """The truth of a simulated test."""
        rows, clicks = len(test.rows.click), int(test.rows.click.sum())
        return cls(SCHEMA, seed, plant.name, plant.cause, plant.mechanism, rows, clicks)

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
