"""Relevance by likeness to what a unit clicked, against a slow twin."""

import math

import numpy as np
import pandas as pd
import pytest

from abeval.errors import LogError
from tests.offline.frames import close
from tests.offline.test_replay import random_rows, small

VECTORS = np.random.default_rng(3).normal(size=(5, 4))


def replayed(rows, items, **options):
    loaded, logs = small(rows, logs={"impressions": {}, "items": {}})
    frame = items if isinstance(items, pd.DataFrame) else with_vectors(items)
    return loaded.replay(logs={**logs, "items": frame}, relevance="similarity", **options)


def with_vectors(vectors):
    return pd.DataFrame({"item_id": range(len(vectors)), "embedding": list(vectors)})


def grades(rows, vectors):
    """(user, item) → the largest cosine with an item that the user clicked."""
    clicked: dict[int, set[int]] = {}
    for user, _, _, item, click, *_ in rows:
        if click:
            clicked.setdefault(user, set()).add(item)

    def cosine(i, j):
        a, b = vectors[i], vectors[j]
        return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))

    return {
        (row[0], row[3]): max([0.0, *(cosine(row[3], c) for c in clicked.get(row[0], ()))])
        for row in rows
    }


def mean_dcg(rows, grade, k=3):
    """Mean DCG of model b's order over requests with a relevant item."""
    requests: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        requests.setdefault(row[2], []).append((row[6], grade[row[0], row[3]]))
    values = [
        sum(g / math.log2(2 + place) for place, (_, g) in enumerate(sorted(r, reverse=True)[:k]))
        for r in requests.values()
        if any(g > 0 for _, g in r)
    ]
    return sum(values) / len(values)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_item_is_as_relevant_as_the_nearest_that_the_unit_clicked(seed):
    rows = random_rows(60, seed)
    found = replayed(rows, VECTORS, metrics=["dcg@3[lin]"])
    expected = mean_dcg(rows, grades(rows, VECTORS))
    assert close(found.row("dcg@3[lin]", "b", "pooled").value, expected, 1e-9)


def test_it_is_the_same_by_queries_as_over_arrays():
    rows = random_rows(60)
    plain = replayed(rows, VECTORS, metrics=["ndcg@3[lin]"]).row("ndcg@3[lin]", "b", "x")
    # Text ids keep the replay off arrays.
    texts = [(*row[:3], f"i{row[3]}", *row[4:]) for row in rows]
    items = with_vectors(VECTORS).assign(item_id=[f"i{i}" for i in range(5)])
    other = replayed(texts, items, metrics=["ndcg@3[lin]"]).row("ndcg@3[lin]", "b", "x")
    assert close(plain.value, other.value, 1e-12)


def test_unlike_vectors_leave_the_clicks_alone():
    """Where no two items are alike, only an item itself is like a clicked one."""
    rows = [row for row in random_rows() if row[2].endswith("-0")]
    found = replayed(rows, np.eye(5), metrics=["ndcg@3[lin]", "recall@3"])
    loaded, logs = small(rows)
    clicks = loaded.replay(metrics=["ndcg@3[lin]", "recall@3"], logs=logs)
    assert [r.value for r in found.rows] == pytest.approx([r.value for r in clicks.rows])


def test_the_length_of_a_vector_does_not_matter():
    rows = random_rows()
    scaled = VECTORS * np.array([[0.1], [3.0], [1e-4], [70.0], [1.0]])
    first, second = (replayed(rows, v, metrics=["dcg@5[lin]"]) for v in (VECTORS, scaled))
    for one, other in zip(first.rows, second.rows, strict=True):
        assert one.value == pytest.approx(other.value, abs=1e-9)


def test_items_without_a_vector_are_counted_and_as_relevant_as_their_clicks():
    rows = random_rows()
    vectors: list[object] = [*np.eye(5)]
    vectors[0], vectors[1] = None, np.array([0.0, 0, 0, 0, 0])
    found = replayed(rows, with_vectors(vectors), metrics=["cg@3"])
    without = sum(row[3] in (0, 1) for row in rows)
    assert dict(found.accounting)["rows_of_items_without_a_vector"] == without
    assert any("judges itself" in note for note in found.notes)
    liked = {(row[0], row[3]) for row in rows if row[4]}
    top = pd.DataFrame(rows).sort_values(6, ascending=False).groupby(2).head(3)
    worth = [
        click if item in (0, 1) else (user, item) in liked
        for user, item, click in zip(top[0], top[3], top[4], strict=True)
    ]
    relevant = found.row("cg@3", "b", "pooled")
    assert relevant.value * relevant.counted == pytest.approx(sum(worth))


@pytest.mark.parametrize(
    ("items", "error"),
    [
        (pd.DataFrame({"item_id": range(5)}), "embedding"),
        (with_vectors([[1.0, 2], [1.0, 2, 3], [1.0], [2.0, 2], [1.0, 1]]), "1 to 3 numbers"),
        (with_vectors(["a"] * 5), "not lists of numbers"),
        (with_vectors([[math.nan, 1.0]] * 5), "usable"),
    ],
)
def test_vectors_that_cannot_be_compared_are_refused(items, error):
    with pytest.raises(LogError, match=error):
        replayed(random_rows(10), items, metrics=["cg@3"])


def test_without_an_item_log_it_is_asked_for():
    loaded, logs = small(random_rows(10))
    with pytest.raises(LogError, match="no item log"):
        loaded.replay(relevance="similarity", logs=logs)
