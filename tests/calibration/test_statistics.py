import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from benchmarks.calibration import families, moments, over_time, resampled, units
from benchmarks.calibration.outcome import Outcome, Rate, rate
from benchmarks.calibration.statistics import STUDIES, merge, run_study
from benchmarks.runner import write_table
from tests.worlds.users import Split, arms, pool

SHORT = {
    "moments": partial(moments.effects, runs=150, split=Split(500, 500)),
    "margins": partial(moments.margins, runs=600, split=Split(500, 500)),
    "counts": partial(units.counts, runs=1500, split=Split(40, 41)),
    "values": partial(units.values, runs=150, split=Split(500, 500)),
    "clustered quantiles": partial(units.clustered_quantiles, runs=150, split=Split(400, 400)),
    "buckets": partial(resampled.buckets, runs=150, split=Split(600, 600)),
    "replays": partial(resampled.replays, runs=2000, share=0.5),
    "catalogue": partial(resampled.catalogues, runs=30, split=Split(400, 400)),
    "28 looks": partial(over_time.always_valid, runs=200, split=Split(500, 500), looks=28),
    "1,000 looks": partial(over_time.always_valid, runs=20, split=Split(150, 150), looks=1000),
    "planned looks": partial(over_time.planned_looks, runs=300, split=Split(500, 500)),
    "split over time": partial(over_time.mismatch, runs=300, looks=28),
    "windows": partial(over_time.windows, runs=300, split=Split(400, 400)),
    "segments": partial(families.segments, runs=300, split=Split(600, 600)),
    "families": partial(families.families, runs=500),
    "many to one": partial(families.many_to_one, runs=150, split=Split(500, 500)),
    "tables": partial(families.tables, runs=400),
    "exact split": partial(families.exact_split, runs=1000),
    "small segments": partial(families.small_segments, runs=200),
}


@pytest.mark.slow
@pytest.mark.parametrize("study", SHORT)
def test_a_short_calibration_is_not_liberal(study: str) -> None:
    for outcome in SHORT[study](20):
        for found, target in ((outcome.false_positives, 0.05), (outcome.coverage, 0.95)):
            if found is not None:
                worse = found.value - target if target < 0.5 else target - found.value
                # Twenty kinds of rates at a time: four standard errors and not three.
                assert worse <= 4 * found.se, (outcome.test, outcome.data, found)


def documented(outcome: Outcome) -> bool:
    """Too liberal where the documentation says so: two hundred units or fewer in an arm of 10 %."""
    return outcome.data.startswith(("1,800/200", "900/100"))


@pytest.mark.slow
def test_the_full_calibration_misses_only_where_the_documentation_says_so() -> None:
    every = [outcome for study in STUDIES for outcome in run_study(study, 10_000, 0)]
    liberal = [outcome for outcome in every if outcome.verdict == "liberal"]
    assert [outcome for outcome in liberal if not documented(outcome)] == []


def test_a_wrong_test_would_be_found() -> None:
    z = np.random.default_rng(0).normal(size=40_000)
    honest = rate(np.abs(z) > 1.96)
    wrong = rate(np.abs(z) > 1.90)
    assert Outcome("t", "d", "nominal", honest, None).verdict == "holds"
    assert Outcome("t", "d", "at_most", wrong, None).verdict == "liberal"


def test_verdicts() -> None:
    def outcome(promise: str, errors: float | None, coverage: float | None) -> str:
        rates = [None if x is None else Rate(x, 0.002, 10_000) for x in (errors, coverage)]
        return Outcome("t", "d", promise, *rates).verdict

    assert outcome("nominal", 0.0559, 0.9441) == "holds"
    assert outcome("nominal", 0.0561, 0.95) == "liberal"
    assert outcome("nominal", 0.05, 0.9439) == "liberal"
    assert outcome("nominal", 0.0439, 0.95) == "conservative"
    assert outcome("nominal", None, 0.9561) == "conservative"
    assert outcome("at_most", 0.01, 0.99) == "holds, conservative"
    assert outcome("at_most", 0.0561, 0.99) == "liberal"


def test_pieces_merge_by_their_repetitions() -> None:
    parts = [
        Outcome("t", "d", "nominal", Rate(0.04, 0.02, 100), None),
        Outcome("t", "d", "nominal", Rate(0.07, 0.01, 400), None),
    ]
    merged = merge(parts).false_positives
    assert merged is not None
    assert merged.value == pytest.approx(0.064)
    assert merged.se == pytest.approx(0.02 / np.sqrt(5))
    assert merged.repetitions == 500


def test_samples_have_the_moments_of_their_users() -> None:
    source = pool(3, users=2000)
    one = next(arms(np.random.default_rng(1), source, 300, 1))
    rng, strata = np.random.default_rng(1), np.unique(source.stratum)
    shelf = [source.values[source.stratum == k] for k in strata]
    counts = rng.multinomial(300, [len(users) / 2000 for users in shelf])
    drawn = [users[rng.integers(0, len(users), n)] for users, n in zip(shelf, counts, strict=True)]
    values = np.concatenate(drawn)
    assert one.whole.mean == pytest.approx(values.mean(axis=0))
    assert one.whole.covariance == pytest.approx(np.cov(values.T), rel=1e-9)
    assert sum(m.n for m in one.strata) == 300


def test_the_command_prints_a_table_and_the_seed_decides() -> None:
    command = [sys.executable, "-m", "benchmarks", "calibrate", "--help"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    assert "--repetitions" in done.stdout
    one, two = (families.ramped_segments(seed, 20) for seed in (1, 1))
    assert one == two
    assert len(list(write_table(outcome.record() for outcome in one))) == 3
