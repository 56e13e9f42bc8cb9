"""Curves over k."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import abeval
from abeval.offline.estimates import find_elbow
from tests.offline.frames import one_list

ENTRIES = {
    "name": "sliced",
    "unit": "user_id",
    "control": "a",
    "variants": {"a": {"model": "old"}, "b": {"model": "new"}},
    "models": {"old": {"score": "old"}, "new": {"score": "new"}},
    "logs": {"impressions": {}},
}


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """The new model knows the clicks of half of the rows."""
    rng = np.random.default_rng(5)
    users, length = 200, 12
    n = users * 2 * length
    user = np.repeat(np.arange(users), 2 * length)
    request = np.repeat(np.arange(2 * users), length)
    latent = rng.normal(size=n)
    click = (rng.random(n) < 1 / (1 + np.exp(1.5 - latent))).astype(int)
    train = request % 2 == 0
    return pd.DataFrame(
        {
            "user_id": user,
            "request_id": request,
            "item_id": np.tile(np.arange(length), 2 * users),
            "position": np.tile(np.arange(1, length + 1), 2 * users),
            "variant": np.where(user % 2 == 0, "a", "b"),
            "click": click,
            "old": 1 / (1 + np.exp(1.5 - latent + rng.normal(size=n))),
            "new": np.where(train, 0.1 + 0.8 * click, 0.5 - latent / 20),
            "part": np.where(train, "train", "test"),
            "device": np.where(user % 3 == 0, "phone", "desktop"),
            "ts": pd.to_datetime(np.where(train, "2026-09-01 10:00", "2026-09-08 10:00")),
        }
    )


def replayed(log, **options):
    options = {"metrics": ["ndcg@5[lin]", "gauc[units]"], **options}
    return abeval.define(**ENTRIES).replay(logs={"impressions": log}, **options)


def test_a_curve_has_every_cut_off_and_its_elbow(log):
    found = replayed(log, metrics=["recall@1"], curve=8)
    curve = next(c for c in found.curves if c.model == "old" and c.traffic == "pooled")
    assert [point.k for point in curve.points] == list(range(1, 9))
    assert curve.metric == "recall"
    values = [point.value for point in curve.points]
    assert values == sorted(values)
    assert values[4] == replayed(log, metrics=["recall@5"]).row("recall@5", "old", "pooled").value


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(1, 0.0), (2, 0.9), (3, 0.95), (4, 1.0)], 2),
        ([(1, 1.0), (2, 0.2), (3, 0.1), (4, 0.0)], 2),
        ([(1, 0.1), (2, 0.2), (3, 0.3)], None),
        ([(1, 0.5), (2, 0.5), (3, 0.5)], None),
        ([(1, 0.1), (2, 0.2)], None),
    ],
)
def test_the_elbow_is_furthest_from_the_line_between_the_ends(points, expected):
    assert find_elbow(points) == expected


def test_the_mean_of_dcg_over_windows_is_that_of_the_seed_document():
    # Seed 000: relevance 0, 5, 1, 4, 2 in the order of the list; DCG at 5 is 6.151.
    grades = [0, 5, 1, 4, 2]
    run, truth = one_list(grades)
    found = abeval.evaluate(run, truth, metrics=["dcg@5[lin]"], curve=5).result
    (curve,) = found.curves
    terms = np.array(grades) / np.log2(np.arange(2, 7))
    assert [point.value for point in curve.points] == pytest.approx(np.cumsum(terms), abs=1e-11)
    assert curve.mean == pytest.approx(np.cumsum(terms).mean(), abs=1e-11)
    assert curve.elbow == 2
    assert curve.mean_reason == "too_few_units"


def test_the_mean_over_windows_has_the_interval_of_units_means(log):
    rows = log[log.request_id % 2 == 0]
    columns = abeval.JudgedColumns(unit="user_id", relevance="click")
    given = {"columns": columns, "metrics": ["ndcg@1[exp]"], "no_relevant": "zero"}
    found = abeval.evaluate_log(rows, ["old", "new"], curve=6, **given)
    of = [f"ndcg@{k}[exp]" for k in range(1, 7)]
    units = abeval.evaluate_log(rows, ["old"], **{**given, "metrics": of}).per_unit["old"]
    means = units.mean(axis=1)
    half = stats.t.ppf(0.975, len(means) - 1) * means.std() / np.sqrt(len(means))
    curve = next(c for c in found.result.curves if c.model == "old")
    assert curve.mean == pytest.approx(means.mean(), abs=1e-11)
    assert (curve.mean_low, curve.mean_high) == pytest.approx(
        (means.mean() - half, means.mean() + half), abs=1e-9
    )


def test_a_curve_without_every_point_has_no_mean(log):
    found = replayed(log, metrics=["recall@1"], curve=12)
    curve = found.curves[0]
    assert curve.points[-1].reason == "k_covers_list"
    assert (curve.mean, curve.mean_reason) == (None, "k_covers_list")
