"""First files: a few pairs with odd names, and every form, drafted and analysed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.calibration.first_files import MOST_QUESTIONS, answer, measure_pair
from tests.worlds.first_files import FORMS, write_pair

pytestmark = pytest.mark.whole


@pytest.mark.parametrize("seed", [0, 9])
def test_odd_names_hide_no_key(seed: int, tmp_path: Path) -> None:
    outcome = answer(write_pair(seed, tmp_path), tmp_path)
    assert outcome.is_right, outcome.error
    assert outcome.questions <= MOST_QUESTIONS
    assert (outcome.false, outcome.guessed) == ([], False)


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_drafted_with_its_query(form: str, tmp_path: Path) -> None:
    outcome = answer(FORMS[form](1, tmp_path), tmp_path)
    assert outcome.is_right, outcome.error
    assert outcome.questions <= MOST_QUESTIONS
    assert (outcome.false, outcome.guessed) == ([], False)


def test_the_table_counts_a_wrong_ctr(tmp_path: Path) -> None:
    files = write_pair(9, tmp_path)
    wrong = files._replace(ctr={name: share + 0.01 for name, share in files.ctr.items()})
    assert not answer(wrong, tmp_path).is_right
    assert measure_pair(9, 1, 0)["right CTR with at most two answers"] == 1
