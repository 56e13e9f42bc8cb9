"""Scores that are expressions over a row: blends, calibrated scores, what a stage adds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import AbevalError, ExperimentError, LogError
from tests.sample import FILE

BLEND = "0.3 * score_candidate + 0.7 * score_baseline"


def log(seed: int = 1, users: int = 60) -> pd.DataFrame:
    """Two variants, five items a request; `new` is as good as `base` is bad."""
    rng = np.random.default_rng(seed)
    n = users * 10
    frame = pd.DataFrame(
        {
            "user": np.repeat(np.arange(users), 10),
            "request_id": np.arange(n) // 5,
            "item_id": np.arange(n) % 5,
            "position": np.arange(n) % 5 + 1,
            "scene": np.where(rng.random(n) < 0.5, "feed", "search"),
        }
    )
    frame["variant"] = np.where(frame.user % 2 == 0, "x", "y")
    frame["base"], frame["new"] = rng.random((2, n))
    frame["Odd score"] = frame.new / 2
    frame["click"] = (rng.random(n) < 0.1 + 0.5 * frame.new).astype(int)
    return frame


def experiment(score: str, **entries: Any) -> abeval.LoadedExperiment:
    given: dict[str, Any] = {
        "name": "blend",
        "unit": "user",
        "control": "x",
        "variants": {"x": {"model": "old"}, "y": {"model": "blend"}},
        "models": {"old": {"score": "base"}, "blend": {"score": score}},
        "logs": {"impressions": {}},
    }
    return abeval.define(**{**given, **entries})


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("score", "column"),
    [
        ("0.3 * new + 0.7 * Base", lambda f: 0.3 * f.new + 0.7 * f.base),
        ("new / (new + (1 - new) / 0.1)", lambda f: f.new / (f.new + (1 - f.new) / 0.1)),
        (
            "case when scene = 'feed' then new else base end",
            lambda f: f.new.where(f.scene == "feed", f.base),
        ),
        ("new / position", lambda f: f.new / f.position),
        ("Odd score", lambda f: f["Odd score"]),
        ('"Odd score" * 2', lambda f: f.new),
        ("NEW", lambda f: f.new),
    ],
)
def test_an_expression_ranks_as_the_column_that_holds_its_values(score: str, column: Any) -> None:
    rows, metrics = log(), ["auc", "ndcg@3[lin]", "log_loss", "gauc[impressions]"]
    found = experiment(score).replay(logs={"impressions": rows}, metrics=metrics)
    written = rows.assign(written=column(rows))
    expected = experiment("written").replay(logs={"impressions": written}, metrics=metrics)
    assert found.rows == expected.rows
    assert found.pairs == expected.pairs
    # A table of judged rows takes the same.
    models = {"old": "base", "blend": score}
    columns = abeval.JudgedColumns(unit="user", relevance="click")
    table = abeval.evaluate_log(rows, models, columns=columns, metrics=metrics)
    for name, value in table.values("blend").items():
        assert value == pytest.approx(found.row(name, "blend", "pooled").value, abs=1e-12)


@pytest.mark.whole
def test_the_served_blend_is_what_the_variant_is_measured_by() -> None:
    metrics = [{"name": "auc", "role": "goal"}, {"name": "gauc"}, {"name": "q_ctr"}]
    rows = log()
    blend = experiment("0.3 * new + 0.7 * base", metrics=metrics)
    served = blend.analyze(logs={"impressions": rows})
    offline = blend.replay(logs={"impressions": rows})
    for online, metric in (("auc", "auc"), ("gauc", "gauc[impressions]"), ("q_ctr", "q_ctr")):
        own = offline.row(metric, "blend", "y")
        # Online, what each unit adds is rounded to 1e-9.
        assert served[online].treatment == pytest.approx(own.value, abs=1e-9)
    agreed = blend.agree(logs={"impressions": rows})
    cell = next(c for c in agreed.matrix if (c.metric, c.model, c.traffic) == ("auc", "blend", "y"))
    assert cell.value == pytest.approx(offline.row("auc", "blend", "y").value, abs=1e-12)


def test_sql_has_the_blend() -> None:
    from abeval.table.metric_sql import write_metric_statements

    models = {"baseline": {"score": "score_baseline"}, "candidate": {"score": BLEND}}
    loaded = abeval.load(FILE).replace(models=models)
    assert "0.3e0" in write_metric_statements(loaded.experiment, ["auc"])["auc"]


@pytest.mark.parametrize(
    ("score", "says"),
    [
        ("0.3 * nwe + base", r"models.blend.score: .* reads 'nwe', .*; did you mean `new`\?"),
        ("bsae", r"models.blend.score: the impressions have no column 'bsae'; did you mean `base`"),
        ("0.3 * click + base", "reads 'click', which is known only after the score"),
        ("sum(new)", r"no column 'sum\(new\)'.*holds an aggregate"),
        ("0.3 * new +", "is not one SQL expression: look at character 11"),
        ("upper(scene)", r"models.blend.score: 'upper\(scene\)' cannot be computed: Could not"),
    ],
)
def test_a_wrong_score_names_its_key_and_the_column(score: str, says: str) -> None:
    with pytest.raises(AbevalError, match=says):
        experiment(score).replay(logs={"impressions": log()}, metrics=["auc"])


def test_a_wrong_score_of_a_table_is_told() -> None:
    rows, columns = log(), abeval.JudgedColumns(unit="user", relevance="click")
    with pytest.raises(
        LogError, match=r"scores: '2 \* nwe': .* no column 'nwe'; did you mean `new`"
    ):
        abeval.evaluate_log(rows, ["base", "2 * nwe"], columns=columns)
    with pytest.raises(LogError, match=r"^the log has no column 'nwe'; did you mean `new`"):
        abeval.evaluate_log(rows, ["nwe"], columns=columns)
    with pytest.raises(ExperimentError, match=r"scores: .* holds an aggregate"):
        abeval.evaluate_log(rows, ["max(new)"], columns=columns)
