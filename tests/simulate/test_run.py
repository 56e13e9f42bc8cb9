"""Simulated logs: sizes, rhythm, the truth about dirt recounted in SQL, and effects recovered."""

from __future__ import annotations

import itertools
import json
import tomllib
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import abeval
from abeval.assignment import Assignment
from abeval.cli.main import app
from abeval.errors import ExperimentError
from abeval.simulate import DEFAULT_IMPRESSIONS, Truth, run, simulate
from abeval.simulate.run import WRITTEN, write_experiment_text
from abeval.simulate.world import END, NAME, PRE_START, START, VARIANTS, Plan

COMMITTED = Path(__file__).parents[2] / "sample_logs"
DAY = "interval 1 day"


class Log:
    """A folder of logs, asked in plain SQL."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.truth = json.loads((folder / "truth.json").read_text())
        self.con = duckdb.connect()
        self.con.execute(f"""
            create view impressions as from '{folder}/impressions/*.parquet';
            create view clicks as from '{folder}/clicks.parquet';
            create view items as from '{folder}/items.parquet';
            create view clean as select distinct * from impressions where user_id is not null;
            create view joined as
            select i.*, c.time as click_time, c.dwell_ms
            from (select distinct * from impressions) as i join clicks as c using (impression_id);
            create view counted as
            select clean.*, k.impression_id is not null as click
            from clean left join (
                select distinct impression_id from joined where click_time <= time + {DAY}
            ) as k using (impression_id);
        """)

    def rows(self, query: str) -> list[tuple[int, ...]]:
        return self.con.execute(query).fetchall()

    def one(self, query: str) -> int:
        return self.rows(query)[0][0]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    folder = tmp_path_factory.mktemp("simulated")
    simulate(folder)
    return Log(folder)


def test_rows(log: Log) -> None:
    rows = log.truth["rows"]
    for table in ("impressions", "clicks", "items"):
        assert log.one(f"select count(*) from {table}") == rows[table]
    assert log.one("select count(distinct impression_id) from impressions") == 200_000
    assert log.one("select count(distinct request_id) from impressions") == rows["requests"]
    assert log.one("select count(distinct user_id) from impressions") == rows["users"]
    counts = "select count(*), count(distinct user_id) from impressions where variant is not null"
    assert log.rows(counts) == [(rows["impressions_test"], rows["users_test"])]
    on_test = "select count(*) from joined where variant is not null"
    assert log.one(on_test) == rows["clicks_test"]


def test_every_request_is_a_list_of_twenty_different_items(log: Log) -> None:
    lists = """
    select request_id from (select distinct * from impressions) group by request_id
    having count(*) <> 20 or count(distinct item_id) <> 20 or count(distinct position) <> 20
        or min(position) <> 1 or max(position) <> 20
        or count(distinct (time, variant, device, country, coalesce(user_id, ''))) <> 1
    """
    assert log.rows(lists) == []
    assert log.rows("select 1 from impressions anti join items using (item_id)") == []


def test_dirt_recounted_from_the_files(log: Log) -> None:
    assert recount(log, "true") == log.truth["dirt"]
    assert recount(log, "variant is not null") == log.truth["dirt_test"]


def recount(log: Log, where: str) -> dict[str, int]:
    queries = {
        "duplicate_impressions": f"""select count(*) - count(distinct impression_id)
            from impressions where {where}""",
        "null_user_impressions": f"""select count(*) from impressions
            where user_id is null and {where}""",
        "null_score_impressions": f"""select count(*) from impressions
            where score_baseline is null and score_candidate is null and {where}""",
        "crossover_users": """select count(*) from (
            select user_id from impressions where user_id is not null
            group by user_id having count(distinct variant) > 1)""",
        "orphan_clicks": """select count(*) from clicks anti join impressions
            using (impression_id)""",
        "late_clicks": f"select count(*) from joined where click_time > time + {DAY} and {where}",
        "duplicate_clicks": f"""select sum(n - 1) from (
            select count(*) as n from joined where {where}
            group by impression_id, click_time, dwell_ms)""",
        "null_dwell_clicks": f"select count(*) from joined where dwell_ms is null and {where}",
    }
    return {kind: int(log.one(query)) for kind, query in queries.items()}


def test_no_row_is_dirty_in_two_ways(log: Log) -> None:
    # Duplicates are exact, whatever columns they are judged by.
    assert log.one("select count(*) from (select distinct * from impressions)") == 200_000
    overlaps = {
        "a duplicate without a user or scores": """select 1 from impressions
            group by impression_id, user_id, score_baseline, score_candidate
            having count(*) > 1 and (user_id is null or score_baseline is null)""",
        "one score without the other": """select 1 from impressions
            where (score_baseline is null) <> (score_candidate is null)""",
        "no user and no scores": """select 1 from impressions
            where user_id is null and score_baseline is null""",
        "a click on an impression without a user": "select 1 from joined where user_id is null",
        "a late click, and one in time": f"""select 1 from joined group by impression_id
            having bool_or(click_time > time + {DAY}) and count(*) > 1""",
        "a late click after the period": f"""select 1 from joined
            where click_time > time + {DAY} and click_time >= timestamp '{END}'""",
        "a duplicate click without dwell": """select 1 from joined group by impression_id
            having count(*) > 1 and count(dwell_ms) < count(*)""",
        "two different clicks on one impression": """select 1 from clicks
            group by impression_id having count(distinct (time, dwell_ms)) > 1""",
        "an orphan or late click without dwell": f"""select 1 from clicks
            left join impressions as i using (impression_id) where dwell_ms is null
            and (i.time is null or clicks.time > i.time + {DAY})""",
    }
    assert {name for name, query in overlaps.items() if log.rows(query)} == set()


def test_periods(log: Log) -> None:
    misplaced = f"""
    select 1 from impressions
    where time < timestamp '{PRE_START}' or time >= timestamp '{END}'
        or (variant is null) <> (time < timestamp '{START}')
    """
    assert log.rows(misplaced) == []
    assert log.rows("select 1 from joined where click_time <= time") == []


def test_variants_are_the_hash_of_the_experiments_name(log: Log) -> None:
    seen = log.con.execute("""
        select user_id, min_by(variant, time) as first_seen, count(distinct variant) as variants
        from clean where variant is not null group by user_id order by user_id
    """).fetchall()
    users, first, variants = zip(*seen, strict=True)
    hashed = Assignment(NAME, dict.fromkeys(VARIANTS, 0.5)).assign_many(users).variant
    agree = hashed == pd.Series(first)
    assert agree.all()
    assert sum(n == 2 for n in variants) == log.truth["dirt"]["crossover_users"]
    assert abs(np.mean(hashed == "treatment") - 0.5) < 0.02


def test_users_differ_and_come_back_and_weekends_are_busy(log: Log) -> None:
    quantiles, returning = log.rows("""
        select quantile_disc(requests, [0.5, 0.99]), avg(cast(days > 1 as double)) from (
            select count(distinct request_id) as requests,
                count(distinct cast(time as date)) as days
            from clean group by user_id
        )""")[0]
    assert quantiles[1] >= 5 * quantiles[0]
    assert returning > 0.4
    by_day = dict(log.rows("select isodow(time), count(*) from impressions group by all"))
    assert min(by_day[6], by_day[7]) > 1.1 * max(by_day[day] for day in (1, 2, 3, 4))


def test_clicks_fall_with_position_and_dwell_is_skewed(log: Log) -> None:
    rates = [
        rate
        for _, rate in log.rows(
            "select position, avg(cast(click as int)) from counted group by all order by all"
        )
    ]
    assert rates[0] > 1.5 * rates[2] > 3 * rates[14]
    mean, median, least = log.rows(
        "select avg(dwell_ms), median(dwell_ms), min(dwell_ms) from clicks"
    )[0]
    assert mean > 1.5 * median > 0
    assert least >= 200


def test_scores_are_calibrated_and_the_candidate_knows_more(log: Log) -> None:
    served = log.rows("""
        select sum(if(variant = 'treatment', score_candidate, score_baseline))
            / sum(cast(click as int)) as q
        from counted where score_baseline is not null group by coalesce(variant, 'control')
        order by coalesce(variant, 'control')
    """)
    assert [q for (q,) in served] == pytest.approx([1, 1], abs=0.1)
    assert (
        log.rows("""select 1 from impressions
        where not (score_baseline between 0 and 1 and score_candidate between 0 and 1)""")
        == []
    )
    baseline, candidate = log.rows("""
        select corr(score_baseline, p), corr(score_candidate, p)
        from (select *, cast(click as int) as p from counted where position between 5 and 20)
    """)[0]
    assert candidate > 1.2 * baseline > 0.05


def per_user(log: Log) -> pd.DataFrame:
    columns = log.con.execute("""
        select min_by(variant, time) = 'treatment' as treated, count(*) as n,
            sum(cast(click as int)) as clicks, count(distinct request_id) as requests
        from counted where variant is not null group by user_id
    """).fetchnumpy()
    return pd.DataFrame(columns)


def relative_lift(users: pd.DataFrame, above: str, below: str | None) -> tuple[float, float]:
    """Lift of a ratio of sums and its standard error by the delta method."""
    ratios, errors = [], []
    for _, arm in users.groupby("treated"):
        x = arm[above].to_numpy(float)
        y = np.ones(len(arm)) if below is None else arm[below].to_numpy(float)
        ratios.append(x.sum() / y.sum())
        errors.append(np.std(x - ratios[-1] * y) / y.mean() / np.sqrt(len(arm)) / ratios[-1])
    return ratios[1] / ratios[0] - 1, ratios[1] / ratios[0] * float(np.hypot(*errors))


def test_the_sample_finds_what_is_true(log: Log) -> None:
    users, truth = per_user(log), log.truth["lift"]
    lift, error = relative_lift(users, "clicks", "n")
    assert lift / error > 3
    assert abs(lift - truth["ctr"]) < 2 * error
    requests, error = relative_lift(users, "requests", None)
    assert truth["page_views_per_user"] == 0
    assert abs(requests) < 2 * error
    # The guardrail of the experiment file can be shown to hold.
    assert requests - 1.96 * error > -0.1


def test_expected_clicks_are_those_observed(log: Log) -> None:
    expected = log.truth["expected"]["ctr"]
    observed = dict(
        log.rows("""
        select variant, avg(cast(click as int)) from counted where variant is not null group by 1
    """)
    )
    assert observed == pytest.approx(expected, rel=0.05)
    lift = expected["treatment"] / expected["control"] - 1
    assert log.truth["lift"]["ctr"] == pytest.approx(lift)


def test_committed_sample_is_small_and_is_the_default_simulation(log: Log) -> None:
    assert sum(path.stat().st_size for path in COMMITTED.rglob("*") if path.is_file()) < 12_000_000
    committed = Log(COMMITTED)
    assert {key: committed.truth[key] for key in ("seed", "dirt", "rows")} == {
        key: log.truth[key] for key in ("seed", "dirt", "rows")
    }
    assert committed.truth["lift"] == pytest.approx(log.truth["lift"])
    assert (COMMITTED / "experiment.toml").read_text() == write_experiment_text(Plan())
    # The last digits of scores are those of a machine's exponential function.
    scores = ("score_baseline", "score_candidate", "ranked_by")
    rounded = f"replace ({', '.join(f'round({one}, 6) as {one}' for one in scores)})"
    files = dict.fromkeys(("clicks", "exposures", "items", "training/*"), "")
    for name, columns in (files | {"impressions/*": rounded}).items():
        ours, theirs = (
            f"select * {columns} from '{folder}/{name}.parquet'"
            for folder in (COMMITTED, log.folder)
        )
        assert log.rows(f"{ours} except all {theirs}") == [], name
        assert log.rows(f"{theirs} except all {ours}") == [], name


def test_exposures_are_before_what_was_shown_and_nothing_was_learned_in_the_test(
    log: Log,
) -> None:
    folder, rows = log.folder, log.truth["rows"]
    assert log.one(f"select count(*) from '{folder}/exposures.parquet'") == rows["exposures"]
    assert log.one(f"select count(*) from '{folder}/training/*.parquet'") == rows["training"]
    late = f"""
    select user_id, variant from '{folder}/exposures.parquet'
    join (select user_id, variant, min(time) as shown from clean group by all)
        using (user_id, variant)
    where time > shown or time < timestamp '{START}'
    """
    assert log.rows(late) == []
    learned = f"select 1 from '{folder}/training/*.parquet' where time >= timestamp '{START}'"
    assert log.rows(learned) == []


def test_variants_are_served_alike_but_for_their_scores(log: Log) -> None:
    own = "if(variant = 'treatment', score_candidate, score_baseline)"
    assert log.rows(f"select 1 from clean where ranked_by is distinct from {own}") == []
    assert log.rows("select 1 from clean where model_trained > time") == []


def test_past_experiments_ended_one_after_another_and_differ_in_what_they_know(
    tmp_path: Path,
) -> None:
    simulate(tmp_path, 5_000, past=3)
    files = [tmp_path / "past" / f"ranker_{n}" / "experiment.toml" for n in (1, 2, 3)]
    said = [tomllib.loads(file.read_text()) for file in (*files, tmp_path / "experiment.toml")]
    for earlier, later in itertools.pairwise(said):
        assert earlier["period"]["end"] == later["pre_period"]["start"]
    truths = [json.loads(file.with_name("truth.json").read_text()) for file in files]
    by_noise = sorted(truths, key=lambda truth: truth["noise"]["candidate"])
    lifts = [truth["lift"]["ctr"] for truth in by_noise]
    assert lifts[0] > 0 > lifts[-1]
    assert lifts == sorted(lifts, reverse=True)


def test_experiment_file_says_what_was_simulated(log: Log) -> None:
    said = tomllib.loads((log.folder / "experiment.toml").read_text())
    assert said["name"] == NAME
    assert said["pre_period"] == {"start": PRE_START, "end": START}
    assert said["period"] == {"start": START, "end": END}
    assert tuple(said["variants"]) == VARIANTS
    assert set(log.truth["lift"]) <= {metric["name"] for metric in said["metrics"]}


def contents(folder: Path) -> list[list[tuple[object, ...]]]:
    con = duckdb.connect()
    files = sorted(folder.rglob("*.parquet"))
    return [con.execute("from read_parquet(?)", [str(file)]).fetchall() for file in files]


def test_same_seed_same_rows(tmp_path: Path) -> None:
    one, two, other = (tmp_path / name for name in ("one", "two", "other"))
    truth = simulate(one, 10_000, seed=3)
    assert simulate(two, 10_000, seed=3) == truth
    assert contents(one) == contents(two)
    simulate(other, 10_000, seed=4)
    assert contents(one) != contents(other)


def test_large_logs_come_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "requests_per_chunk", 150)
    done: list[tuple[int, int]] = []
    truth = simulate(str(tmp_path), 10_000, progress=lambda *step: done.append(step))
    assert done == [(3_000, 10_000), (6_000, 10_000), (9_000, 10_000), (10_000, 10_000)]
    names = [path.name for path in sorted((tmp_path / "impressions").iterdir())]
    assert names == [f"part-{i:03d}.parquet" for i in range(4)]
    log = Log(tmp_path)
    assert recount(log, "true") == truth.dirt == log.truth["dirt"]
    assert recount(log, "variant is not null") == truth.dirt_test
    assert log.one("select count(distinct impression_id) from impressions") == 10_000


@pytest.mark.first_cases(2)
@pytest.mark.whole
@pytest.mark.parametrize("impressions", [5_000, 5_019, 37_777])
@pytest.mark.parametrize("seed", [0, 1])
def test_any_size_adds_up(tmp_path: Path, impressions: int, seed: int) -> None:
    truth = simulate(tmp_path, impressions, seed)
    log = Log(tmp_path)
    assert recount(log, "true") == truth.dirt
    assert recount(log, "variant is not null") == truth.dirt_test
    assert all(truth.dirt.values())
    assert truth.impressions == impressions // 20 * 20


def test_an_earlier_simulation_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    simulate(tmp_path, 10_000)
    (tmp_path / "report.html").write_text("mine")
    (tmp_path / "impressions" / "part-999.parquet").write_text("stale")
    simulate(tmp_path, 5_000)
    assert {path.name for path in tmp_path.iterdir()} == {*WRITTEN, "report.html"}
    assert [path.name for path in (tmp_path / "impressions").iterdir()] == ["part-000.parquet"]


def test_an_edited_experiment_file_is_not_overwritten(tmp_path: Path) -> None:
    simulate(tmp_path, 5_000, seed=1)
    rows = (tmp_path / "clicks.parquet").read_bytes()
    edited = (tmp_path / "experiment.toml").read_text().replace("alpha = 0.05", "alpha = 0.01")
    (tmp_path / "experiment.toml").write_text(edited)
    with pytest.raises(ExperimentError, match=r"experiment\.toml is not as simulate writes it"):
        simulate(tmp_path, 5_000, seed=2)
    assert (tmp_path / "experiment.toml").read_text() == edited
    assert (tmp_path / "clicks.parquet").read_bytes() == rows


def test_logs_of_somebody_else_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "clicks.parquet").write_text("precious")
    with pytest.raises(ExperimentError, match="simulate did not write"):
        simulate(tmp_path, 5_000)
    assert (tmp_path / "clicks.parquet").read_text() == "precious"
    with pytest.raises(ExperimentError, match="is a file"):
        simulate(tmp_path / "clicks.parquet", 5_000)


def test_a_simulation_broken_off_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(plan: Plan, folder: Path, progress: object) -> Truth:
        (folder / "clicks.parquet").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_simulate_files", stop)
    with pytest.raises(KeyboardInterrupt):
        simulate(tmp_path, 5_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("impressions", "seed"), [(4_999, 7), (0, 7), (-1, 7), (5_000, -1)])
def test_impossible_sizes(tmp_path: Path, impressions: int, seed: int) -> None:
    with pytest.raises(ExperimentError):
        simulate(tmp_path, impressions, seed)
    assert list(tmp_path.iterdir()) == []


def test_sizes_follow_from_the_number_of_impressions() -> None:
    assert DEFAULT_IMPRESSIONS == 200_000
    plans = [Plan(n) for n in (5_000, 200_000, 2_000_000, 20_000_000, 50_000_000)]
    assert [plan.users for plan in plans] == [83, 3_333, 40_000, 500_000, 1_250_000]
    assert [plan.items for plan in plans] == [400, 2_000, 20_000, 100_000, 100_000]


@pytest.mark.whole
@pytest.mark.parametrize(("design", "units"), [("clusters", 60), ("switchback", 4 * 14 * 12)])
def test_stores_and_cities_are_judged_in_two_commands(
    design: str, units: int, tmp_path: Path
) -> None:
    run = CliRunner().invoke(app, ["tools", "simulate", str(tmp_path), "--design", design])
    assert run.output.strip() == str(tmp_path / "experiment.toml")
    result = abeval.load(tmp_path / "experiment.toml").analyze()
    row = result["ctr"]
    assert (row.status, row.units + row.units_control) == ("better", units)
    assert row.method == "randomisation"
    assert row.lift_low < json.loads((tmp_path / "truth.json").read_text())["lift"]["ctr"]
    assert all(check.status != "fail" for check in result.trust)
