"""Any two variants against each other."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError
from abeval.stats import means, multiplicity
from abeval.stats.moments import Moments


def three_variants(seed=3, users=600):
    rng = np.random.default_rng(seed)
    variant = rng.integers(0, 3, users)
    shown = rng.poisson(20, users) + 1
    clicks = rng.binomial(shown, np.array([0.10, 0.10, 0.16])[variant])
    rows = np.repeat(np.arange(users), shown)
    click = np.concatenate([np.arange(n) < c for n, c in zip(shown, clicks, strict=True)])
    names = np.array(["a", "b", "c"])
    frame = pd.DataFrame(
        {"user_id": rows, "variant": names[variant[rows]], "click": click.astype(int)}
    )
    loaded = abeval.define(
        name="three",
        unit="user_id",
        control="a",
        variants={name: {} for name in names},
        logs={"impressions": {}},
        cleaning={"duplicates": "unchecked"},
        metrics=[{"name": "ctr"}, {"name": "clicks_per_user", "role": "goal"}],
    )
    return loaded, frame


def test_every_pair_stands_once_and_is_adjusted_over_all_pairs():
    loaded, frame = three_variants()
    found = loaded.compare("clicks_per_user", logs={"impressions": frame})
    assert [(p.base, p.variant) for p in found.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    per_user = frame.groupby(["variant", "user_id"]).click.sum()
    arms = {name: Moments.of(per_user[name].to_numpy()) for name in "abc"}
    raw = [means.welch(arms[p.base], arms[p.variant]).p_value for p in found.pairs]
    assert [p.p_value for p in found.pairs] == pytest.approx(raw, rel=1e-9)
    holm = multiplicity.adjust(raw, "holm")
    assert [p.p_adjusted for p in found.pairs] == pytest.approx(list(holm), rel=1e-9)


def test_the_matrix_is_symmetric_and_names_all_variants():
    loaded, frame = three_variants()
    matrix = loaded.compare("ctr", logs={"impressions": frame}).matrix()
    assert list(matrix.index) == list(matrix.columns) == ["a", "b", "c"]
    assert math.isnan(matrix.loc["a", "a"])
    assert matrix.loc["a", "c"] == matrix.loc["c", "a"] < 0.05 < matrix.loc["a", "b"]


def test_the_scorecard_and_the_pair_with_control_agree():
    loaded, frame = three_variants()
    row = loaded.analyze(logs={"impressions": frame})["ctr", "c"]
    pair = loaded.compare("ctr", logs={"impressions": frame}).pairs[1]
    assert (pair.difference, pair.p_value) == (row.difference, row.p_value)


def test_json_has_no_nan():
    loaded, frame = three_variants()
    text = loaded.compare("ctr", logs={"impressions": frame.assign(click=0)}).to_json()
    assert json.loads(text)["pairs"][0]["reason"] == "no_clicks"


def test_an_unknown_metric_is_named_with_a_suggestion():
    loaded, frame = three_variants()
    with pytest.raises(ExperimentError, match=r"no metric is called 'ctrr'; did you mean `ctr`"):
        loaded.compare("ctrr", logs={"impressions": frame})
