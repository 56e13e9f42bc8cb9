"""Mistakes of an experiment file: where, what, and what was probably meant.

`load.py` hands it pydantic's errors and reports the problems; checks of names in other rooms take
their "did you mean" from here.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from abeval.experiment.model import Experiment
from abeval.experiment.sections import PATTERNS

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """A mistake at a path of the file."""

    path: Path
    message: str

    def __str__(self) -> str:
        """`path: message`."""
        parts = (f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path)
        return f"{''.join(parts).removeprefix('.')}: {self.message}"


def suggestion(name: object, known: Iterable[str]) -> str:
    """`; did you mean ...?` for a near miss; the known names where there are few; or nothing."""
    names = list(known)
    near = near_miss(name, names)
    if near or not 0 < len(names) <= 16:
        return near
    return f"; known: {', '.join(names)}"


def near_miss(name: object, known: Iterable[str]) -> str:
    """`; did you mean ...?` where a known name is near, whatever its case; else nothing."""
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean `{by_lower[near[0]]}`?" if near else ""


def problems_of(error: ValidationError, raw: Mapping[str, Any]) -> list[Problem]:
    """Pydantic's errors as problems, those of one value joined by `or`."""
    by_path: dict[Path, list[str]] = {}
    for detail in error.errors():
        path = _path_in(raw, detail)
        by_path.setdefault(path, []).append(_text(detail, path))
    return [Problem(path, " or ".join(dict.fromkeys(texts))) for path, texts in by_path.items()]


def without(raw: Mapping[str, Any], paths: Sequence[Path]) -> dict[str, Any]:
    """A copy of `raw` that lacks the entries at `paths`."""
    return {
        key: _without(value, [p[1:] for p in paths if p[0] == key])
        for key, value in raw.items()
        if (key,) not in paths
    }


def _without(value: object, paths: list[Path]) -> object:
    if isinstance(value, Mapping):
        return without(value, [p for p in paths if p])
    if isinstance(value, list):
        gone = {p[0] for p in paths if len(p) == 1}
        return [
            _without(item, [p[1:] for p in paths if p and p[0] == i])
            for i, item in enumerate(value)
            if i not in gone
        ]
    return value


def _path_in(raw: Mapping[str, Any], detail: ErrorDetails) -> Path:
    """The error's place in the file, without the union members that pydantic adds to it."""
    here: Any = raw
    path: list[str | int] = []
    for part in detail["loc"]:
        if _has(here, part):
            here = here[part]
        elif detail["type"] == "missing" and part == detail["loc"][-1]:
            return (*path, part)
        else:
            continue
        path.append(part)
    return tuple(path)


def _has(here: object, part: str | int) -> bool:
    if isinstance(here, list):
        return isinstance(part, int) and part < len(here)
    return isinstance(here, Mapping) and part in here


def _text(detail: ErrorDetails, path: Path) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return f"unknown key `{path[-1]}`{suggestion(path[-1], _known_keys(path))}"
    if kind == "missing":
        return "missing"
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    near = ""
    if kind == "literal_error":
        near = near_miss(value, re.findall(r"'([^']*)'", detail["msg"]))
    return f"{_should(detail)} (got {_shown(value)}{near})"


def _should(detail: ErrorDetails) -> str:
    """What a value should be, in the words of the file instead of pydantic's."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return PATTERNS.get(str(context.get("pattern")), "has characters that are not allowed")
    if kind in ("model_type", "mapping_type", "dict_type"):
        return "should be a table" + _table_shape(detail)
    if kind.startswith(("date_", "datetime_")):
        return "should be a date or a local time, such as 2026-09-14 or 2026-09-14T12:00:00"
    return re.sub("^(Input|String|Value|List) should", "should", detail["msg"])


def _shown(value: object) -> str:
    text = str(value) if isinstance(value, date | time) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _table_shape(detail: ErrorDetails) -> str:
    shapes = {
        "Toward": " such as { toward = 1.0 }",
        "AbsoluteMargin": " such as { absolute = 0.5 }",
    }
    return shapes.get(str(detail.get("ctx", {}).get("class_name")), "")


def _known_keys(path: Path) -> list[str]:
    """The keys that the part of the file around `path` may have."""
    models = [Experiment]
    for part in path[:-1]:
        inner = [m.model_fields[part].annotation for m in models if part in m.model_fields]
        models = [model for annotation in inner for model in _models(annotation)] or models
    return [name for model in models for name in model.model_fields if name != "folder"]


def _models(annotation: object) -> list[type[Any]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
