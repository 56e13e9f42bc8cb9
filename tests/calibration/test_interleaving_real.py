"""Interleaving replayed on real logs says what off-policy estimates of the same rankers say."""

from __future__ import annotations

import numpy as np

from benchmarks.calibration import interleaving_real
from tests.real_logs import need


def test_interleaving_and_off_policy_agree_on_kuairand():
    frame = interleaving_real.candidates(need("kuairand/log.parquet"))
    one = interleaving_real.compared(frame, "video", "short")
    assert one.z < -3
    assert one.preference_z < -3
    assert one.lift < 0
    assert one.row.preference is not None
    assert one.row.preference < 0
    assert one.row.status == "worse"


def test_a_list_has_the_clicks_of_the_log():
    frame = interleaving_real.candidates(need("kuairand/log.parquet"))
    frame = frame[frame["user_id"].isin(frame["user_id"].unique()[:50])]
    lists = interleaving_real.interleaved(frame, "video", "short")
    merged = lists.merge(
        frame, left_on=["user_id", "item_id"], right_on=["user_id", "video_id"], validate="1:1"
    )
    assert len(merged) == len(lists)
    assert np.array_equal(merged["click_x"], merged["click_y"])
    assert np.array_equal(merged["rank_video"], merged["video"])


def test_open_bandit_has_lists_of_one_and_too_few_clicks():
    folder = need("open_bandit/men_random.parquet").parents[1]
    said = list(interleaving_real.bandit(folder))
    assert "99.8% are lists of one" in said[0]
    assert all("too_few_rewards" in line for line in said[2:])
