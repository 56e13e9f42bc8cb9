"""Equal scores in a replay: which item is above."""

from __future__ import annotations

import pandas as pd
import pytest

import abeval


def test_two_clicked_items_of_one_score_at_one_position_have_two_places() -> None:
    rows = pd.DataFrame(
        {
            "user_id": unit,
            "variant": "ab"[unit % 2],
            "ts": pd.Timestamp("2026-01-08 12:00"),
            "request_id": unit,
            "item_id": item,
            "position": 1 if item < 2 else None,
            "score": 0.5,
            "click": item < 2,
        }
        for unit in range(8)
        for item in range(4)
    )
    experiment = abeval.define(
        ".",
        name="ties",
        unit="user_id",
        control="a",
        variants={"a": {"model": "m"}, "b": {}},
        models={"m": {"score": "score"}},
        period={"start": "2026-01-08", "end": "2026-01-15"},
        logs={"impressions": {}},
        engine={"threads": 1},
    )
    metrics = ("precision@1", "precision@2", "precision@3")
    result = experiment.replay(metrics=metrics, ties="position", logs={"impressions": rows})
    values = [result.row(name, "m", "pooled").value for name in metrics]
    # Items without a position are last.
    assert values == pytest.approx([1, 1, 2 / 3])
