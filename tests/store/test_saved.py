"""Saved aggregates: judged elsewhere, the result is the same to the last digit."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import partialmethod
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import abeval
from abeval.aggregates.collect import collect
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import ExperimentError
from abeval.experiment.metrics import named_metrics
from abeval.files import held
from abeval.logs.run import opened
from abeval.store.saved import save_aggregates
from abeval.version import __version__
from tests.cli.test_cli import call
from tests.logs.small import small_log

SAMPLE = Path("sample_logs/experiment.toml")
METRICS: list[dict[str, Any]] = [
    {"name": "ctr", "cap": 0.9},
    {"name": "clicks_per_user", "covariates": ["impressions_per_user"]},
    {"name": "gauc"},
    {"name": "p90", "value": "dwell", "quantile": 0.9},
    {"name": "large", "value": "1e7 * item_id"},
    {"name": "both", "function": "ctr * clicks_per_user", "role": "diagnostic"},
]


def experiment(folder: Path, **entries: Any) -> abeval.LoadedExperiment:
    """An experiment whose log is a file of the folder."""
    small_log(2_400).to_parquet(folder / "log.parquet")
    base: dict[str, Any] = {
        "name": "small",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "logs": {"impressions": {"path": "log.parquet"}},
        "period": {"start": "2024-03-02", "end": "2024-03-04"},
        "pre_period": {"start": "2024-03-01", "end": "2024-03-02"},
        "segments": {"category": "category"},
        "metrics": METRICS,
        "inference": {"adjust": "cuped"},
        "engine": {"threads": 1},
    }
    return abeval.define(folder, **{**base, **entries})


def test_the_sample_is_judged_without_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = abeval.load(SAMPLE)
    result = loaded.analyze(save_aggregates=tmp_path / "kept")

    def started(*_: object, **__: object) -> None:
        raise AssertionError("an engine was started")

    monkeypatch.setattr(DuckDBEngine, "__init__", started)
    assert loaded.from_aggregates(tmp_path / "kept").to_json() == result.to_json()


@pytest.mark.parametrize(
    "entries", [{}, {"inference": {"resample": "bootstrap"}, "metrics": METRICS[2:]}]
)
def test_every_kind_of_sum_comes_back(tmp_path: Path, entries: dict[str, Any]) -> None:
    loaded = experiment(tmp_path, **entries)
    result = loaded.analyze(save_aggregates=tmp_path)
    (tmp_path / "log.parquet").unlink()
    assert loaded.from_aggregates(tmp_path).to_json() == result.to_json()


def test_what_only_judges_may_change(tmp_path: Path) -> None:
    experiment(tmp_path).analyze(save_aggregates=tmp_path / "kept")
    roles = [{**METRICS[0], "role": "guardrail", "margin": 0.02}, *METRICS[1:]]
    other = experiment(tmp_path, alpha=0.01, metrics=roles, events=[])
    assert other.from_aggregates(tmp_path / "kept").to_json() == other.analyze().to_json()


@pytest.mark.whole
@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"name": "other"}, "the aggregates of 'small', not of 'other'"),
        ({"metrics": METRICS[:2]}, "different settings: metrics"),
        ({"period": {"start": "2024-03-02", "end": "2024-03-03"}}, "different settings: period"),
        ({"segments": {}, "timezone": "Asia/Tokyo"}, "different settings: timezone, segments"),
        ({"inference": {"resample": "bootstrap"}, "metrics": METRICS[2:]}, r"inference\.resample"),
    ],
)
def test_other_definitions_are_refused(tmp_path: Path, entries: dict[str, Any], said: str) -> None:
    experiment(tmp_path).analyze(save_aggregates=tmp_path / "kept")
    with pytest.raises(ExperimentError, match=said):
        experiment(tmp_path, **entries).from_aggregates(tmp_path / "kept")


def test_what_is_missing_or_damaged_is_said(tmp_path: Path) -> None:
    loaded, kept = experiment(tmp_path), tmp_path / "kept"
    with pytest.raises(ExperimentError, match="has no aggregates"):
        loaded.from_aggregates(kept)
    loaded.analyze(save_aggregates=kept)
    (moments,), saved = kept.glob("moments-*.parquet"), kept / "aggregates.json"
    data = moments.read_bytes()
    moments.write_bytes(data[:-1])
    with pytest.raises(ExperimentError, match="is not the file that was written"):
        loaded.from_aggregates(kept)
    moments.unlink()
    with pytest.raises(ExperimentError, match="cannot be read: No such file"):
        loaded.from_aggregates(kept)
    saved.write_text(json.dumps({**json.loads(saved.read_text()), "format": 0}))
    with pytest.raises(ExperimentError, match="has format 0"):
        loaded.from_aggregates(kept)
    for text in ("{", "[]", "1", "", "[" * 100_000, "\xff"):
        saved.write_bytes(text.encode("latin-1"))
        with pytest.raises(ExperimentError, match=r"aggregates\.json cannot be read"):
            loaded.from_aggregates(kept)


def places(part: Any) -> Iterator[tuple[Any, Any]]:
    """Every value of a document, by the container and the key that it is at."""
    for key in list(part) if isinstance(part, dict) else range(len(part)):
        yield part, key
        if isinstance(part[key], dict | list):
            yield from places(part[key])


@pytest.mark.whole
@pytest.mark.parametrize("signed", [False, True])
def test_another_value_in_any_field_is_refused(tmp_path: Path, signed: bool) -> None:
    """Signed: with the digest that belongs to it, as only another version would write it."""
    loaded, kept = experiment(tmp_path), tmp_path / "kept"
    loaded.analyze(save_aggregates=kept)
    saved = kept / "aggregates.json"
    text = saved.read_text()
    count = len(list(places(json.loads(text))))
    assert count > 60
    for number in range(count):
        document = json.loads(text)
        part, key = list(places(document))[number]
        if signed and key in ("format", "sha256"):
            continue
        part[key] = {"a": [part[key]]} if not isinstance(part[key], dict) else "text"
        if signed:
            body = {k: v for k, v in document.items() if k not in ("format", "sha256")}
            document["sha256"] = hashlib.sha256(json.dumps(body).encode()).hexdigest()
        saved.write_text(json.dumps(document))
        with pytest.raises(ExperimentError):
            loaded.from_aggregates(kept)


def same(text: str, other: str) -> bool:
    """Whether two texts are the same JSON; a number that begins with 0 is none."""
    try:
        return bool(json.loads(text) == json.loads(other))
    except ValueError:
        return False


def test_a_changed_digit_is_refused(tmp_path: Path) -> None:
    loaded, kept = experiment(tmp_path), tmp_path / "kept"
    loaded.analyze(save_aggregates=kept)
    saved = kept / "aggregates.json"
    text = saved.read_text()
    digits = [i for i, letter in enumerate(text) if letter.isdigit()]
    for place in digits[:: max(1, len(digits) // 60)]:
        changed = str((int(text[place]) + 1) % 10)
        other = text[:place] + changed + text[place + 1 :]
        if same(other, text):
            # The last of 16 digits of a double may be another, and the double the same.
            continue
        saved.write_text(other)
        with pytest.raises(ExperimentError):
            loaded.from_aggregates(kept)


@pytest.mark.whole
def test_a_run_killed_at_any_step_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = experiment(tmp_path), experiment(tmp_path, segments={})
    before = old.analyze(save_aggregates=tmp_path / "kept").to_json()
    after = new.analyze().to_json()
    with opened(new.experiment, {}) as run:
        sums = collect(run, named_metrics(new.experiment))
    names, unlinked = Path.replace, Path.unlink
    for step in count():
        calls = 0

        def dies(path: Path, *arguments: Any, run: Any, last: int = step, **keys: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > last:
                raise KeyboardInterrupt
            return run(path, *arguments, **keys)

        shutil.rmtree(tmp_path / "now", ignore_errors=True)
        shutil.copytree(tmp_path / "kept", tmp_path / "now")
        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(Path, "replace", partialmethod(dies, run=names))
            patched.setattr(Path, "unlink", partialmethod(dies, run=unlinked))
            save_aggregates(tmp_path / "now", new.experiment, sums)
        if calls <= step:
            break
        results = []
        for loaded in (old, new):
            with suppress(ExperimentError):
                results.append(loaded.from_aggregates(tmp_path / "now").to_json())
        assert results in ([before], [after]), step
        save_aggregates(tmp_path / "now", new.experiment, sums)
        assert new.from_aggregates(tmp_path / "now").to_json() == after
        assert len(list((tmp_path / "now").iterdir())) == 1 + 11
    assert 8 < step < 19


def test_the_version_is_kept_and_another_one_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = experiment(tmp_path)
    result = loaded.analyze(save_aggregates=tmp_path / "kept")
    assert json.loads((tmp_path / "kept" / "aggregates.json").read_text())["abeval"] == __version__
    monkeypatch.setattr("abeval.store.saved.__version__", "99.0")
    judged = loaded.from_aggregates(tmp_path / "kept")
    said = f"The aggregates were computed by abeval {__version__}; abeval 99.0 judges them."
    assert judged.notes == (*result.notes, said)
    assert judged.scorecard == result.scorecard


def test_aggregates_keep_the_mode_of_those_that_they_replace(tmp_path: Path) -> None:
    loaded, kept = experiment(tmp_path), tmp_path / "kept"
    loaded.analyze(save_aggregates=kept)
    (kept / "aggregates.json").chmod(0o600)
    experiment(tmp_path, segments={}).analyze(save_aggregates=kept)
    assert {stat.S_IMODE(file.stat().st_mode) for file in kept.iterdir()} == {0o600}


def test_two_runs_do_not_write_at_once(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    with (
        held(tmp_path / "kept" / "lock", "kept"),
        pytest.raises(ExperimentError, match="is in use"),
    ):
        experiment(tmp_path).analyze(save_aggregates=tmp_path / "kept")


@pytest.mark.whole
def test_the_command_saves_and_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    assert call(monkeypatch, "analyze", SAMPLE, "--save-aggregates", kept) == 0
    first = capsys.readouterr().out
    assert call(monkeypatch, "analyze", SAMPLE, "--aggregates", kept) == 0
    assert capsys.readouterr().out == first
    both = ("--aggregates", kept, "--save-aggregates", kept)
    assert call(monkeypatch, "analyze", SAMPLE, *both) == 2
