"""What all units added up to in the run before, so that only units with new rows are added up.

Every sum is over units. Where units have new rows, the sums of all units are those of before, less
what these units were, plus what they are: to the last digit, as they are whole numbers.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.buckets import deals_units
from abeval.engines.protocol import whole_number
from abeval.errors import AbevalError
from abeval.experiment.model import Experiment
from abeval.files import write_text
from abeval.logs.sums import Earlier
from abeval.metrics.definition import Metric
from abeval.store.manifest import TOTALS, Entry, is_whole, sha256_of
from abeval.store.parts import Parts
from abeval.store.saved import SAVED, read_aggregates, save_aggregates
from abeval.store.state import has_twins

FEWEST_UNITS = 20_000
"""Of fewer units all can be added up in the time that it takes to find those with new rows."""
_EXACT = 2.0**50
"""Sums below this are whole numbers as doubles too, with room to grow."""
_TOLD = "made_of.json"


@dataclass(frozen=True)
class Totals:
    """Aggregates of all units.

    Attributes:
        parts: The parts that they were made of.
        aggregates: As `collect` made them.
    """

    parts: frozenset[str]
    aggregates: Aggregates

    @property
    def units(self) -> int:
        """Units that might be analysed."""
        return self.aggregates.facts["units"]

    @property
    def analysed(self) -> int:
        """Those of them that are analysed."""
        return int(self.aggregates.units["units"].sum())

    def stand_for(self, entries: Sequence[Entry]) -> bool:
        """Whether all that was added up is still there, each part once."""
        return self.parts <= {entry.file for entry in entries} and not has_twins(entries)


class Touched(NamedTuple):
    """Units with new rows.

    Attributes:
        earlier: What stands for the others.
        note: In words, for whoever reads the result.
    """

    earlier: Earlier
    note: str


def add_up_by_units(experiment: Experiment, metrics: Sequence[Metric]) -> bool:
    """Whether everything wanted is a sum over units: a cap is one of all units together."""
    capped = any(metric.cap is not None for metric in metrics)
    return experiment.logs.exposures is None and not capped


def replays_add_up(experiment: Experiment, analysed: int) -> bool:
    """Whether replays, if any, deal out sums of sub-buckets, which add up, and not units.

    Args:
        experiment: What is analysed.
        analysed: How many units are analysed at least: more may come, and some may leave.
    """
    return experiment.trust.aa_runs == 0 or not deals_units(analysed)


def will_do(
    experiment: Experiment, units: int, analysed: int, parts: Sequence[Entry], more: int
) -> bool:
    """Whether totals are worth while, and replays add up though half of the units may leave.

    Args:
        experiment: What is analysed.
        units: All units.
        analysed: Those of them that are analysed.
        parts: Those there are.
        more: How many more parts there will be.
    """
    return is_sparse(units, parts, more) and replays_add_up(experiment, analysed // 2)


def is_sparse(units: int, parts: Sequence[Entry], more: int) -> bool:
    """Whether units with new rows are so few that to add them up twice is sooner than all once.

    Args:
        units: All units.
        parts: Those there are; they have one row or more for a unit and day.
        more: How many more parts there will be.
    """
    if units < FEWEST_UNITS or not parts:
        return False
    rows = sum(part.rows for part in parts)
    touched = min(units, rows / len(parts) * more)
    return touched * rows / units < units


def read_totals(folder: Path, experiment: Experiment, definition: str) -> Totals | None:
    """What is kept; None where there is nothing, or nothing to believe.

    Args:
        folder: Of the store.
        experiment: What is analysed.
        definition: Of `state.state_definition`.
    """
    try:
        told = json.loads((folder / TOTALS / _TOLD).read_text(encoding="utf-8"))
        if told["definition"] != definition or not is_whole(folder / TOTALS / SAVED, told[SAVED]):
            return None
        found = Totals(frozenset(told["parts"]), read_aggregates(folder / TOTALS, experiment))
    except (OSError, ValueError, KeyError, TypeError, AbevalError):
        return None
    buckets = found.aggregates.buckets.values()
    return found if all((abs(sums.sums) < _EXACT).all() for sums in buckets) else None


def write_totals(
    folder: Path,
    experiment: Experiment,
    definition: str,
    entries: Sequence[Entry],
    aggregates: Aggregates,
) -> None:
    """Keep the aggregates of all units; until all of it is written, none of it is believed.

    Args:
        folder: Of the store.
        experiment: What is analysed.
        definition: Of `state.state_definition`.
        entries: The parts of the log.
        aggregates: What they add up to.
    """
    place = folder / TOTALS
    place.mkdir(exist_ok=True)
    save_aggregates(place, experiment, aggregates)
    told = {
        "definition": definition,
        "parts": sorted({entry.file for entry in entries}),
        SAVED: sha256_of(place / SAVED),
    }
    write_text(place / _TOLD, json.dumps(told, indent=1) + "\n")


def find_touched(parts: Parts, entries: Sequence[Entry], totals: Totals) -> int:
    """Make `new_sums` of new parts and `touched` of their units, and count these."""
    engine = parts.engine
    new = [entry for entry in entries if entry.file not in totals.parts]
    engine.table("new_sums", parts.together(new) if new else parts.together(entries, "false"))
    engine.table("touched", "select distinct unit_id from new_sums where unit_id is not null")
    return whole_number(engine, "select count(*) from touched")


def load_touched(parts: Parts, entries: Sequence[Entry], totals: Totals, units: int) -> Touched:
    """Make `logged_sums` of the units that `find_touched` found, and say what they were."""
    engine = parts.engine
    old = [entry for entry in entries if entry.file in totals.parts]
    where = "unit_id in (select unit_id from touched)"
    engine.table("known_sums", parts.together(old, where))
    engine.view("logged_sums", "select * from known_sums union all select * from new_sums")
    return Touched(
        Earlier(totals.aggregates, "select * from known_sums"),
        f"Sums of units: {units:,} units with rows in new files were added up; what all others add "
        "up to was carried on.",
    )
