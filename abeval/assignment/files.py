"""Plans and assignments from the options of the command line and from CSV files.

`cli/assign.py` and `cli/audit.py` hand it what they were called with.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from abeval.assignment.plan import Assignment, Holdout, Layer, Plan
from abeval.errors import ExperimentError, LogError

if TYPE_CHECKING:
    import pandas as pd


def read_plan(
    split: Assignment,
    traffic: float,
    layer: str | None,
    holdout: str | None,
    overrides: Path | None,
    sticky: Path | None,
) -> Plan:
    """The plan that the options of `abeval assign` describe.

    Raises:
        ExperimentError: An option is not written as it should be.
        LogError: A file cannot be read.
    """
    return Plan(
        split,
        traffic,
        None if layer is None else _layer(layer),
        None if holdout is None else _holdout(holdout),
        _table(overrides),
        _table(sticky),
    )


def _table(file: Path | None) -> dict[str, str]:
    if file is None:
        return {}
    return {str(unit): variant for unit, variant in read_assignment(file).items()}


def _layer(text: str) -> tuple[Layer, str]:
    salt, _, slots = text.rpartition(":")
    start, _, stop = slots.partition("-")
    if not (salt and start.isdecimal() and stop.isdecimal()):
        raise ExperimentError(
            f"--layer {text!r} is not SALT:START-STOP", hint="write --layer ranker:0-300000"
        )
    return Layer(salt, {"this": (int(start), int(stop))}), "this"


def _holdout(text: str) -> Holdout:
    salt, _, share = text.rpartition(":")
    try:
        return Holdout(salt, float(share))
    except ValueError:
        hint = "write --holdout holdout.2026:0.05"
        raise ExperimentError(f"--holdout {text!r} is not SALT:SHARE", hint=hint) from None


def read_assignment(file: Path) -> pd.Series[str]:
    """The variant of each unit, by unit id: the first two columns of a CSV file.

    Raises:
        LogError: The file cannot be read, has fewer columns, or names a unit twice.
    """
    import pandas as pd

    try:
        rows = pd.read_csv(file, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise LogError(f"{file} cannot be read: {error}", "give a CSV file in UTF-8") from error
    if rows.shape[1] < 2:
        raise LogError(f"{file} has fewer than two columns", "give unit and variant, with a header")
    units, variants = rows.iloc[:, 0], rows.iloc[:, 1]
    if units.duplicated().any():
        raise LogError(
            f"{file} names a unit twice, such as {units[units.duplicated()].iloc[0]!r}",
            "keep one row a unit",
        )
    return pd.Series(variants.to_numpy(dtype=object), units.to_numpy(dtype=object))
