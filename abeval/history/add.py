"""Results of an experiment into the file of a history.

`history.py` calls it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from abeval.errors import ExperimentError
from abeval.history.entries import Addable, name_of, rows_of, shared_rows
from abeval.history.table import Table, changing
from abeval.results.history import Added, AddedSource, HistoryRow
from abeval.results.study import ANALYSIS, REPLAY, TIME, Wanted, read_result

_WANTED = Wanted(
    (ANALYSIS, REPLAY, TIME),
    "is no result of abeval that has effects",
    "a history takes the JSON of abeval analyze, replay and windows",
)


def add(
    path: Path, results: Sequence[Addable | str | Path], shipped: frozenset[str] | None
) -> Added:
    """Put the rows of results in the place of those that the history had of them.

    Raises:
        ExperimentError: A file is no result, or they are of different experiments.
    """
    read = _read(results)
    parts = [rows_of(result, shipped) for result in read]
    _check_once(parts, name_of(read[0]))
    with changing(path) as table:
        sources = tuple(_put(table, rows) for rows in parts if rows)
        return Added(str(path), name_of(read[0]), sources, table.experiments())


def add_noise(path: Path, results: Sequence[Addable | str | Path]) -> Added:
    """Put the noise that metrics share, measured by parts of an experiment's units, into a history.

    Raises:
        ExperimentError: A file is no result, they are of different experiments, or too few.
    """
    read = _read(results)
    rows = shared_rows(read)
    with changing(path) as table:
        sources = (_put(table, _signed(rows)),) if rows else ()
        return Added(str(path), name_of(read[0]), sources, table.experiments())


def _signed(rows: Sequence[HistoryRow]) -> list[HistoryRow]:
    digest = hashlib.sha256(repr(rows).encode("utf-8", "replace")).hexdigest()[:32]
    return [replace(row, digest=digest) for row in rows]


def _read(results: Sequence[Addable | str | Path]) -> list[Addable]:
    """Results of one experiment, or the files of these.

    Raises:
        ExperimentError: A file is no result, or they are of different experiments.
    """
    read = [_from_file(Path(one)) if isinstance(one, str | Path) else one for one in results]
    if not read:
        raise ExperimentError("there is nothing to add", "name the JSON of abeval analyze")
    names = list(dict.fromkeys(name_of(result) for result in read))
    if len(names) > 1:
        what = f"these results are of different experiments: {names[0]!r} and {names[1]!r}"
        raise ExperimentError(what, "add each experiment by a call of its own")
    return read


def _from_file(file: Path) -> Addable:
    # Its kind is one of those that are wanted.
    return cast("Addable", read_result(file, _WANTED))


def _check_once(parts: Sequence[Sequence[HistoryRow]], name: str) -> None:
    sources = [rows[0].source for rows in parts if rows]
    twice = next((source for source in sources if sources.count(source) > 1), None)
    if twice is not None:
        what = f"two results of the same kind ({twice}) of {name!r} were named"
        raise ExperimentError(what, "name one of each: analyze, replay, windows")


def _put(table: Table, rows: Sequence[HistoryRow]) -> AddedSource:
    experiment, source, digest = rows[0].experiment, rows[0].source, rows[0].digest
    before, count = table.digests(experiment).get(source, ("", 0))
    bare = sum(row.se is None and not row.shared for row in rows)
    if before == digest:
        return AddedSource(source, "unchanged", len(rows), 0, bare)
    table.replace(experiment, source, rows)
    return AddedSource(source, "replaced" if count else "added", len(rows), count, bare)
