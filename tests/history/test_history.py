"""The file of a history: one row per experiment, variant and metric, whole or not at all."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

import abeval
from abeval.errors import AbevalError, ExperimentError
from abeval.files import hold_lock
from abeval.history import table
from abeval.history.measures import build_measures
from abeval.results.agreement import Agreement, AgreementRow
from abeval.results.study import Study
from abeval.scratch import Scratch
from tests.history.past import online, past, replayed
from tests.interleaving.world import experiment, log

BOTH = pytest.mark.parametrize("suffix", [".parquet", ".duckdb"])


def one(name: str = "e", lift: float = 0.02) -> abeval.Result:
    return online(name, {"ctr": (lift, 0.01)}, "ship")


@BOTH
def test_one_row_per_experiment_variant_and_metric(tmp_path: Path, suffix: str) -> None:
    history = abeval.History(tmp_path / f"history{suffix}")
    assert history.rows() == ()
    both = past(1)[0]
    added = history.add(both.result, both.replayed)
    assert [(s.source, s.change, s.rows) for s in added.sources] == [
        ("analysis", "added", 2),
        ("replay", "added", 9),
    ]
    rows = {(row.metric, row.traffic): row for row in history.rows()}
    ctr, auc = rows["ctr", None], rows["auc", "control"]
    assert (ctr.experiment, ctr.variant, ctr.model, ctr.role) == (
        *("e00", "treatment", "ranker_v2", "goal"),
    )
    assert ctr.effect == both.result["ctr"].lift
    assert ctr.se == pytest.approx(0.01, rel=1e-3)
    assert (auc.variant, auc.control, auc.scale) == ("ranker_v2", "ranker_v1", "difference")
    assert auc.se == pytest.approx(0.005)
    assert rows["log_loss", "control"].direction == "decrease"
    assert len(history.to_frame()) == 11


@BOTH
def test_adding_twice_changes_nothing_and_a_changed_result_takes_its_place(
    tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"history{suffix}"
    history = abeval.History(file)
    history.add(one("other"))
    history.add(one(), replayed("e", {"auc": (0.01, 0.01)}))
    before, when = file.read_bytes(), file.stat().st_mtime_ns
    again = history.add(one(), replayed("e", {"auc": (0.01, 0.01)}))
    assert [s.change for s in again.sources] == ["unchanged", "unchanged"]
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, when)
    changed = history.add(one(lift=0.03)).sources[0]
    assert (changed.change, changed.rows, changed.replaced) == ("replaced", 1, 1)
    effects = {(r.experiment, r.metric, r.traffic): r.effect for r in history.rows()}
    assert effects["e", "ctr", None] == pytest.approx(0.03)
    assert effects["other", "ctr", None] == pytest.approx(0.02)
    assert effects["e", "auc", "control"] == pytest.approx(0.01)
    assert {path.name for path in tmp_path.iterdir()} == {file.name}


def test_parquet_and_duckdb_hold_the_same(tmp_path: Path) -> None:
    files = [tmp_path / "a.parquet", tmp_path / "a.duckdb"]
    for each in past(3):
        for file in files:
            abeval.History(file).add(each.result, each.replayed)
    first, second = (abeval.History(file).rows() for file in files)
    assert first == second
    assert len(first) == 33


def test_json_files_are_added_as_results_are(tmp_path: Path) -> None:
    both = past(1)[0]
    (tmp_path / "a.json").write_text(both.result.to_json())
    (tmp_path / "r.json").write_text(both.replayed.to_json())
    history = abeval.History(tmp_path / "h.parquet")
    history.add(tmp_path / "a.json", str(tmp_path / "r.json"))
    assert [s.change for s in history.add(both.result, both.replayed).sources] == ["unchanged"] * 2


def test_what_was_shipped_is_the_verdict_or_what_is_stated(tmp_path: Path) -> None:
    history = abeval.History(tmp_path / "h.parquet")
    history.add(one())
    assert [row.shipped for row in history.rows()] == [True]
    assert history.add(one(), shipped=[]).sources[0].change == "replaced"
    assert [row.shipped for row in history.rows()] == [False]
    history.add(online("e", {"ctr": (0.0, 0.01)}, "keep_running"), shipped="treatment")
    assert [row.shipped for row in history.rows()] == [True]
    with pytest.raises(ExperimentError, match="'control' was not shipped"):
        history.add(one(), shipped="control")


def test_the_standard_error_is_that_of_the_test_also_at_looks(tmp_path: Path) -> None:
    from abeval.results.effects import Boundary

    boundary = Boundary("ctr", "treatment", 1.0, 5.0, 3.2, True)
    wide = replace(one(), boundaries=(boundary,))
    history = abeval.History(tmp_path / "h.parquet")
    history.add(wide)
    assert history.rows()[0].se == pytest.approx(0.01 * 1.96 / 3.2, rel=1e-3)


def test_rows_without_an_effect_are_kept_and_counted(tmp_path: Path) -> None:
    result = one()
    bare = replace(result.scorecard[0], metric="revenue", lift_low=None, lift_high=None)
    unbounded = replace(result, scorecard=(*result.scorecard, bare))
    history = abeval.History(tmp_path / "h.parquet")
    assert history.add(unbounded).sources[0].without_effect == 1
    assert [row.se is None for row in history.rows()] == [False, True]


def test_other_tables_of_a_database_stay(tmp_path: Path) -> None:
    file = tmp_path / "h.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("create table other as select 7 as seven")
    abeval.History(file).add(one())
    with duckdb.connect(str(file), read_only=True) as connection:
        assert connection.execute("select seven from other").fetchall() == [(7,)]
        assert connection.execute(f"select metric from {table.TABLE}").fetchall() == [("ctr",)]


def test_a_failed_write_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "h.parquet"
    history = abeval.History(file)
    history.add(one())
    before = file.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AbevalError, match="No space left"):
        history.add(one(lift=0.05))
    assert file.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"h.parquet"}


@pytest.mark.whole
@BOTH
def test_a_second_run_waits_for_the_first(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"h{suffix}"
    with ThreadPoolExecutor() as pool, hold_lock(tmp_path / f"{file.name}.lock", "it"):
        adds = [pool.submit(abeval.History(file).add, one(f"e{i}")) for i in range(3)]
        time.sleep(0.3)
        assert not file.exists()
        assert not any(add.done() for add in adds)
    assert sorted(add.result().experiments for add in adds) == [1, 2, 3]
    assert {path.name for path in tmp_path.iterdir()} == {file.name}


def test_a_run_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "WAIT", 0.1)
    file = tmp_path / "h.parquet"
    with (
        hold_lock(tmp_path / "h.parquet.lock", "it"),
        pytest.raises(ExperimentError, match=r"h\.parquet is in use by another run"),
    ):
        abeval.History(file).add(one())


def test_two_names_of_one_history_have_one_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "WAIT", 0.1)
    (tmp_path / "link.parquet").symlink_to(tmp_path / "h.parquet")
    with (
        hold_lock(tmp_path / "h.parquet.lock", "it"),
        pytest.raises(ExperimentError, match=r"link\.parquet is in use"),
    ):
        abeval.History(tmp_path / "link.parquet").add(one())


@pytest.mark.slow
@pytest.mark.whole
@BOTH
def test_a_flipped_bit_is_an_error_or_changes_no_row(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"h{suffix}"
    for each in past(4):
        abeval.History(file).add(each.result, each.replayed)
    data, rows = file.read_bytes(), abeval.History(file).rows()
    random, refused = np.random.default_rng(20261123), 0
    for _ in range(40):
        damaged = bytearray(data)
        damaged[int(random.integers(len(data)))] ^= 1 << int(random.integers(8))
        file.write_bytes(damaged)
        try:
            assert abeval.History(file).rows() == rows
        except ExperimentError:
            refused += 1
    # Most of a DuckDB file is empty.
    assert refused >= (20 if suffix == ".parquet" else 1)


@BOTH
def test_rows_that_were_changed_by_hand_are_refused(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"h{suffix}"
    abeval.History(file).add(one())
    with duckdb.connect(str(file) if suffix == ".duckdb" else ":memory:") as connection:
        if suffix == ".duckdb":
            connection.execute(f"update {table.TABLE} set effect = 9")
        else:
            key = f"select decode(value) from parquet_kv_metadata('{file}')"
            ((digest,),) = connection.execute(f"{key} where key = 'abeval_digest'").fetchall()
            connection.execute(f"create table t as select * from '{file}'")
            connection.execute("update t set effect = 9")
            kept = f"format parquet, kv_metadata {{abeval_digest: '{digest}'}}"
            connection.execute(f"copy t to '{file}' ({kept})")
    before = file.read_bytes()
    for ask in (abeval.History(file).rows, lambda: abeval.History(file).add(one("b"))):
        with pytest.raises(ExperimentError, match="its rows are not those that were written"):
            ask()
    assert file.read_bytes() == before


@pytest.mark.whole
@BOTH
def test_a_history_without_a_digest_opens_with_a_note(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"h{suffix}"
    history = abeval.History(file)
    for each in past(8):
        history.add(each.result, each.replayed)
    rows, signed = history.rows(), history.report().notes
    with duckdb.connect(str(file) if suffix == ".duckdb" else ":memory:") as connection:
        if suffix == ".duckdb":
            connection.execute(f"comment on table {table.TABLE} is null")
        else:
            connection.execute(f"create table t as select * from '{file}'")
            connection.execute(f"copy t to '{file}' (format parquet)")
    assert history.rows() == rows
    assert [n for n in history.report().notes if n not in signed] == [
        "the history has no digest, so that damage to it would not be seen; the next abeval "
        "history add that changes it writes one"
    ]
    history.add(one("new"))
    assert not any("digest" in note for note in history.report().notes)


def test_a_history_that_another_program_saved_takes_any_row(tmp_path: Path) -> None:
    file, units = tmp_path / "h.parquet", 100_000
    abeval.History(file).add(one())
    frame = abeval.History(file).to_frame()
    # Narrow types, as programs write what fits into them.
    frame.assign(units=np.int8(100), effect=frame["effect"].astype("float32")).to_parquet(file)
    added = online("large", {"ctr": (0.0123456789012, 0.01)}, "ship")
    rows = tuple(replace(row, units=units) for row in added.scorecard)
    abeval.History(file).add(replace(added, scorecard=rows))
    (found,) = [row for row in abeval.History(file).rows() if row.experiment == "large"]
    assert found.units == units
    assert found.effect == 0.0123456789012


def test_a_view_in_place_of_the_table_is_refused(tmp_path: Path) -> None:
    file, secret = tmp_path / "h.duckdb", tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with duckdb.connect(str(file)) as connection:
        connection.execute(f"create view {table.TABLE} as select * from read_csv('{secret}')")
    for ask in (abeval.History(file).rows, lambda: abeval.History(file).add(one())):
        with pytest.raises(ExperimentError, match="abeval_history is a view"):
            ask()


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_csv('{}')",
        "copy abeval_history to '{}'",
        "attach '{}' as other",
        "install httpfs",
        "set enable_external_access = true",
    ],
)
def test_the_connection_of_a_history_opens_nothing_else(tmp_path: Path, statement: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with (
        closing(Scratch(None, "abeval-history-")) as scratch,
        pytest.raises(ExperimentError, match="is no history of abeval"),
        table._open_copy(tmp_path / "h.parquet", scratch) as (connection, _),
    ):
        connection.execute(statement.format(secret))
    assert secret.read_text() == "a\n1\n"


def test_hostile_names_are_data(tmp_path: Path) -> None:
    name = "'); drop table abeval_history; -- \"é\ud800"
    for suffix in ("parquet", "duckdb"):
        history = abeval.History(tmp_path / f"h.{suffix}")
        history.add(one(name), replayed(name, {"a'uc": (0.1, 0.1)}))
        assert history.add(one(name)).sources[0].change == "unchanged"
        assert len(history.rows()) == 4


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("h.csv", None, "a history is a Parquet or DuckDB file"),
        ("h.parquet", b"PAR1 no", "no history of abeval"),
        ("h.duckdb", b"no database", "cannot read"),
    ],
)
def test_a_file_that_is_no_history_is_refused(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ExperimentError, match=said):
        abeval.History(file).add(one())
    assert content is None or file.read_bytes() == content


def test_a_parquet_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "log.parquet"
    duckdb.execute(f"copy (select 1 as clicks) to '{file}' (format parquet)")
    with pytest.raises(ExperimentError, match=r"log.parquet is no history of abeval: .*experiment"):
        abeval.History(file).rows()


def test_an_open_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "h.duckdb"
    abeval.History(file).add(one())
    (tmp_path / "h.duckdb.wal").write_bytes(b"x")
    with pytest.raises(ExperimentError, match="open in another program"):
        abeval.History(file).add(one("b"))


def test_results_of_different_experiments_or_twice_the_same_kind(tmp_path: Path) -> None:
    history = abeval.History(tmp_path / "h.parquet")
    with pytest.raises(ExperimentError, match="different experiments: 'a' and 'b'"):
        history.add(one("a"), one("b"))
    with pytest.raises(ExperimentError, match="two results of the same kind"):
        history.add(one(), one(lift=0.1))
    with pytest.raises(ExperimentError, match="nothing to add"):
        history.add()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "no result of abeval: it has no effects"),
        ('{"plans": []}', "what abeval power wrote: it has no effects"),
        ('{"scorecard": [], "schema_version": "0"}', "schema version '0', not '1'"),
        ('{"scorecard": [], "schema_version": "1"}', "not a whole result: experiment"),
    ],
)
def test_json_that_is_no_result_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ExperimentError, match=said):
        abeval.History(tmp_path / "h.parquet").add(tmp_path / "r.json")
    with pytest.raises(ExperimentError, match="cannot read"):
        abeval.History(tmp_path / "h.parquet").add(tmp_path / "missing.json")


def test_a_study_gives_every_result_that_it_has_and_its_agreement_too(tmp_path: Path) -> None:
    both, name = past(1)[0], "e00"
    row = AgreementRow(
        *("treatment", "auc", "ctr", "goal", 0.02, 0.01, 0.03),
        *(0.01, 0.0, 0.02, "agree", None),
    )
    agreement = Agreement("1", name, 0.05, (), (row, replace(row, online="x")), *((),) * 6)
    study = Study(analysis=both.result, agreement=agreement)
    (tmp_path / "study.json").write_text(study.to_json())
    history = abeval.History(tmp_path / "h.parquet")
    added = history.add(tmp_path / "study.json")
    assert [(one.source, one.rows) for one in added.sources] == [("analysis", 2), ("agreement", 1)]
    (offline,) = [one for one in history.rows() if one.side == "offline"]
    assert (offline.metric, offline.variant, offline.effect) == ("auc", "treatment", 0.02)
    assert offline.se == pytest.approx(0.01 / 1.96, rel=1e-3)
    measures = {one.metric: one for one in build_measures(history.rows()).select_side("offline")}
    assert list(measures["auc"].effects) == [(name, "treatment")]
    with pytest.raises(ExperimentError, match="the study has no effects"):
        history.add(Study())


@pytest.mark.slow
@pytest.mark.whole
def test_preferences_stand_beside_the_lift_of_the_same_experiment(tmp_path: Path) -> None:
    history = abeval.History(tmp_path / "history.parquet")
    for number in range(5):
        lists = log(number, users=24, like={"A": 0.15, "B": 0.25})
        mixed = experiment(name=f"e{number}").preferences(logs={"impressions": lists})
        tested = one(f"e{number}", 0.01 * number)
        served = (
            replace(v, model=n) for v, n in zip(tested.experiment.variants, "AB", strict=True)
        )
        tested = replace(tested, experiment=replace(tested.experiment, variants=tuple(served)))
        written = tmp_path / f"{number}.json"
        written.write_text(mixed.to_json(), encoding="utf-8")
        added = history.add(tested, written)
        assert [s.source for s in added.sources] == ["analysis", "preferences"]
    row = next(r for r in history.rows() if (r.experiment, r.source) == ("e4", "preferences"))
    assert (row.variant, row.control, row.metric) == ("B", "A", "preference:clicks_per_user")
    assert row.effect == mixed["clicks_per_user"].preference
    prediction = history.report()["preference:clicks_per_user", "ctr"]
    assert prediction.experiments == 5
    broken = lists.assign(team=lists.team.where(lists.position > 1, "A"))
    untrusted = experiment(name="e0").preferences(logs={"impressions": broken})
    history.add(untrusted)
    assert build_measures(history.rows()).left_out["untrusted"] > 0
