"""What a refresh says it did."""

from __future__ import annotations

from typing import Any

import pytest

from abeval.store.refresh import Refresh
from tests.store.test_state import STATE, part


def notes(**changes: Any) -> tuple[str, ...]:
    base: dict[str, Any] = {
        "read": {},
        "kept": (),
        "vanished": (),
        "broken": (),
        "trouble": None,
        "entries": {},
        "state": None,
        "previous": (),
        "anew": None,
        "rewritten": False,
    }
    return Refresh(**{**base, **changes}).notes()


@pytest.mark.parametrize(
    ("read", "kept", "said"),
    [
        ({}, ("a", "b"), "0 of 2 files of the impressions were read, 2 were kept."),
        ({"a": ("2024-03-02",)}, (), "1 of 1 files of the impressions were read (days 2024-03-02)"),
        ({"a": ()}, ("b",), "1 of 2 files of the impressions were read, 1 were kept."),
        (
            {"a": ("2024-03-04", "2024-03-05"), "b": ("2024-03-02", "2024-03-03")},
            ("c",),
            "2 of 3 files of the impressions were read (days 2024-03-02 to 2024-03-05), 1 were",
        ),
    ],
)
def test_files_are_counted_with_the_days_that_were_read(
    read: dict[str, tuple[str, ...]], kept: tuple[str, ...], said: str
) -> None:
    (note,) = notes(read=read, kept=kept)
    assert note.startswith(f"Aggregate store: {said}")


@pytest.mark.parametrize("name", ["vanished", "broken"])
def test_five_files_are_named_and_more_are_counted(name: str) -> None:
    def end(count: int) -> str:
        files = tuple(f"log/{letter}.parquet" for letter in "abcdefgh"[:count])
        return notes(**{name: files})[-1].partition(": ")[2]

    five = "a.parquet, b.parquet, c.parquet, d.parquet, e.parquet"
    assert end(1) == "a.parquet."
    assert end(5) == f"{five}."
    assert end(6) == f"{five} and 1 more."
    assert end(8) == f"{five} and 3 more."


def test_closed_days_are_told_from_those_that_were_added_up() -> None:
    entries = {name: part(name, *days) for name, days in (("3", (2, 3)), ("4", (3, 4)))}
    assert notes(state=STATE, entries=entries)[-1] == (
        "State of units: 3 closed days were reused, 0 added up."
    )
    entries |= {"5": part("5", 4, 5), "6": part("6", 6)}
    assert notes(state=STATE, entries=entries)[-1] == (
        "State of units: 3 closed days were reused, 2 added up (2024-03-05 to 2024-03-06)."
    )


def test_a_reason_to_compute_anew_is_said() -> None:
    assert notes(trouble="it is old")[-1] == "The store was recomputed: it is old."
    said = "State of units: all days were added up again, because it has changed."
    assert notes(anew="it has changed")[-1] == said
