"""Parts of the page from outside the package, declared as the built-in ones are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import abeval
from abeval.errors import AbevalError
from abeval.report import parts
from abeval.report.figures import Block
from abeval.report.page import render_study
from abeval.report.parts import load_parts
from abeval.report.tables import table
from abeval.results.study import build_study
from tests import builders
from tests.report.pages import parse, whole, words


@pytest.fixture(autouse=True)
def built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget after a test what it declared."""
    load_parts()
    monkeypatch.setattr(parts, "_PARTS", dict(parts._PARTS))


def list_ids(study: abeval.Study, view: str) -> list[str]:
    sections = parse(whole(render_study(study))).all("section")
    return [
        section.attributes["id"]
        for section in sections
        if any(outer.attributes.get("id") == view for outer in section.inside)
    ]


def test_a_part_stands_after_the_one_it_names_with_its_words_and_blocks() -> None:
    @abeval.page_part(
        "revenue",
        view="explore",
        title="Revenue by metric",
        short="Revenue",
        result="analysis",
        after="heat",
        gated=True,
        lead="Intervals are {level}.",
    )
    def build_revenue(result: abeval.Result) -> Iterator[Block]:
        yield "A <b> in a sentence."
        yield table("Rows", "by metric.", result.scorecard, "metric", "variant")

    study = build_study(builders.ship())
    ids = list_ids(study, "explore")
    assert ids[ids.index("heat") + 1] == "revenue"
    parsed = parse(whole(render_study(study)))
    own = [e for e in parsed.elements if any(o.attributes.get("id") == "revenue" for o in e.inside)]
    assert [words(e) for e in own if e.tag in ("h2", "p")] == [
        *("Revenue by metric", "Intervals are 95%.", "A <b> in a sentence.", "By metric.")
    ]
    assert "ctr" in [words(e) for e in own if e.tag == "th"]
    untrusted = parse(whole(render_study(build_study(builders.untrusted()))))
    (cell, *_) = (
        e
        for e in untrusted.all("table")
        if any(o.attributes.get("id") == "revenue" for o in e.inside)
    )
    assert any(outer.attributes.get("class") == "untrusted" for outer in cell.inside)


def test_a_part_without_a_place_is_the_last_one_and_one_without_blocks_is_none() -> None:
    @abeval.page_part("first", view="evidence", title="First")
    def build_first(study: abeval.Study) -> list[str]:
        return [study.name]

    @abeval.page_part("second", view="evidence", title="Second")
    def build_second(study: abeval.Study) -> list[str]:
        return ["Second."]

    @abeval.page_part("empty", view="evidence", title="Empty")
    def build_empty(study: abeval.Study) -> list[str]:
        return []

    @abeval.page_part("top", view="evidence", title="Top", after="")
    def build_top(study: abeval.Study) -> list[str]:
        return ["Top."]

    ids = list_ids(build_study(builders.ship()), "evidence")
    assert ids[-3:] == ["methods", "first", "second"]
    assert ids[0] == "top"
    assert "empty" not in ids


def test_a_cell_that_runs_again_replaces_its_part_and_another_function_may_not() -> None:
    for text in ("Before.", "After."):

        @abeval.page_part("note", view="evidence", title="Note")
        def build_note(study: abeval.Study, text: str = text) -> list[str]:
            return [text]

    page = whole(render_study(build_study(builders.ship())))
    assert "After." in page
    assert "Before." not in page
    with pytest.raises(AbevalError, match="has a part 'heat' already"):

        @abeval.page_part("heat", view="explore", title="Heat")
        def build_heat(study: abeval.Study) -> list[str]:
            return []


def test_an_id_that_is_no_word_and_a_place_that_there_is_not_are_refused() -> None:
    with pytest.raises(AbevalError, match="'My part' cannot be the id"):
        abeval.page_part("My part", view="explore")
    with pytest.raises(AbevalError, match="'note' is on 'evidenc', which is no view"):
        abeval.page_part("note", view="evidenc")  # type: ignore[arg-type]

    @abeval.page_part("lost", view="explore", title="Lost", after="heta")
    def build_lost(study: abeval.Study) -> list[str]:
        return ["Lost."]

    with pytest.raises(AbevalError, match="'lost' follows 'heta'"):
        render_study(build_study(builders.ship()))


def test_a_built_in_part_keeps_its_id_even_before_the_first_page() -> None:
    code = (
        "import abeval\n"
        "try:\n"
        "    abeval.page_part('heat', view='explore', title='Heat')(lambda study: [])\n"
        "except abeval.AbevalError as error:\n"
        "    print(error)"
    )
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert "already: abeval.report.analysis_page._build_heat_part" in ran.stdout


MODULE = """
import abeval

@abeval.page_part("owner", view="evidence", title="Who owns it", after="quality")
def build_owner(study):
    return ["The search team."]
"""


def test_a_package_adds_its_parts_by_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "owner_of_tests.py").write_text(MODULE, encoding="utf-8")
    metadata = tmp_path / "owner_of_tests-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: owner-of-tests\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[abeval.parts]\nowner = owner_of_tests\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "owner_of_tests" not in sys.modules
    study = build_study(builders.ship())
    ids = list_ids(study, "evidence")
    assert ids[ids.index("quality") + 1] == "owner"
    assert "The search team." in whole(render_study(study))
    monkeypatch.delitem(sys.modules, "owner_of_tests")
    (tmp_path / "owner_of_tests.py").write_text("1 / 0\n" * 99, encoding="utf-8")
    with pytest.raises(AbevalError, match="owner_of_tests cannot be read: ZeroDivisionError"):
        render_study(study)
