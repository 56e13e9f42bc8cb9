"""Lists and truths as the field has them: dicts of dicts, TREC and LETOR files, other names."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import LogError
from abeval.offline.evaluate import Evaluation

NAMES = ["ndcg@3[lin]", "mrr", "map[R]", "recall@2"]
QRELS = {"q1": {"d1": 0, "d2": 2, "d9": 1}, "q2": {"d1": 3}, "q3": {"d4": 1}}
RUN = {
    "q1": {"d1": 0.9, "d2": 0.8, "d3": 0.1},
    "q2": {"d2": 3.0, "d1": 2.5, "d3": 2.0},
    "q3": {"d4": 1.5, "d5": 1.0},
}
EXPECTED = {
    # Gains 0, 2, 0 of q1 over 2, 1; 3 at place 2 of q2; the one item of q3 first.
    "ndcg@3[lin]": (2 / np.log2(3) / (2 + 1 / np.log2(3)) + 1 / np.log2(3) + 1) / 3,
    "mrr": (1 / 2 + 1 / 2 + 1) / 3,
    "map[R]": (1 / 4 + 1 / 2 + 1) / 3,
    "recall@2": (1 / 2 + 1 + 1) / 3,
}


def frame(nested: dict[str, dict[str, float]], *names: str) -> pd.DataFrame:
    rows = [(q, d, value) for q, items in nested.items() for d, value in items.items()]
    return pd.DataFrame(rows, columns=[*names])


def evaluated(runs: object, truth: object, **options: object) -> Evaluation:
    return abeval.evaluate(runs, truth, metrics=NAMES, **options)  # type: ignore[arg-type]


def write_trec(folder: Path) -> tuple[Path, Path]:
    run, qrels = folder / "bm25.run", folder / "qrels.txt"
    lines = [
        f"{q} Q0 {d} {place} {score} bm25"
        for q, items in RUN.items()
        for place, (d, score) in enumerate(items.items(), start=1)
    ]
    run.write_text("\n".join(lines) + "\n")
    pairs = ((q, d, grade) for q, items in QRELS.items() for d, grade in items.items())
    qrels.write_text("".join(f"{q}\t0\t{d}\t{grade}\n" for q, d, grade in pairs))
    return run, qrels


def test_dicts_of_dicts_are_the_run_of_one_model_or_of_several() -> None:
    assert evaluated(RUN, QRELS).values() == pytest.approx(EXPECTED, abs=1e-12)
    both = evaluated({"old": RUN, "new": RUN}, QRELS)
    assert [model.name for model in both.result.models] == ["old", "new"]
    assert both.values("new") == pytest.approx(EXPECTED, abs=1e-12)


def test_trec_files_are_what_dicts_are(tmp_path: Path) -> None:
    run, qrels = write_trec(tmp_path)
    found = evaluated(run, str(qrels))
    assert [model.name for model in found.result.models] == ["bm25"]
    assert found.values() == pytest.approx(EXPECTED, abs=1e-12)
    packed = tmp_path / "bm25.run.gz"
    packed.write_bytes(gzip.compress(run.read_bytes()))
    assert evaluated({"x": packed}, QRELS).values() == pytest.approx(EXPECTED, abs=1e-12)


@pytest.mark.parametrize(
    "names",
    [
        ("query_id", "doc_id", "score", "relevance"),
        ("qid", "docno", "score", "label"),
        ("q_id", "doc_id", "score", "rel"),
        ("user_id", "item_id", "score", "grade"),
    ],
)
def test_usual_names_of_columns_are_known_and_said(names: tuple[str, str, str, str]) -> None:
    query, item, score, grade = names
    found = evaluated(frame(RUN, query, item, score), frame(QRELS, query, item, grade))
    assert found.values() == pytest.approx(EXPECTED, abs=1e-12)
    assert any(f"request_id is `{query}`" in note for note in found.result.notes)


def test_other_names_are_told_by_columns() -> None:
    run, truth = frame(RUN, "search", "sku", "p"), frame(QRELS, "search", "sku", "gain")
    columns = {"request_id": "search", "item_id": "sku", "score": "p", "grade": "gain"}
    found = evaluated(run, truth, columns=columns)
    assert found.values() == pytest.approx(EXPECTED, abs=1e-12)
    with pytest.raises(LogError, match="truth: the frame has no column `request_id`") as caught:
        evaluated(run, truth)
    assert 'it has: search, sku, gain; say which it is: columns={"request_id": "…"}' in str(
        caught.value.hint
    )
    with pytest.raises(LogError, match="grade is said to be `gian`, which no frame has"):
        evaluated(run, truth, columns={**columns, "grade": "gian"})


def test_two_columns_that_may_be_one_are_asked() -> None:
    truth = frame(QRELS, "query_id", "doc_id", "rel")
    with pytest.raises(LogError, match="truth: `query_id` and `qid` may be request_id") as caught:
        evaluated(RUN, truth.assign(qid=truth.query_id))
    assert 'columns={"request_id": "query_id"}' in str(caught.value.hint)


@pytest.mark.parametrize("kind", ["int64", "float64", "int32"])
@pytest.mark.parametrize("is_run", [True, False])
def test_ids_of_two_types_are_compared_as_text_and_said(kind: str, is_run: bool) -> None:
    run, truth = frame(RUN, "request_id", "item_id", "score"), frame(QRELS, "qid", "docno", "rel")
    for one, column in ((run, "item_id"), (truth, "docno")):
        one[column] = one[column].str.removeprefix("d")
    if is_run:
        run = run.astype({"item_id": kind})
    else:
        truth = truth.astype({"docno": kind})
    found = evaluated({"new": run}, truth)
    assert found.values() == pytest.approx(EXPECTED, abs=1e-12)
    text, number = ("truth", "new") if is_run else ("new", "truth")
    (said,) = (note for note in found.result.notes if note.startswith("item_id is"))
    assert said.endswith("compared as text")
    assert f"text in {text}" in said
    assert f"numbers in {number}" in said


def test_ids_of_several_types_in_a_dict_become_text() -> None:
    mixed = {1: {"d1": 1.0, 2: 0.5}, "2": {"d1": 1.0}}
    found = evaluated(mixed, {"1": {"2": 1}, "2": {"d1": 1}})
    assert found.values()["mrr"] == pytest.approx((1 / 2 + 1) / 2)


LETOR = """\
0 qid:1 1:3 2:0.5 # doc = a
2 qid:1 1:2 2:0.9 # doc = b
1 qid:1 2:0.1

1 qid:2 1:1
0 qid:2 1:5 2:0.7
"""


@pytest.fixture
def letor(tmp_path: Path) -> Path:
    path = tmp_path / "test.letor"
    path.write_text(LETOR)
    (tmp_path / "scores.txt").write_text("3\n2\n0\n1\n5\n")
    return path


SCORES = [3.0, 2.0, 0.0, 1.0, 5.0]


@pytest.mark.parametrize(
    "run",
    [
        lambda folder: np.array(SCORES),
        lambda folder: SCORES,
        lambda folder: pd.Series(SCORES),
        lambda folder: 1,
        lambda folder: folder / "scores.txt",
    ],
    ids=["array", "list", "series", "feature", "file"],
)
def test_a_letor_file_is_judged_by_scores_of_its_lines(
    letor: Path, run: Callable[[Path], object]
) -> None:
    found = evaluated({"m": run(letor.parent)}, letor).values()
    # Of the first query the grades are 0, 2, 1 in order; of the second 0, 1.
    assert found["mrr"] == pytest.approx(1 / 2)
    assert found["ndcg@3[lin]"] == pytest.approx(
        ((2 / np.log2(3) + 1 / 2) / (2 + 1 / np.log2(3)) + 1 / np.log2(3)) / 2
    )


def test_a_feature_that_no_line_has_is_refused(letor: Path) -> None:
    with pytest.raises(LogError, match=r"no line of .*test\.letor has feature 9"):
        evaluated({"m": 9}, letor)


def test_what_is_no_list_is_named_by_its_model() -> None:
    with pytest.raises(LogError, match=r"^new: int is not a frame"):
        evaluated({"new": 5}, QRELS)
    with pytest.raises(LogError, match=r"^truth: None is not a frame"):
        evaluated(RUN, None)


def test_scores_of_other_lines_are_refused(letor: Path) -> None:
    with pytest.raises(LogError, match=r"m: 2 scores, but .*test\.letor has 5 lines"):
        evaluated({"m": [1.0, 2.0]}, letor)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("q1 Q0 d1 1 0.9\n", "line 1 has 5 columns, not 6"),
        (
            "q1 Q0 d1 1 0.9 x\nq1 Q0 d2 2 high x\n",
            "line 2: the score is 'high', which is no number",
        ),
        ("q1,d1,0.9\n", "line 1 has 1 columns, not 6"),
    ],
)
def test_a_line_that_is_none_of_a_run_is_named(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.run"
    path.write_text(text)
    with pytest.raises(LogError, match=said) as caught:
        evaluated(path, QRELS)
    assert "a TREC run has 6 columns a line" in str(caught.value.hint)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"nothing\.run cannot be read"):
        evaluated(tmp_path / "nothing.run", QRELS)


def test_a_truth_of_lists_is_told_what_to_give() -> None:
    with pytest.raises(LogError, match="truth: query 'q1' has list, not grades by item"):
        evaluated(RUN, {"q1": ["d1"]})


def test_the_letters_of_esci_are_refused_with_their_gains() -> None:
    truth = pd.DataFrame({"query_id": ["q1"], "product_id": ["d1"], "esci_label": ["E"]})
    with pytest.raises(LogError, match="truth: `esci_label` has 'E', which is no number") as caught:
        evaluated(RUN, truth)
    gains = "{'E': 1.0, 'S': 0.1, 'C': 0.01, 'I': 0.0}"
    assert f'frame["esci_label"].map({gains})' in str(caught.value.hint)
    with pytest.raises(LogError, match="truth: `grade` has 'E'"):
        evaluated(RUN, {"q1": {"d1": "E", "d2": "S"}})


def test_parts_and_cutoffs_read_columns_that_are_not_canonical_under_their_names() -> None:
    """Requests 1 and 2 list the relevant item at place 2, which alone request 2 has a k for."""
    run = pd.DataFrame({"qid": [1, 1, 2, 2], "docno": ["a", "b", "a", "b"], "score": [2, 1, 2, 1]})
    truth = pd.DataFrame({"qid": ["1", "2"], "docno": "b", "gain": 1, "wide": [1, 2]})
    found = abeval.evaluate(
        run.assign(source=["x", "y", "y", "y"]),
        truth,
        columns={"grade": "gain"},
        metrics=["hit@width"],
        k=["width: wide"],
        where={"wide": "wide = 2", "by_name": "gain > 0", "source": "source = 'y'"},
    )
    assert found.values() == {"hit@width": 0.5}
    rows = {row.traffic: row.value for row in found.result.rows}
    # Without `a` the relevant item of request 1 is at place 1.
    assert rows == {"all": 0.5, "wide": 1.0, "by_name": 0.5, "source": 1.0}
