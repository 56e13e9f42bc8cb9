"""Definitions that experiment files share: what `include` names, merged with the file itself.

`load.py` calls it before it validates; what one file says in place of another comes back as notes.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from abeval.errors import ExperimentError
from abeval.files import real
from abeval.metrics.row_text import names_of

Entries = Mapping[str, Any]
Read = Callable[[Path, str], str]
"""The text of a file; the second argument says who includes it."""

_TOML_HINT = "put text in quotes, begin a table with [name], and use each key once in it"


class Merged(NamedTuple):
    """Entries of several files as one.

    Attributes:
        entries: As one file would have them.
        notes: Which entries replace others, and what they were.
    """

    entries: dict[str, Any]
    notes: tuple[str, ...]


def merged(raw: Entries, folder: Path, source: str, read: Read) -> Merged:
    """The entries of a file and of all that it includes; its own replace those of others.

    Metrics of other files are definitions: the file's own `[[metrics]]` choose from them, by name,
    and without any they are all chosen.

    Args:
        raw: The entries of the file.
        folder: Where its paths start.
        source: Its name in messages.
        read: Reads a file.

    Raises:
        ExperimentError: An included file is missing, is not TOML, or includes itself.
    """
    shared = _included(raw, folder, (source,), read)
    if shared is None:
        return Merged({**raw}, ())
    own = {name: value for name, value in raw.items() if name != "metrics"}
    library = shared.entries.get("metrics", [])
    entries, notes = _together(shared.entries, own, source)
    chosen = raw.get("metrics")
    if isinstance(chosen, list) and isinstance(library, list):
        entries["metrics"], said = _chosen(library, chosen, source)
        notes = [*notes, *said]
    elif chosen is not None:
        entries["metrics"] = chosen
    return Merged(entries, (*shared.notes, *notes))


def check_entries(raw: Entries, source: str) -> None:
    """Refuse, in a file, what merging alone writes.

    Raises:
        ExperimentError: It is there.
    """
    if "overrides" in raw:
        raise ExperimentError(f"{source} has 1 problem:\n  overrides: there is no such entry")


def _included(raw: Entries, folder: Path, chain: tuple[str, ...], read: Read) -> Merged | None:
    """All files that entries include, later ones before earlier ones; None without any."""
    names = raw.get("include")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        what = f"{chain[-1]}: include is {names!r}, not a list of files"
        raise ExperimentError(what, 'write include = ["metrics.toml"]')
    entries: dict[str, Any] = {}
    notes: list[str] = []
    for name in names:
        one = _file(folder / name, chain, read)
        entries, said = _together(entries, one.entries, name, lists=True)
        notes += [*one.notes, *said]
    return Merged(entries, tuple(notes))


def _file(file: Path, chain: tuple[str, ...], read: Read) -> Merged:
    """One included file, with what it includes itself."""
    name = str(file)
    if real(file) in {real(one) for one in chain}:
        circle = " includes ".join([*chain, name])
        raise ExperimentError(f"files include each other in a circle: {circle}", "remove one")
    try:
        raw = tomllib.loads(read(file, f"{chain[-1]} includes it"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        what = f"{file}, which {chain[-1]} includes, is not valid TOML: {error}"
        raise ExperimentError(what, _TOML_HINT) from error
    check_entries(raw, name)
    own = _from_folder({k: v for k, v in raw.items() if k != "include"}, file.parent)
    shared = _included(raw, file.parent, (*chain, name), read)
    if shared is None:
        return Merged(own, ())
    entries, notes = _together(shared.entries, own, file.name, lists=True)
    return Merged(entries, (*shared.notes, *notes))


def _from_folder(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Paths of logs and tables as they are seen from the file that names them."""
    for logs in (raw.get("logs"), raw.get("tables")):
        for log in logs.values() if isinstance(logs, dict) else ():
            if isinstance(log, dict) and "path" in log:
                log["path"] = _paths(log["path"], folder)
    return raw


def _paths(paths: object, folder: Path) -> object:
    if isinstance(paths, list):
        return [_paths(path, folder) for path in paths]
    if not isinstance(paths, str) or "://" in paths:
        return paths
    return str(folder / paths)


def _together(
    first: Entries, second: Entries, source: str, path: str = "", *, lists: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Two tables of entries as one, and what the second says in place of the first.

    Args:
        first: Entries.
        second: Those that replace them.
        source: Where the second are from.
        path: Of the tables in the file.
        lists: Whether lists of metrics are put together by name.
    """
    entries, notes = dict(first), list[str]()
    for name, value in second.items():
        before, where = entries.get(name), f"{path}{name}"
        if isinstance(before, dict) and isinstance(value, dict):
            entries[name], said = _together(before, value, source, f"{where}.")
            notes += said
        elif lists and where == "metrics" and isinstance(before, list) and isinstance(value, list):
            entries[name], said = _chosen(before, value, source)
            chosen = {_name(one) for one in value}
            entries[name] = [*(one for one in before if _name(one) not in chosen), *entries[name]]
            notes += said
        else:
            entries[name] = value
            if before is not None and before != value:
                notes.append(f"{where} of {source} is {value!r} in place of {before!r}.")
    return entries, notes


def _chosen(
    library: Sequence[object], chosen: Sequence[object], source: str
) -> tuple[list[object], list[str]]:
    """Metrics by their names, with what the library says of them, and of what they are made of."""
    defined = {_name(one): one for one in library if isinstance(one, Mapping)}
    metrics, notes = list[object](), list[str]()
    for one in chosen:
        known = defined.get(_name(one))
        if known is None or not isinstance(one, Mapping):
            metrics.append(one)
            continue
        entry, said = _together(_redefined(known, one), one, source, f"metrics.{_name(one)}.")
        if {*known} - {*entry, "name"}:
            said = [f"metrics.{_name(one)} is defined by {source} anew.", *said]
        metrics.append(entry)
        notes += said
    names = {_name(one) for one in metrics}
    for part in (part for one in metrics for part in _parts(one)):
        if part in defined and part not in names:
            names.add(part)
            metrics.append({**defined[part], "role": "diagnostic"})
    return metrics, notes


_DEFINITION = ("value", "numerator", "denominator", "function", "quantile")


def _redefined(known: Entries, one: Entries) -> Entries:
    """What stays of a metric's entries: not its definition, where it gets a new one."""
    if not any(name in one for name in _DEFINITION):
        return known
    return {name: value for name, value in known.items() if name not in _DEFINITION}


def _parts(metric: object) -> Sequence[str]:
    """The metrics that a function is of."""
    text = metric.get("function") if isinstance(metric, Mapping) else None
    if not isinstance(text, str):
        return ()
    from sqlglot.errors import SqlglotError

    try:
        return names_of(text)
    except SqlglotError:
        # The check of the whole file says what is wrong with it.
        return ()


def _name(metric: object) -> str:
    return str(metric.get("name", "")) if isinstance(metric, Mapping) else ""
