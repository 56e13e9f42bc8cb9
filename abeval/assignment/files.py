"""Reads assignments of other experiments from CSV files.

`cli/audit.py` hands it the options of the command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from abeval.errors import ExperimentError, LogError


def read_assignments(options: Iterable[str]) -> dict[str, pd.Series[str]]:
    """`NAME=FILE` each: name → variant of each unit, by unit id.

    Raises:
        ExperimentError: An option is not NAME=FILE, or a name is there twice.
        LogError: A file cannot be read, or a unit is in it twice.
    """
    assignments: dict[str, pd.Series[str]] = {}
    for option in options:
        name, _, file = option.partition("=")
        if not name or not file or name in assignments:
            raise ExperimentError(
                f"--against {option!r} is not NAME=FILE, or its name is there twice",
                hint="write --against other_experiment=units.csv",
            )
        assignments[name] = read_assignment(Path(file))
    return assignments


def read_assignment(file: Path) -> pd.Series[str]:
    """The variant of each unit, by unit id: the first two columns of a CSV file.

    Raises:
        LogError: The file cannot be read, has fewer columns, or names a unit twice.
    """
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
