"""Read lists and truths: frames, dicts of dicts, TREC and LETOR files.

Files become frames first; frames become relations under canonical names, whose ids meet.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from abeval.engines.sql import NO_TYPE, Engine, is_number, quote
from abeval.errors import LogError
from abeval.offline.expressions import has_columns

if TYPE_CHECKING:
    import pandas as pd

_IDS = ("request_id", "item_id", "unit_id")

_NAMES: Mapping[str, tuple[str, ...]] = {
    "request_id": ("query_id", "q_id", "qid", "topic_id"),
    "item_id": ("doc_id", "docno", "docid", "product_id"),
    "grade": ("relevance", "rel", "label", "esci_label"),
}
"""Canonical column → what ir_measures, PyTerrier, ranx and public data call it."""

_USERS = "user_id"
"""Stands for the request where a frame has no other, and for the unit of earlier choices."""

_COLUMNS = (*_IDS, "score", "rank", "grade")

_ESCI = {"E": 1.0, "S": 0.1, "C": 0.01, "I": 0.0}
"""Gains of the letters of the Shopping Queries data (Reddy et al. 2022)."""

_FILES = (
    "a TREC run has 6 columns a line, qrels have 4, LETOR begins with `grade qid:N`; read another "
    "table into a frame, such as pandas.read_csv(path)"
)


class Inputs(NamedTuple):
    """Lists by model, and the truth: frames, whatever they were."""

    runs: Mapping[str, object]
    truth: object


def read_inputs(runs: object, truth: object) -> Inputs:
    """Make frames of files and of dicts of dicts; frames stay as they are.

    `runs` are by model, or of one: a frame, `{query: {item: score}}` or a TREC run file. Where the
    truth is a LETOR file, a run may be its scores in the order of the lines: an array, a file of
    one score a line, or the number of a feature.

    Raises:
        LogError: A file cannot be read, or is none of these.

    Example:
        >>> read_inputs({"q1": {"d1": 0.5}}, {"q1": {"d1": 1}}).runs["model"]
          request_id item_id  score
        0         q1      d1    0.5
    """
    runs_by_model = _name_runs(runs)
    if isinstance(truth, str | os.PathLike):
        path = Path(truth)
        if _is_letor(path):
            lines = _read_letor(path)
            of_lines = {m: _make_line_run(m, run, path, lines) for m, run in runs_by_model.items()}
            return Inputs(of_lines, lines)
        truth = _read_trec(path, "truth")
    elif isinstance(truth, Mapping):
        truth = _convert_dicts_to_frame(truth, "truth", "grade")
    return Inputs({model: _run(model, run) for model, run in runs_by_model.items()}, truth)


def _name_runs(runs: object) -> Mapping[str, object]:
    """Return model → its run.

    The run of one model is of a file's name, or of `model`.
    """
    # A mapping of numbers by item is one run; any other mapping has runs by model.
    if isinstance(runs, Mapping) and not (runs and all(map(_is_scores, runs.values()))):
        return runs
    if isinstance(runs, str | os.PathLike):
        return {Path(runs).name.removesuffix(".gz").rsplit(".", 1)[0]: runs}
    return {"model": runs}


def _is_scores(value: object) -> TypeGuard[Mapping[object, object]]:
    """Tell whether a value has a number by item, as a query of a run has."""
    return isinstance(value, Mapping) and all(
        score is None or isinstance(score, Real) for score in value.values()
    )


def _run(model: str, run: object) -> object:
    if isinstance(run, str | os.PathLike):
        return _read_trec(Path(run), model)
    return _convert_dicts_to_frame(run, model, "score") if isinstance(run, Mapping) else run


def _convert_dicts_to_frame(
    queries: Mapping[object, object], called: str, value: str
) -> pd.DataFrame:
    """Make a frame of `{query: {item: number}}`; ids of several types become text."""
    import pandas as pd

    rows = list[tuple[object, object, object]]()
    for query, items in queries.items():
        if not isinstance(items, Mapping):
            what = f"{called}: query {query!r} has {type(items).__name__}, not {value}s by item"
            raise LogError(what, f"give {{query: {{item: {value}}}}}, or a frame")
        rows += [(query, item, number) for item, number in items.items()]
    frame = pd.DataFrame(rows, columns=["request_id", "item_id", value])
    for name in ("request_id", "item_id"):
        # A column of an engine has one type, and text can hold every id.
        if frame[name].map(type).nunique() > 1:
            frame[name] = frame[name].map(str)
    return frame


def _read_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the words of each line that has some."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        # Files that were saved on Windows may begin with a byte order mark.
        with opener(path, "rt", encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if words := line.split():
                    yield number, words
    # A gzip file that was cut off ends in EOFError, which is no OSError.
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise LogError(f"{path} cannot be read: {error}", _FILES) from error


def _number(path: Path, line: int, what: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        problem = f"{path}, line {line}: the {what} is {text!r}, which is no number"
        raise LogError(problem, _FILES) from None


def _read_trec(path: Path, called: str) -> pd.DataFrame:
    """Read a TREC run, or qrels as truth.

    Lines are `query Q0 item rank score tag`, or `query 0 item grade`.
    """
    import pandas as pd

    width, value, column = (4, "grade", 3) if called == "truth" else (6, "score", 4)
    ids = list[tuple[str, str]]()
    values = list[float]()
    for line, words in _read_lines(path):
        if len(words) != width:
            what = f"{called}: {path}, line {line} has {len(words)} columns, not {width}"
            raise LogError(what, _FILES)
        ids.append((words[0], words[2]))
        values.append(_number(path, line, value, words[column]))
    return pd.DataFrame(ids, columns=["request_id", "item_id"]).assign(**{value: values})


def _is_letor(path: Path) -> bool:
    words = next(islice(_read_lines(path), 1), (1, [""]))[1]
    return len(words) > 1 and words[1].startswith("qid:")


def _read_letor(path: Path) -> pd.DataFrame:
    """Read `grade qid:N 1:… 2:…`.

    An item is the number of its line, of those with words.
    """
    import pandas as pd

    rows = list[tuple[str, float]]()
    for line, words in _read_lines(path):
        if len(words) < 2 or not words[1].startswith("qid:"):
            raise LogError(f"{path}, line {line} has no qid:", _FILES)
        rows.append((words[1][4:], _number(path, line, "grade", words[0])))
    frame = pd.DataFrame(rows, columns=["request_id", "grade"])
    return frame.assign(item_id=range(1, len(frame) + 1))


def _make_line_run(model: str, run: object, path: Path, lines: pd.DataFrame) -> object:
    """Make a run of scores in the order of the lines of a LETOR file.

    A frame stays as it is.
    """
    if isinstance(run, Mapping) or hasattr(run, "columns"):
        return _run(model, run)
    if isinstance(run, Integral):
        scores: object = _read_feature(path, f"{run}:")
    elif isinstance(run, str | os.PathLike):
        # RankLib writes the query and the place before the score.
        file = Path(run)
        scores = [_number(file, line, "score", words[-1]) for line, words in _read_lines(file)]
    else:
        scores = run
    # Anything that has a length and numbers.
    import numpy as np

    values = np.asarray(scores)
    if values.shape != (len(lines),):
        what = f"{model}: {values.size:,} scores, but {path} has {len(lines):,} lines"
        raise LogError(what, "give one score a line, in the order of the lines")
    return lines[["request_id", "item_id"]].assign(score=values)


def _read_feature(path: Path, start: str) -> list[float]:
    """Read a feature of each line, 0 where a line does not write it."""
    name, values, is_known = f"feature {start[:-1]}", list[float](), False
    for line, words in _read_lines(path):
        text = next((word for word in words[2:] if word.startswith(start)), "")
        is_known |= bool(text)
        values.append(_number(path, line, name, text.removeprefix(start) or "0"))
    if not is_known:
        raise LogError(
            f"no line of {path} has {name}", "name a feature by its number, or give scores"
        )
    return values


class GivenFrame(NamedTuple):
    """A frame of the caller, with its names in relations and in messages.

    Relations have `name` in their names, and messages call the frame `called`. The frame must have
    the columns `needed`; `numbers` must be numbers, as far as the frame has them.
    """

    name: str
    called: str
    frame: object
    needed: Sequence[str]
    numbers: Sequence[str] = ()


def open_frames(
    engine: Engine, frames: Sequence[GivenFrame], columns: Mapping[str, str]
) -> list[str]:
    """Make `NAME_frame` of each frame, with canonical names and ids that meet.

    `columns` says how the caller names canonical ones. Other columns stay as they are.

    Returns:
        Notes: which columns stand for which, and which ids are compared as text.

    Raises:
        LogError: A frame lacks a column, or several may be it; a column is no number; or no frame
            has a column that the caller names.
    """
    mapped = {given.name: _map_columns(engine, given, columns) for given in frames}
    pairs = dict.fromkeys(pair for found in mapped.values() for pair in found.items())
    for canonical, column in columns.items():
        if (canonical, column) not in pairs:
            what = f"columns: {canonical} is said to be `{column}`, which no frame has"
            raise LogError(what, f"name one of {', '.join(_COLUMNS)} by a column of a frame")
    renamed = [f"{canonical} is `{column}`" for canonical, column in pairs if canonical != column]
    notes = [f"columns: {', '.join(renamed)}"] if renamed else []
    types = {given.name: engine.columns(f"{given.name}_given") for given in frames}
    mixed = set[str]()
    for canonical in _IDS:
        kinds: dict[str, list[str]] = {}
        for given in frames:
            kind = types[given.name].get(mapped[given.name].get(canonical, ""), NO_TYPE)
            # A frame without rows has no types.
            if kind != NO_TYPE:
                kinds.setdefault("text" if _is_text(kind) else "numbers", []).append(given.called)
        # Ids that are text in one frame and numbers in another become text in all: they must meet.
        if len(kinds) > 1:
            mixed.add(canonical)
            where = " and ".join(f"{kind} in {', '.join(names)}" for kind, names in kinds.items())
            notes.append(f"{canonical} is {where}: compared as text")
    for name, found in mapped.items():
        selected = []
        for canonical, column in found.items():
            sql = quote(column)
            if canonical in mixed:
                sql = _as_text(sql, types[name][column])
            selected.append(f"{sql} as {canonical}")
        # Expressions may read the other columns. SQL ignores case, so one that differs from a
        # canonical name only in case would be ambiguous.
        selected += [quote(column) for column in types[name] if column.lower() not in found]
        engine.view(f"{name}_frame", f"select {', '.join(selected)} from {name}_given")
    return notes


def _map_columns(engine: Engine, given: GivenFrame, columns: Mapping[str, str]) -> dict[str, str]:
    """Make `NAME_given` of a frame; return canonical name → its column."""
    relation = f"{given.name}_given"
    try:
        engine.add_frame(relation, given.frame)
    # The caller knows the frame by its role, not by the name that the engine has for it.
    except LogError as error:
        raise LogError(error.what.replace(relation, given.called), error.hint) from error
    has = engine.columns(relation)
    mapped = {
        canonical: column
        for canonical in _COLUMNS
        if (column := _find_column(given.called, canonical, has, columns))
    }
    for column in given.needed:
        # Data of recommenders often have users alone: all rows of a user are one request.
        if column in ("request_id", "unit_id") and _USERS in has:
            mapped.setdefault(column, _USERS)
        if column not in mapped:
            hint = f'{has_columns(has)}; say which it is: columns={{"{column}": "…"}}'
            raise LogError(f"{given.called}: the frame has no column `{column}`", hint)
    numbers = [mapped[name] for name in given.numbers if name in mapped]
    check_numbers(engine, given.called, relation, numbers)
    return mapped


def _find_column(
    called: str, name: str, has: Mapping[str, str], columns: Mapping[str, str]
) -> str | None:
    """Find the column that stands for a canonical one.

    It is the one that the caller names, one of this name, or a usual one.
    """
    if columns.get(name) in has:
        return columns[name]
    if name in has:
        return name
    usual = [column for column in _NAMES.get(name, ()) if column in has]
    if len(usual) > 1:
        what = f"{called}: {' and '.join(f'`{column}`' for column in usual)} may be {name}"
        raise LogError(what, f'say which: columns={{"{name}": "{usual[0]}"}}')
    return next(iter(usual), None)


def _is_text(kind: str) -> bool:
    return kind.startswith(("VARCHAR", "UUID", "ENUM"))


def _as_text(column: str, kind: str) -> str:
    """Write an id as text, and whole numbers without a point."""
    text = f"cast({column} as varchar)"
    if kind not in ("FLOAT", "DOUBLE"):
        return text
    # Pandas turns ids with a missing one into floating point: 7.0 must meet 7. Below 1e15 such
    # numbers are exact, and fit a bigint.
    is_whole = f"{column} = floor({column}) and abs({column}) < 1e15"
    return f"case when {is_whole} then cast(cast({column} as bigint) as varchar) else {text} end"


def check_numbers(engine: Engine, called: str, relation: str, names: Iterable[str]) -> None:
    """Refuse columns that are no numbers, and name the values to map.

    Refused are times, lists, and letters for grades.
    """
    types = engine.columns(relation)
    for name in names:
        kind = types[name]
        if is_number(kind):
            continue
        # A list of texts begins like a text: VARCHAR[].
        if not kind.startswith(("VARCHAR", "ENUM(")) or kind.endswith("]"):
            raise LogError(
                f"{called}: `{name}` is {kind}, which is no number", "cast it, or drop it"
            )
        column = quote(name)
        odd = engine.rows(
            f"select distinct {column} from {relation} where {column} is not null and "
            # The message shows six values; the seventh tells that there are more.
            f"try_cast({column} as double) is null order by 1 limit 7"
        )
        if odd:
            raise _make_number_error(called, name, [str(value)[:50] for (value,) in odd])


def _make_number_error(called: str, name: str, values: Sequence[str]) -> LogError:
    """Say how to map texts: the letters of ESCI to their gains."""
    what = f"{called}: `{name}` has {values[0]!r}, which is no number"
    gains: Mapping[str, float] = _ESCI if {*values} <= {*_ESCI} else {}
    examples = ", ".join(f"{value!r}: {gains.get(value, '…')}" for value in gains or values[:6])
    more = ", …" if len(values) > 6 else ""
    return LogError(what, f'map each value: in pandas, frame["{name}"].map({{{examples}{more}}})')
