"""Which days are closed, whether they can be carried on, and what a state file must be."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from abeval.store import state as states
from abeval.store.definition import Definition
from abeval.store.manifest import Entry, Input
from abeval.store.state import (
    State,
    analysis_digest,
    day_to_close,
    read_state,
    why_unusable,
    write_state,
)
from tests.store.test_refresh import experiment

CELLS = b"cells"
STATE = State(
    definition="analysis",
    last_day="2024-03-04",
    parts=("part-3", "part-4", "part-5"),
    closed_parts=("part-3", "part-4"),
    file="closed-0.parquet",
    sha256=hashlib.sha256(CELLS).hexdigest(),
    moments=(("ctr", "day", "2024-03-04", "a", 0, 3, "7"),),
    days=(("2024-03-04", 3, 1, 9, 100, None),),
)


def part(name: str, *days: int, has_others: bool = False) -> Entry:
    """A part with rows of these days of March."""
    dates = tuple(f"2024-03-{day:02}" for day in days)
    return Entry(Input(9, 7, name), "d", ("c",), f"part-{name}", "s", dates, has_others, 5)


CLOSED = [part("3", 3), part("4", 3, 4)]


@pytest.mark.parametrize(
    ("of", "is_open"),
    [
        (part("4", 3, 4), False),
        (part("4", 3, 4, 5), True),
        (part("4"), False),
        (part("6"), True),
        (part("6", 5), True),
    ],
)
def test_a_part_is_open_if_it_is_new_or_has_a_later_day(of: Entry, is_open: bool) -> None:
    assert STATE.is_open(of) == is_open


def test_closed_days_go_on_with_the_same_parts_and_later_ones() -> None:
    assert why_unusable(STATE, CLOSED, "analysis") is None
    later = [part("5", 5, 6), part("6", has_others=True), part("7", 6)]
    assert why_unusable(STATE, [*CLOSED, *later], "analysis") is None


@pytest.mark.parametrize(
    ("parts", "analysis", "why"),
    [
        (CLOSED, "another", "the analysis has changed"),
        ([*CLOSED, CLOSED[0]], "analysis", "two files have the same sums"),
        (CLOSED[:1], "analysis", "files of closed days changed or are gone"),
        ([*CLOSED, part("6", 4)], "analysis", "new files have rows of 2024-03-04, a closed day"),
        ([*CLOSED, part("6", 2, 9)], "analysis", "have rows of 2024-03-02, a closed day"),
        ([*CLOSED, part("6", 3), part("7", 2)], "analysis", "have rows of 2024-03-02"),
    ],
)
def test_closed_days_end_with_what_they_were_made_of(
    parts: list[Entry], analysis: str, why: str
) -> None:
    assert why in str(why_unusable(STATE, parts, analysis))


def close(
    *parts: Entry, previous: str = "", state: State | None = None, rewritten: bool = False
) -> str | None:
    """The day of March up to which days are closed; `previous` are the names of parts."""
    known = [f"part-{name}" for name in previous]
    last = day_to_close(parts, known, state, rewritten)
    return None if last is None else last.removeprefix("2024-03-")


def test_files_of_days_of_their_own_are_all_closed() -> None:
    assert close(part("5", 5), part("3", 3, 4)) == "05"
    assert close(part("3", 3), part("x", has_others=True)) == "03"
    assert close(part("3", 3), part("4", 4), state=STATE, previous="34") == "04"


def test_nothing_is_closed_without_a_day_or_with_two_files_alike() -> None:
    assert close() is None
    assert close(part("x", has_others=True)) is None
    assert close(part("3", 3), part("3", 3)) is None


def test_the_days_of_the_newest_files_stay_open_where_files_share_days() -> None:
    shared = (part("3", 3, 4), part("4", 4, 5))
    assert close(*shared, part("6", 6, 8), part("7", 7), previous="34") == "05"
    assert close(*shared, part("6", 5, 6), previous="34") == "04"
    assert close(part("5", 3, 5), part("6", 3), previous="5") is None
    assert close(part("5", 4, 6), part("6", 5, 6), previous="5") == "04"
    assert close(part("5", 5, 6), part("6", 5), previous="5") is None


def test_of_files_that_are_all_new_the_one_with_the_latest_day_is_the_newest() -> None:
    assert close(part("4", 4, 7, 8), part("3", 3, 4, 9), part("1", 1)) == "02"
    assert close(part("3", 3, 4, 6), part("6", 6, 7), part("2", 2, 3)) == "05"


def test_of_files_that_are_all_known_the_one_with_the_latest_day_is_the_newest() -> None:
    assert close(part("3", 3, 4), part("5", 4, 5), previous="35") == "03"


def test_days_that_are_rewritten_stay_open() -> None:
    days = (part("3", 3), part("4", 4), part("5", 5))
    assert close(*days, previous="34", rewritten=True) == "04"
    assert close(*days, previous="34", rewritten=False) == "05"


def test_closed_days_are_not_opened_again() -> None:
    shared = (part("3", 3, 4), part("4", 4, 5))
    assert close(*shared, previous="34", state=STATE) == "04"
    assert close(*shared, part("9", 9), previous="34", state=STATE) == "08"
    assert close(*shared, part("9", 3), previous="34", state=STATE) == "04"
    # A file without days is none of the newest.
    assert close(*shared, part("9"), previous="34", state=STATE) == "04"


def test_a_state_comes_back_as_it_was_written(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    (tmp_path / STATE.file).write_bytes(CELLS)
    write_state(tmp_path, STATE)
    assert read_state(tmp_path) == STATE
    text = (tmp_path / "state.json").read_text()
    for other in (text.replace("-04", "-05"), text.replace("\n", ""), f"{text}\n", ""):
        (tmp_path / "state.json").write_text(other)
        assert read_state(tmp_path) is None
    write_state(tmp_path, replace(STATE, sha256="0" * 64))
    assert read_state(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("units/unit_day", True),
        ("metric/moments", True),
        ("store/closed_cells", True),
        ("offline/units", False),
        ("time/unit_hour", False),
    ],
)
def test_the_queries_of_an_analysis_are_in_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, counts: bool
) -> None:
    plan = experiment(tmp_path).experiment
    names = ("units/unit_day", "metric/moments", "store/closed_cells", "offline/units", name)
    texts = dict.fromkeys(names, "select 1")
    monkeypatch.setattr(states, "query_names", lambda: tuple(sorted(texts)))
    monkeypatch.setattr(states, "query", texts.__getitem__)
    before = analysis_digest(plan, Definition("rows", ()))
    assert analysis_digest(plan, Definition("rows", ())) == before
    assert analysis_digest(plan, Definition("other", ())) != before
    texts[name] = "select 2"
    assert (analysis_digest(plan, Definition("rows", ())) != before) == counts


def test_the_digest_of_an_analysis_is_that_of_the_stores_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every store would add up all of its days again."""
    monkeypatch.setattr(states, "query_names", lambda: ("units/unit_day",))
    monkeypatch.setattr(states, "query", lambda _: "select 1")
    monkeypatch.setattr(states, "definition", lambda _: {"name": "daily"})
    monkeypatch.setattr(states, "__version__", "1.0")
    digest = analysis_digest(experiment(tmp_path).experiment, Definition("rows", ("sum",)))
    assert digest == "47426298a0f7599f2e071ef0c2ac14b938f3a95db7f19824faea4db4d0859519"
