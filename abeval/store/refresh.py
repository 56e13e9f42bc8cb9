"""Makes missing parts, and says which files were read, kept and dropped.

`store/collect.py` calls it with the input files; `store/closing.py` reads from the `Refresh`
whether closed days can be carried on.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from abeval.experiment.model import Experiment
from abeval.steps import Step
from abeval.store.manifest import (
    STATE,
    Entry,
    Input,
    fingerprint,
    read_manifest,
    sweep,
    write_manifest,
)
from abeval.store.parts import Parts
from abeval.store.state import State, read_state, why_unusable


@dataclass(frozen=True)
class Refresh:
    """What one run did to a store.

    Attributes:
        read: Files that were read, with the days of their rows.
        kept: Files whose parts were used as they are.
        vanished: Files that the log no longer has; their parts were dropped.
        broken: Files whose parts were damaged.
        trouble: Why the whole store was computed anew, None if it was not.
        entries: The part of each file of the log.
        state: Closed days that are carried on, None if all days are added up from parts.
        previous: The parts of the previous run, as far as its closed days tell.
        anew: Why closed days are not carried on, None if they are or there are none.
        rewritten: Whether a file of the log has changed.
    """

    read: Mapping[str, tuple[str, ...]]
    kept: tuple[str, ...]
    vanished: tuple[str, ...]
    broken: tuple[str, ...]
    trouble: str | None
    entries: Mapping[str, Entry]
    state: State | None
    previous: Collection[str]
    anew: str | None
    rewritten: bool

    def notes(self) -> tuple[str, ...]:
        """For the reader of the result."""
        read = {day for days in self.read.values() for day in days}
        notes = [
            f"Aggregate store: {len(self.read)} of {len(self.read) + len(self.kept)} files of the "
            f"impressions were read{_span('days ', read)}, {len(self.kept)} were kept."
        ]
        if self.trouble is not None:
            notes.append(f"The store was recomputed: {self.trouble}.")
        if self.vanished:
            notes.append(
                f"Files that are no longer in the log were dropped: {_names(self.vanished)}."
            )
        if self.broken:
            notes.append(f"Damaged parts of the store were recomputed: {_names(self.broken)}.")
        if self.state is not None:
            days = {day for part in self.entries.values() for day in part.days}
            later = {day for day in days if day > self.state.last_day}
            notes.append(
                f"State of units: {len(days) - len(later)} closed days were reused, "
                f"{len(later)} added up{_span('', later)}."
            )
        if self.anew is not None:
            notes.append(f"State of units: all days were added up again, because {self.anew}.")
        return tuple(notes)


def refresh(
    parts: Parts,
    experiment: Experiment,
    files: Sequence[str],
    step: Step,
    closes: bool,
) -> Refresh:
    """Make missing parts, and see whether closed days can be carried on.

    Args:
        parts: The store.
        experiment: What is analysed.
        files: The input files.
        step: Told of each file that is read.
        closes: Whether closed days are wanted; if not, every part is checked for damage.
    """
    folder = parts.folder
    manifest = read_manifest(folder, experiment.name)
    # Relative, so that logs and store may move together.
    names = {os.path.relpath(file, experiment.folder): file for file in files}
    inputs = {name: fingerprint(file) for name, file in names.items()}
    usable = {
        name: entry
        for name, entry in manifest.parts.items()
        if name in inputs and parts.fits(entry, inputs[name])
    }
    previous = read_state(folder) if closes else None
    anew = None
    if previous is not None:
        anew = why_unusable(previous, list(usable.values()), parts.analysis)
    state = previous if anew is None else None
    damaged = parts.broken([e for e in usable.values() if state is None or state.is_open(e)])
    kept = {name: entry for name, entry in usable.items() if entry not in damaged}
    missing = {name: file for name, file in names.items() if name not in kept}
    entries = _completed(parts, experiment, kept, missing, inputs, step)
    old = manifest.parts
    result = Refresh(
        read={name: entries[name].days for name in missing},
        kept=tuple(kept),
        vanished=tuple(name for name in old if name not in inputs),
        broken=tuple(name for name in usable if name not in kept),
        trouble=manifest.trouble,
        entries=entries,
        state=state,
        previous=() if previous is None else previous.parts,
        anew=anew,
        rewritten=any(name in inputs and old[name].input != inputs[name] for name in old),
    )
    late = None if state is None else why_unusable(state, list(entries.values()), parts.analysis)
    if late is None:
        return result
    # Without the state every part counts, and is checked.
    (folder / STATE).unlink()
    return _both(result, refresh(parts, experiment, files, step, closes=False), late)


def _completed(
    parts: Parts,
    experiment: Experiment,
    kept: Mapping[str, Entry],
    missing: Mapping[str, str],
    inputs: Mapping[str, Input],
    step: Step,
) -> dict[str, Entry]:
    """The parts of all files: those of missing files are made, each kept as soon as it is there."""
    entries = dict(kept)
    for number, (name, file) in enumerate(missing.items(), start=1):
        step(f"reading new files: {number} of {len(missing)}")
        entries[name] = parts.make(file, inputs[name])
        write_manifest(parts.folder, experiment.name, entries)
    if not missing:
        write_manifest(parts.folder, experiment.name, entries)
    sweep(parts.folder, entries)
    return entries


def _both(first: Refresh, second: Refresh, anew: str) -> Refresh:
    """Two refreshes as one, the second of which dropped closed days."""
    return replace(
        first,
        read={**first.read, **second.read},
        kept=tuple(name for name in first.kept if name not in second.read),
        broken=(*first.broken, *second.broken),
        entries=second.entries,
        state=None,
        anew=anew,
    )


def _span(label: str, days: Collection[str]) -> str:
    """The first and the last day, in brackets."""
    if not days:
        return ""
    first, last = min(days), max(days)
    return f" ({label}{first})" if first == last else f" ({label}{first} to {last})"


def _names(files: Sequence[str]) -> str:
    shown = [Path(file).name for file in files[:5]]
    return ", ".join(shown) + (f" and {len(files) - 5} more" if len(files) > 5 else "")
