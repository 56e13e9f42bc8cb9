"""Which variant of a table is the control, and what their shares are meant to be."""

from collections.abc import Mapping, Sequence

from abeval.errors import ExperimentError
from abeval.experiment.problems import folded, suggestion

_CONTROLS = ("control", "a", "baseline", "base", "old", "placebo", "none", "off", "false", "0")
"""Usual names of a control, in lower case."""

_LETTERS = ("a", "0")
"""Names that are those of a control only where no other variant has a usual name."""

_NEAR = 0.1
"""Shares of units that differ less than this from equal ones are meant to be equal."""


def control_of(named: str | None, variants: Sequence[str]) -> str:
    """The variant that others are compared with: the named one, or one that is called so."""
    if named is not None:
        if named not in variants:
            hint = suggestion(named, variants)
            raise ExperimentError(f"control: no variant is called {named!r}{hint}")
        return named
    usual = [variant for variant in variants if is_usual_control(variant)]
    likely = [variant for variant in usual if folded(variant) not in _LETTERS] or usual
    if len(likely) > 1:
        listed = ", ".join(map(repr, likely))
        raise ExperimentError(
            f"control: {listed} are all usual names of a control",
            "name the one that the others are compared with: --control, or control=",
        )
    return (likely or list(variants))[0]


def is_usual_control(variant: str) -> bool:
    """Whether a variant is called as controls are.

    Example:
        >>> is_usual_control("Control"), is_usual_control("gate_30")
        (True, False)
    """
    return folded(variant) in _CONTROLS


def weights_of(
    named: Mapping[str, float] | None, counts: Mapping[str, int]
) -> tuple[Mapping[str, float], str]:
    """Variant → weight, and whether they were planned or are those of the table."""
    if named is not None:
        missing = sorted({*counts} ^ {*named})
        if missing:
            raise ExperimentError(f"weights: {missing[0]!r} is not in both weights and the table")
        return named, "planned"
    equal = sum(counts.values()) / len(counts)
    if all(abs(count - equal) <= _NEAR * equal for count in counts.values()):
        return dict.fromkeys(counts, 1.0), "planned"
    return counts, "observed"
