"""Describe mistakes in an experiment file: what, where, and what was meant."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from abeval.errors import LogError, translate_message
from abeval.experiment.model import Experiment
from abeval.experiment.sections import PATTERNS, Variant

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """A mistake at a path of the file."""

    path: Path
    message: str

    def __str__(self) -> str:
        """Return `path: message`."""
        parts = (f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path)
        return f"{''.join(parts).removeprefix('.')}: {self.message}"


def suggest_name(name: object, choices: Iterable[str]) -> str:
    """Suggest a near name, or list the known ones if they are few."""
    names = list(choices)
    near = suggest_near_name(name, names)
    if near or not 0 < len(names) <= 16:
        return near
    return f"; known: {', '.join(names)}"


def suggest_near_name(name: object, choices: Iterable[str]) -> str:
    """Suggest a near name, ignoring case; empty if none is near."""
    by_lower = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean `{by_lower[near[0]]}`?" if near else ""


_NO_UTF8 = " has bytes that are no UTF-8: rename it"


def list_problems(error: ValidationError, raw: Mapping[str, Any]) -> list[Problem]:
    """Turn pydantic's errors into problems, one for each value."""
    by_path: dict[Path, list[str]] = {}
    for detail in error.errors():
        # A union reports each of its members: their messages are joined by `or`.
        path = _find_path(raw, detail)
        by_path.setdefault(path, []).append(_describe_problem(detail, path))
    return [
        # A name of bytes that are no text is also no list and no table.
        Problem(path, next((t for t in texts if _NO_UTF8 in t), " or ".join(dict.fromkeys(texts))))
        for path, texts in by_path.items()
    ]


def drop_paths(entries: Any, paths: Sequence[Path]) -> Any:  # noqa: ANN401 (a tree of entries)
    """Copy entries, dropping those at `paths`."""
    if not isinstance(entries, Mapping | list):
        return entries
    items = entries.items() if isinstance(entries, Mapping) else enumerate(entries)
    kept = {
        key: drop_paths(value, [path[1:] for path in paths if path[:1] == (key,)])
        for key, value in items
        if (key,) not in paths
    }
    return kept if isinstance(entries, Mapping) else list(kept.values())


def _find_path(raw: Mapping[str, Any], detail: ErrorDetails) -> Path:
    """Find the path of an error in the file."""
    here: Any = raw
    path: list[str | int] = []
    for part in detail["loc"]:
        # pydantic adds the names of union members, which are not in the file.
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


def _describe_problem(detail: ErrorDetails, path: Path) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return f"unknown key `{path[-1]}`{suggest_name(path[-1], _list_keys(path[:-1]))}"
    if kind == "missing":
        return "missing"
    if kind == "string_unicode":
        return f"{value!r}{_NO_UTF8}"
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    choices = re.findall(r"'([^']*)'", detail["msg"]) if kind == "literal_error" else ()
    got = f"{_shorten_value(value)}{suggest_near_name(value, choices)}"
    return f"{_describe_expectation(detail)} (got {got})"


_SHAPES = {
    "AbsoluteMargin": " such as { absolute = 0.5 }",
    "Range": " such as { within = [0.9, 1.1] }",
}


def _describe_expectation(detail: ErrorDetails) -> str:
    """Describe what a value should be, in words of the file."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return PATTERNS.get(str(context.get("pattern")), "has characters that are not allowed")
    if kind in ("model_type", "mapping_type", "dict_type"):
        return "should be a table" + _SHAPES.get(str(context.get("class_name")), "")
    if kind.startswith(("date_", "datetime_")):
        return "should be a date or a local time, such as 2026-09-14 or 2026-09-14T12:00:00"
    return translate_message(detail["msg"])


def _shorten_value(value: object) -> str:
    text = str(value) if isinstance(value, date | time) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _list_keys(path: Iterable[str | int]) -> list[str]:
    """List the keys that a section of the file may have."""
    models = [Experiment]
    for part in path:
        inner = [m.model_fields[part].annotation for m in models if part in m.model_fields]
        models = [model for annotation in inner for model in _list_models(annotation)] or models
    return [n for model in models for n, field in model.model_fields.items() if not field.exclude]


def _list_models(annotation: object) -> list[type[Any]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _list_models(part)]


def normalize_name(name: str) -> str:
    """Normalize a name: lower case, no surrounding spaces."""
    return name.strip().casefold()


def group_spellings(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Group names that are spellings of one name; the order is kept.

    Example:
        >>> group_spellings(["control", "new", "Control", "control "])
        [('control', 'Control', 'control ')]
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(normalize_name(name), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def check_spelled_once(what: str, units: Mapping[str, int], remedy: str) -> None:
    """Refuse variants that are written in several spellings.

    The message says `what` holds the names, and how to join them: `{}` in `remedy` is the line.
    """
    for names in group_spellings(sorted(units, key=lambda name: -units[name])):
        spellings = ", ".join(f"{name!r} ({units[name]:,})" for name in names)
        raise LogError(
            f"{what} has {spellings}, which differ only in capitals or spaces",
            f"if they are one variant, {remedy.format(write_join_line(names[0], names))}; if they "
            "are not, rename one",
        )


def list_arms(variants: Mapping[str, Variant]) -> dict[str, list[str]]:
    """List the arms of the log that each variant joins; by default its own name."""
    return {name: list(variant.of or [name]) for name, variant in variants.items()}


NOT_JOINED = " (not joined)"
"""Ends the name of an arm that has a variant's name but is not joined by it."""


def find_meant_variant(name: str, variants: Mapping[str, Variant]) -> str | None:
    """Find the variant that a name is another spelling of; None if there is none."""
    arms = list_arms(variants).items()
    spelled = {normalize_name(arm): variant for variant, names in arms for arm in names}
    return spelled.get(normalize_name(name))


def write_join_line(variant: str, arms: Iterable[str]) -> str:
    """Write the line of a file that lets a variant join arms of the log.

    Example:
        >>> write_join_line("control", ["control", "Control "])
        '[variants.control] of = ["control", "Control "]'
    """
    key = variant if re.fullmatch(r"[A-Za-z0-9_-]+", variant) else json.dumps(variant)
    arm_list = ", ".join(json.dumps(arm, ensure_ascii=False) for arm in arms)
    return f"[variants.{key}] of = [{arm_list}]"
