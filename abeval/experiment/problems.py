"""One mistake of an experiment file: where, what, and what was probably meant."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from abeval.experiment.model import Experiment

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """A mistake at a path of the file."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{_dotted(self.path)}: {self.message}"


def _dotted(path: Path) -> str:
    parts = (f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)
    return "".join(parts).removeprefix(".")


def suggestion(given: object, known: Iterable[str]) -> str:
    """` (did you mean ...?)` for a near miss; the known names where there are few; or nothing."""
    names = list(known)
    near = difflib.get_close_matches(str(given), names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean `{near[0]}`?"
    return f"; known: {', '.join(names)}" if 0 < len(names) <= 12 else ""


def problems_of(error: ValidationError, raw: Mapping[str, Any]) -> list[Problem]:
    """Pydantic's errors as problems, those of one value joined by `or`."""
    by_path: dict[Path, list[str]] = {}
    for detail in error.errors():
        path = _path_in(raw, detail)
        by_path.setdefault(path, []).append(_text(detail, path))
    return [Problem(path, _joined(texts)) for path, texts in by_path.items()]


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
    """The error's place in the file: pydantic adds the union members it tried, which are not."""
    here: Any = raw
    path: list[str | int] = []
    for part in detail["loc"]:
        if isinstance(here, Mapping) and part in here:
            here = here[part]
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        elif detail["type"] == "missing" and part == detail["loc"][-1]:
            return (*path, part)
        else:
            continue
        path.append(part)
    return tuple(path)


def _text(detail: ErrorDetails, path: Path) -> str:
    kind, given = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return f"unknown key `{path[-1]}`{suggestion(path[-1], _known_keys(path))}"
    if kind == "missing":
        return "missing"
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    message = detail["msg"].replace("Input should", "should")
    if kind == "literal_error":
        options = re.findall(r"'([^']*)'", detail["msg"])
        near = difflib.get_close_matches(str(given), options, n=1)
        return f"{message} (got {given!r}{f'; did you mean `{near[0]}`?' if near else ''})"
    if kind == "model_type":
        message = "should be a table" + _table_shape(detail)
    return f"{message} (got {given!r})"


def _table_shape(detail: ErrorDetails) -> str:
    shapes = {"Toward": " such as { toward = 1.0 }", "AbsoluteMargin": " such as { absolute = 0.5 }"}
    return shapes.get(str(detail.get("ctx", {}).get("class_name")), "")


def _joined(texts: list[str]) -> str:
    return " or ".join(dict.fromkeys(texts))


def _known_keys(path: Path) -> list[str]:
    """The keys that the part of the file around `path` may have."""
    models = [Experiment]
    for part in path[:-1]:
        inner = [m.model_fields[part].annotation for m in models if part in m.model_fields]
        models = [found for annotation in inner for found in _models(annotation)] or models
    return [name for model in models for name in model.model_fields if name != "folder"]


def _models(annotation: object) -> list[type[Any]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for arg in get_args(annotation) for found in _models(arg)]
