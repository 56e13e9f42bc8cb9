"""A short version of `python -m benchmarks calibrate offline`."""

import numpy as np
import pandas as pd
import pytest

from abeval.offline.evaluate import JudgedColumns, evaluate_log
from abeval.offline.inference import MetricValues, estimate
from benchmarks.calibration import offline as calibration
from tests.worlds import scored

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def log() -> scored.Scored:
    return scored.draw(150, np.random.default_rng(3), (0.8,))


def test_the_values_per_unit_are_those_of_a_replay(log):
    user, item = np.nonzero(log.shown)
    rows = {"unit_id": user, "request_id": user, "item_id": item, "grade": log.click[log.shown]}
    frame = pd.DataFrame({**rows, "score": log.scores[0][log.shown]}).astype({"grade": float})
    sums = scored.unit_sums(log, 0)
    found = evaluate_log(frame, ["score"], columns=JudgedColumns(), metrics=[*sums, "auc"])
    for name, (y, x) in sums.items():
        row = found.result.row(name)
        every = np.ones(len(y), dtype=bool)
        ours = estimate(MetricValues(y, x, (), "ratio"), every, 0.05)
        # Sums of a replay are of whole multiples of 1e-9.
        assert (ours.value, ours.low, ours.high) == pytest.approx(
            (row.value, row.low, row.high), abs=1e-7
        )
    auc = scored.GlobalAuc(log, 0).pseudo_values(np.ones(150, dtype=bool))
    row = found.result.row("auc")
    assert (auc.mean(), auc.std(ddof=1) / np.sqrt(150)) == pytest.approx(
        (row.value, (row.high - row.low) / 2 / 1.976), rel=1e-3
    )


def test_splits_without_a_difference_are_rejected_as_often_as_promised():
    for row in calibration.measure_splits("", 400, seed=11, users=300):
        share = float(str(row["A/A splits rejected, %"]).split()[0]) / 100
        assert abs(share - 0.05) <= 3 * np.sqrt(0.05 * 0.95 / 400)


def test_pairs_have_the_power_of_the_formula_and_more_than_halves():
    for row in calibration.measure_powers("", 60, seed=11, users=200):
        paired = row["paired, %"]
        error = np.sqrt(max(paired * (1 - paired), 0.25 / 60) / 60)
        assert abs(paired - row["formula, %"]) <= 4 * error
        assert paired > row["unpaired, %"]
