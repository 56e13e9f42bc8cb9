"""Prediction coverage: for how many of the judged pairs a model has a score."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import abeval
from tests.relations import answer, relation

NAME = "prediction_coverage"


def test_a_unit_has_its_pairs_and_those_with_a_score() -> None:
    rows = [(1, 0.5, 1), (1, None, 1), (1, 0.0, 1), (2, None, 1), (2, 0.5, 0)]
    pairs = relation("unit_id bigint, score double, judged integer", *rows)
    found = answer("offline/predicted", "unit_id, pairs, predicted", every_item=pairs)
    assert [*found] == [(1, 3, 2), (2, 1, 0)]


def ratings(units: int = 300, seed: int = 3) -> pd.DataFrame:
    """Some ratings of each unit, of which `m` has scores for most items, `n` for some units."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 12, units)
    unit = np.repeat(np.arange(units), size)
    item = np.concatenate([rng.permutation(60)[:n] for n in size])
    frame = pd.DataFrame({"unit_id": unit, "request_id": unit, "item_id": item})
    frame["grade"] = rng.integers(0, 6, len(frame))
    frame["m"] = np.where(item < 45, rng.random(len(frame)), np.nan)
    frame["n"] = np.where(unit % 5 == 0, np.nan, rng.random(len(frame)))
    return frame


def test_it_is_the_share_of_judged_pairs_with_the_delta_method_by_unit() -> None:
    log = ratings()
    result = abeval.evaluate_log(log, ["m", "n"], metrics=[NAME]).result
    for model in ("m", "n"):
        counts = log.assign(has=log[model].notna()).groupby("unit_id").has.agg(["sum", "count"])
        share = counts["sum"].sum() / counts["count"].sum()
        residual = counts["sum"] - share * counts["count"]
        se = residual.std(ddof=1) / math.sqrt(len(counts)) / counts["count"].mean()
        row = result.row(NAME, model)
        # Units that only one model scores count too: they are what is measured.
        assert row.value == pytest.approx(share, rel=1e-12)
        assert row.counted == len(log)
        assert row.low is not None
        assert row.high is not None
        assert (row.high - row.low) / 2 == pytest.approx(1.968 * se, rel=0.02)
    pair = result.pair(NAME)
    assert pair.difference == pytest.approx(
        (log.n.notna().sum() - log.m.notna().sum()) / len(log), rel=1e-12
    )


def test_of_lists_only_judged_pairs_count() -> None:
    """A list has two of three judged pairs, and one that nobody judged."""
    truth = pd.DataFrame({"request_id": [1, 1, 2], "item_id": [7, 8, 7], "grade": [1, 0, 3]})
    run = pd.DataFrame(
        {"request_id": [1, 1, 2], "item_id": [8, 9, 7], "score": [0.9, 0.8, float("nan")]}
    )
    found = abeval.evaluate(run, truth, metrics=[NAME])
    assert found.values() == {NAME: pytest.approx(1 / 3)}


def test_only_who_names_it_gets_it() -> None:
    names = abeval.evaluate_log(ratings(), ["m"]).values()
    assert "auc" in names
    assert NAME not in names
