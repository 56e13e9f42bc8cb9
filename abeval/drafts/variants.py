"""Judge the values of a variant column: control, names such as NULL, and split."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from abeval.drafts import words
from abeval.experiment.problems import normalize_name
from abeval.stats import srm

_LETTERS = ("a", "0")
"""Names of a control only if no other variant has a usual name."""

_NEAR = 0.1
"""Relative deviation up to which shares of units are taken for equal."""

_UNEQUAL = 1e-3
"""P-value below which units refute an equal split: one question in 1,000 splits."""


class VariantUnits(NamedTuple):
    """The values of the variant column with their units, and the control.

    `nulls` are values such as NULL; they are no variants until a person says so.
    """

    units: Mapping[str, int]
    control: str
    is_sure: bool
    nulls: Mapping[str, int]


def names_control(value: str, surely: bool = False) -> bool:
    """Tell whether a value names a control; `surely` excludes ambiguous names."""
    # pandas writes 0 beside nulls as 0.0.
    value = value.removesuffix(".0")
    parts = words.split(value)
    ends = {"".join(parts), *parts[:1], *parts[-1:]}
    is_negative = len(parts) > 1 and words.is_role_name(parts[0], "negative")
    is_sure = bool(ends & words.LISTS["control_sure"].keys())
    return is_sure or (not surely and (words.is_role_name(value, "control") or is_negative))


def make_variant_units(units: Mapping[str, int]) -> VariantUnits:
    """Make the variants with their units, and guess the control."""
    nulls = {value: units[value] for value in find_nulls(units)}
    units = {value: count for value, count in units.items() if value not in nulls}
    likely = list_likely_controls(units)
    return VariantUnits(units, min(likely or units), len(likely) == 1, nulls)


def list_likely_controls(variants: Iterable[str]) -> list[str]:
    """List the variants with a usual name of a control; sure names alone, if any.

    Words that all variants share say nothing.

    >>> list_likely_controls(["a", "old"]), list_likely_controls(["ranker_new", "ranker_old"])
    (['old'], ['ranker_old'])
    """
    values = [*variants]
    common = set.intersection(*({*words.split(value)} for value in values)) if values else set()
    bare = {v: "_".join(w for w in words.split(v) if w not in common) or v for v in values}
    usual = [v for v in values if names_control(v) or names_control(bare[v])]
    usual = [value for value in usual if names_control(value, surely=True)] or usual
    return [value for value in usual if normalize_name(bare[value]) not in _LETTERS] or usual


def refutes_equal_split(units: Mapping[str, int]) -> bool:
    """Tell whether units are far from an equal split, and by more than chance.

    >>> refutes_equal_split({"a": 55, "b": 45}), refutes_equal_split({"a": 900, "b": 100})
    (False, True)
    """
    equal = sum(units.values()) / len(units)
    # A nearly equal split was meant to be equal: missing units are a matter for `srm`.
    if all(abs(count - equal) <= _NEAR * equal for count in units.values()):
        return False
    return srm.check_stratum([*units.values()], [1] * len(units)).p_value < _UNEQUAL


def ask_weights(units: Mapping[str, int], equal: str) -> list[str]:
    """Ask for the planned split, if units refute an equal one."""
    # The counts are shown, but not offered as an answer: they would pass any test.
    counts = ", ".join(f"{name} {count:,}" for name, count in units.items())
    question = (
        f"weights: was an equal split planned? The units refute it ({counts}). Write the "
        f"planned shares, not those that came: {equal} if equal"
    )
    return [question] if refutes_equal_split(units) else []


def ask_nulls(nulls: Mapping[str, int], answer: str) -> list[str]:
    """Ask whether names such as NULL are variants."""
    names = ", ".join(map(repr, nulls))
    question = (
        f"variants: is {names} a variant ({sum(nulls.values()):,} rows), or a missing one? "
        f"It is left out; {answer}"
    )
    return [question] if nulls else []


def find_nulls(units: Collection[str]) -> list[str]:
    """List the variants whose names are empty or may mean a missing value.

    Names that may mean a missing value are listed only if two other variants remain.

    >>> find_nulls(["control", "new", "NULL"]), find_nulls(["None", "sms", "mail"])
    (['NULL'], [])
    """
    nulls = [value for value in units if value.strip().lower() in words.LISTS["null"]]
    blanks = [value for value in units if not value.strip()]
    other_values = [value for value in units if value not in (*nulls, *blanks)]
    if not any(map(names_control, other_values)):
        nulls = [value for value in nulls if not names_control(value)]
    # No variant can be called by no text.
    return [*blanks, *(nulls if len(other_values) > 1 else [])]
