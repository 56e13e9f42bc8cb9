"""Noise that two metrics share because the same units are behind both: measured by parts of them.

`add.py` hands over results of one experiment on disjoint parts of its units, and stores the rows.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from abeval.errors import ExperimentError
from abeval.history.entries import Addable, rows_of
from abeval.history.measures import Case, cases_of, name_of
from abeval.results.history import HistoryRow

FEWEST_PARTS = 6
"""Parts below which a correlation says nothing."""


def shared_rows(results: Sequence[Addable]) -> tuple[HistoryRow, ...]:
    """The correlation of errors of metrics of one variant, from effects on parts of the units.

    All parts have the same true effects, so what two metrics have in common from part to part is
    noise; the correlation is the same on all units.

    Args:
        results: Of `analyze`, and of `replay` or `windows`, as many of each: the first of each kind
            is of the first part, and so on.

    Raises:
        ExperimentError: There are too few parts, or not as many of each kind.
    """
    read = [rows_of(result, None) for result in results]
    parts = {
        source: list(group)
        for source, group in groupby(sorted(filter(None, read), key=_source), key=_source)
    }
    counts = {source: len(group) for source, group in parts.items()}
    count = counts.get("analysis", 0)
    if count < FEWEST_PARTS or len({*counts.values()}) > 1 or len(counts) < 2:
        listed = ", ".join(f"{n} of {source}" for source, n in counts.items()) or "none"
        raise ExperimentError(
            f"shared noise needs results of {FEWEST_PARTS} parts or more, as many of each kind; "
            f"these are {listed}",
            "run analyze and replay on each part of the units, and name all their JSON files",
        )
    return _correlated(
        [[row for rows in part for row in rows] for part in zip(*parts.values(), strict=True)]
    )


def _source(rows: tuple[HistoryRow, ...]) -> str:
    return rows[0].source


def _correlated(parts: Sequence[Sequence[HistoryRow]]) -> tuple[HistoryRow, ...]:
    """One row for each measure that is known before, with its correlation with each online one."""
    effects: dict[tuple[Case, HistoryRow], dict[int, float]] = defaultdict(dict)
    for i, rows in enumerate(parts):
        for row, case in cases_of(rows):
            if row.effect is not None:
                effects[case, _key(row)][i] = row.effect
    known = {key: values for key, values in effects.items() if len(values) >= FEWEST_PARTS}
    noises = []
    for (case, row), values in known.items():
        if row.side in ("offline", "early"):
            others = {
                name_of(other): correlation
                for (its_case, other), theirs in known.items()
                if its_case == case and other.side in ("online", "late")
                if (correlation := _correlation(values, theirs)) is not None
            }
            noises.append(replace(row, source="noise", shared=tuple(others.items())))
    return tuple(noises)


def _key(row: HistoryRow) -> HistoryRow:
    """A row without its numbers, which are those of one part."""
    numbers = ("value_control", "value", "effect", "low", "high", "se", "p_value", "units_control")
    blank: dict[str, Any] = {
        **dict.fromkeys(numbers),
        "units": 0,
        "digest": "",
        "reason": None,
        "decision": None,
    }
    return replace(row, **blank, trusted=True, shipped=False)


def _correlation(one: dict[int, float], other: dict[int, float]) -> float | None:
    both = sorted(one.keys() & other.keys())
    x, y = np.array([one[i] for i in both]), np.array([other[i] for i in both])
    if len(both) < FEWEST_PARTS or not np.ptp(x) or not np.ptp(y):
        return None
    return float(np.clip(np.corrcoef(x, y)[0, 1], -0.99, 0.99))
