"""A short run of `benchmarks.calibration.history`: correlations and gains hold."""

from __future__ import annotations

import pytest

from benchmarks.calibration.history import Gain, Pair, correlations, gains, main


@pytest.mark.whole
def test_the_corrected_correlation_is_the_true_one() -> None:
    outcome = correlations(Pair(0.8, 2.0), 60, seed=4)
    assert abs(outcome.naive - 0.8) > 0.03
    assert outcome.corrected == pytest.approx(0.8, abs=0.1)
    assert outcome.covered >= 0.9
    assert outcome.slope_covered >= 0.88


def test_the_shrunken_sum_is_the_true_one() -> None:
    outcome = gains(Gain(), 300, seed=4)
    assert outcome.naive > 1.5
    assert outcome.shrunken == pytest.approx(1, abs=0.1)
    assert outcome.covered >= 0.9


def test_the_command_prints_a_line_a_world(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.calibration import history

    monkeypatch.setattr(history, "PAIRS", (Pair(0.8, 1.0),))
    monkeypatch.setattr(history, "GAINS", (Gain(experiments=5),))
    main(["--repetitions", "2"])
    assert len(capsys.readouterr().out.splitlines()) == 4
