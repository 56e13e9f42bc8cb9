"""Totals: aggregates of all units, carried on while only the units with new rows are added up.

Every aggregate is a sum over units. Those of all units are the previous ones, less those of the
units with new rows before this run, plus theirs now: exact, because sums are whole numbers.
`store/collect.py` reads and writes the totals; `store/change.py` subtracts and adds.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from abeval.aggregates.aggregates import Aggregates
from abeval.engines.protocol import whole_number
from abeval.errors import AbevalError
from abeval.experiment.model import Experiment
from abeval.files import write_text
from abeval.logs.sums import load_sums
from abeval.store.manifest import SAVED, TOTALS, Entry, has_twins, is_whole, sha256_of
from abeval.store.parts import Parts
from abeval.store.saved import read_aggregates, save_aggregates

_EXACT = 2.0**50
"""Sums below this are whole numbers as doubles too, with room to grow."""
_SOURCE = "made_of.json"


@dataclass(frozen=True)
class Totals:
    """Aggregates of all units.

    Attributes:
        parts: The parts that they were made of.
        aggregates: Those, with the days on which no unit is analysed.
    """

    parts: frozenset[str]
    aggregates: Aggregates

    @property
    def units(self) -> int:
        """Units that might be analysed."""
        return self.aggregates.facts["units"]

    @property
    def analysed(self) -> int:
        """Units that are analysed."""
        return int(self.aggregates.units["units"].sum())

    def hold_for(self, entries: Sequence[Entry]) -> bool:
        """Whether every part that they were made of is still there, once."""
        return self.parts <= {entry.file for entry in entries} and not has_twins(entries)

    def old(self, entries: Iterable[Entry]) -> list[Entry]:
        """The parts that they were made of."""
        return [entry for entry in entries if entry.file in self.parts]


def read_totals(folder: Path, experiment: Experiment, definition: str) -> Totals | None:
    """Totals of the previous run; None if there are none, or they are damaged or of another kind.

    Args:
        folder: Of the store.
        experiment: What is analysed.
        definition: `Parts.analysis`.
    """
    try:
        source = json.loads((folder / TOTALS / _SOURCE).read_text(encoding="utf-8"))
        whole = is_whole(folder / TOTALS / SAVED, source[SAVED])
        if source["definition"] != definition or not whole:
            return None
        totals = Totals(frozenset(source["parts"]), read_aggregates(folder / TOTALS, experiment))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, AbevalError):
        return None
    buckets = totals.aggregates.buckets.values()
    return totals if all((abs(sums.sums) < _EXACT).all() for sums in buckets) else None


def write_totals(parts: Parts, experiment: Experiment, totals: Totals) -> None:
    """Replace the totals; `made_of.json`, written last, makes them valid."""
    folder = parts.folder / TOTALS
    folder.mkdir(exist_ok=True)
    save_aggregates(folder, experiment, totals.aggregates)
    source = {
        "definition": parts.analysis,
        "parts": sorted(totals.parts),
        SAVED: sha256_of(folder / SAVED),
    }
    write_text(folder / _SOURCE, json.dumps(source, indent=1) + "\n")


def load_units_now(parts: Parts, entries: Sequence[Entry], totals: Totals) -> int:
    """Make `logged_sums` of the units with rows in new parts, and count these units.

    `known_sums` are the rows that they had before.
    """
    engine, new = parts.engine, [entry for entry in entries if entry.file not in totals.parts]
    engine.table("new_sums", parts.together(new) if new else parts.together(entries, "false"))
    engine.table("touched", "select distinct unit_id from new_sums where unit_id is not null")
    where = "unit_id in (select unit_id from touched)"
    engine.table("known_sums", parts.together(totals.old(entries), where))
    load_sums(engine, "select * from known_sums union all select * from new_sums")
    return whole_number(engine, "select count(*) from touched")


def load_units_before(parts: Parts) -> None:
    """Make `logged_sums` of the same units as they were in the previous run."""
    load_sums(parts.engine, "select * from known_sums")
