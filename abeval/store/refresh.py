"""Makes the parts that lack, and says which were read, kept and dropped."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from abeval.experiment.model import Experiment
from abeval.logs.sums import Step
from abeval.store.manifest import (
    STATE,
    Entry,
    fingerprint,
    read_manifest,
    sweep,
    write_manifest,
)
from abeval.store.parts import Parts
from abeval.store.state import State, read_state, why_not


@dataclass(frozen=True)
class Refresh:
    """What one run did to a store.

    Attributes:
        read: The files that were read, with the days of their rows.
        kept: The files whose parts were taken as they are.
        vanished: Files whose parts were dropped, because the log has them no more.
        broken: Files whose parts were there, but not as they had been written.
        trouble: Why the whole store was computed anew, None where it was believed.
        entries: The part of each file that the log has.
        state: Closed days that are carried on, None where all days are added up from parts.
        known: The parts that there were in the run before.
        anew: Why closed days are not carried on, None where they are or where there are none.
        rewritten: Whether a file of the log is another than it was.
    """

    read: Mapping[str, tuple[str, ...]]
    kept: tuple[str, ...]
    vanished: tuple[str, ...]
    broken: tuple[str, ...]
    trouble: str | None
    entries: Mapping[str, Entry]
    state: State | None
    known: Collection[str]
    anew: str | None
    rewritten: bool

    def notes(self) -> tuple[str, ...]:
        """In words, for whoever reads the result."""
        days = sorted({day for found in self.read.values() for day in found})
        span = "" if not days else f" (days {_ranges(days)})"
        said = [
            f"Aggregate store: {len(self.read)} of {len(self.read) + len(self.kept)} files of the "
            f"impressions were read{span}, {len(self.kept)} were kept."
        ]
        if self.trouble is not None:
            said.append(f"The store was computed anew: {self.trouble}.")
        if self.vanished:
            said.append(f"Files that the log has no more were dropped: {_names(self.vanished)}.")
        if self.broken:
            said.append(f"Damaged parts of the store were computed anew: {_names(self.broken)}.")
        if self.state is not None:
            parts = self.entries.values()
            later = sorted({d for part in parts for d in part.days if d > self.state.last_day})
            said.append(
                f"State of units: {self.state.closed_days(parts)} closed days were carried on, "
                f"{len(later)} added up{f' ({_ranges(later)})' if later else ''}."
            )
        if self.anew is not None:
            said.append(f"State of units: all days were added up anew, because {self.anew}.")
        return tuple(said)


def refresh(
    parts: Parts,
    experiment: Experiment,
    files: Sequence[str],
    step: Step,
    closes: bool,
) -> Refresh:
    """Make the parts that lack, and see whether closed days can be carried on.

    Args:
        parts: The store.
        experiment: What is analysed.
        files: The input files.
        step: Told of each file that is read.
        closes: Whether closed days are wanted; without, every part is looked at.
    """
    folder = parts.folder
    manifest = read_manifest(folder, experiment.name)
    # Relative, so that logs and store may move together.
    names = {os.path.relpath(file, experiment.folder): file for file in files}
    states = {name: fingerprint(file) for name, file in names.items()}
    entries = {
        name: entry
        for name, entry in manifest.parts.items()
        if name in states and parts.fits(entry, states[name])
    }
    state = read_state(folder) if closes else None
    anew = None if state is None else why_not(state, list(entries.values()), parts.analysis)
    carried = state if anew is None else None
    opened = [e for e in entries.values() if carried is None or carried.open_part(e)]
    damaged = parts.broken(opened)
    broken = tuple(name for name, entry in entries.items() if entry in damaged)
    kept = {name: entry for name, entry in entries.items() if name not in broken}
    found = dict(kept)
    missing = [name for name in names if name not in kept]
    for done, name in enumerate(missing, start=1):
        step(f"reading new files: {done} of {len(missing)}")
        found[name] = parts.make(names[name], states[name])
        write_manifest(folder, experiment.name, found)
    if not missing:
        write_manifest(folder, experiment.name, found)
    sweep(folder, found)
    done_now = Refresh(
        read={name: found[name].days for name in missing},
        kept=tuple(kept),
        vanished=tuple(name for name in manifest.parts if name not in states),
        broken=broken,
        trouble=manifest.trouble,
        entries=found,
        state=carried,
        known=() if state is None else state.known,
        anew=anew,
        rewritten=any(
            name in states and entry.input != states[name] for name, entry in manifest.parts.items()
        ),
    )
    late = None if carried is None else why_not(carried, list(found.values()), parts.analysis)
    if late is None:
        return done_now
    # Without its state every part counts, and is looked at.
    (folder / STATE).unlink()
    rest = refresh(parts, experiment, files, step, closes=False)
    return replace(
        done_now,
        read={**done_now.read, **rest.read},
        kept=tuple(name for name in done_now.kept if name not in rest.read),
        broken=(*done_now.broken, *rest.broken),
        entries=rest.entries,
        state=None,
        anew=late,
    )


def _ranges(days: Sequence[str]) -> str:
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _names(files: Sequence[str]) -> str:
    shown = [Path(file).name for file in files[:5]]
    return ", ".join(shown) + (f" and {len(files) - 5} more" if len(files) > 5 else "")
