"""Names of variants that differ only in capitals or in spaces around them, such as `Control `.

`table/read.py` and `drafts/` look for them among the values of a column, `aggregates/collect.py`
among the variants that an experiment file does not name; `inference/trust/spelling.py` reports
those.
"""

import json
import re
from collections.abc import Iterable, Mapping

from abeval.errors import LogError
from abeval.experiment.sections import Variant


def folded(name: str) -> str:
    """A name without capitals and the spaces around it.

    Example:
        >>> folded(" Control") == folded("control")
        True
    """
    return name.strip().casefold()


def spelled_alike(names: Iterable[str]) -> list[tuple[str, ...]]:
    """The names of which others are spellings, together, each group in the order of the names.

    Example:
        >>> spelled_alike(["control", "new", "Control", "control "])
        [('control', 'Control', 'control ')]
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(folded(name), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def check_spelled_once(what: str, units: Mapping[str, int], remedy: str) -> None:
    """Refuse variants in several spellings: the units of one would be in several.

    Args:
        what: What holds the names, for the message.
        units: Variant → its units.
        remedy: How to join them, with `{}` for the line of an experiment file.

    Raises:
        LogError: Two names differ only in capitals or in spaces around them.
    """
    for names in spelled_alike(sorted(units, key=lambda name: -units[name])):
        listed = ", ".join(f"{name!r} ({units[name]:,})" for name in names)
        raise LogError(
            f"{what} has {listed}, which differ only in capitals or spaces",
            f"if they are one variant, {remedy.format(joined_line(names[0], names))}; if they are "
            "not, rename one",
        )


def arms_of(variants: Mapping[str, Variant]) -> dict[str, list[str]]:
    """Variant → the arms of the log that it joins; by itself it is one of its own name."""
    return {name: list(variant.of or [name]) for name, variant in variants.items()}


def meant_by(name: str, variants: Mapping[str, Variant]) -> str | None:
    """The variant of which a name that no variant has is another spelling; None if there is none.

    Example:
        >>> meant_by("Control", {"control": Variant(), "new": Variant()})
        'control'
    """
    known = {folded(arm): own for own, arms in arms_of(variants).items() for arm in arms}
    return known.get(folded(name))


def joined_line(variant: str, arms: Iterable[str]) -> str:
    """The lines of an experiment file by which a variant joins arms of the log.

    Example:
        >>> joined_line("control", ["control", "Control "])
        '[variants.control] of = ["control", "Control "]'
    """
    key = variant if re.fullmatch(r"[A-Za-z0-9_-]+", variant) else json.dumps(variant)
    listed = ", ".join(json.dumps(arm, ensure_ascii=False) for arm in arms)
    return f"[variants.{key}] of = [{listed}]"
