"""Every statement of every kind of analysis, on DuckDB and Spark; whole results too.

Long: `python -m pytest -m spark -n 0 tests/engines`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.aggregates.collect import collect_prepared
from abeval.agreement.agree import read_offline
from abeval.assignment import Assignment, Holdout, Layer, Plan
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.spark.engine import SparkEngine
from abeval.engines.sql import query_names
from abeval.errors import LogError, QueryError
from abeval.experiment.metrics import list_scorecard_metrics
from abeval.experiment.model import Experiment
from abeval.experiment.sources import LogSource
from abeval.interleaving.log import deal_units, read_lists
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from abeval.logs.units import apply_rule, find_hash_indices
from abeval.metrics.definition import Metric
from abeval.off_policy.log import PolicyChoice
from abeval.off_policy.run import OffPolicyOptions, evaluate_policy
from abeval.offline.replay import ReplayOptions, replay
from abeval.table.warehouse import write_totals
from abeval.time.analysis import analyze_windows
from tests.aggregates import events_world
from tests.assignment.schemes import SETTINGS, WEIGHTS, odd_ids, scheme
from tests.drafts.test_guess_unit import visits
from tests.engines import nasty, test_copies
from tests.engines.expressions import EXPRESSIONS, NASTY, REFUSED, listed
from tests.engines.parity import Both, difference, first_difference
from tests.engines.sessions import INTERPRETED, spark_session
from tests.inference import test_clustered_switchbacks
from tests.interleaving import world as interleaved
from tests.logs.small import small_log
from tests.open_runs import analyze_on
from tests.worlds.plants.run import simulate_plant

# pyspark warns about pandas and about sockets, all along.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

SAMPLE = Path(__file__).parents[2] / "sample_logs"
WORDS, NUMBERS = nasty.words_experiment().experiment, nasty.numbers_experiment().experiment
BUSY = nasty.busy_experiment().experiment
AGREED = nasty.agreed_experiment().experiment


def metrics(experiment: Experiment, names: Sequence[str] = ()) -> list[Metric]:
    chosen = list_scorecard_metrics(experiment)
    return [metric for metric in chosen if not names or metric.name in names]


OFFLINE = [
    *("ndcg@3[lin]", "gauc[impressions]", "fcp[half]", "auc", "log_loss", "ece[mass]"),
    *("novelty@3[miuf]", "serendipity@3", "ild@3[category]", "coverage@3", "personalisation@3"),
]
"""One or two of each family of queries."""

TIMED = [
    *("ctr", "page_views_per_user", "dwell_p50", "sessions_per_user", "gauc", "auc", "ndcg"),
    *("category_diversity", "novelty", "serendipity", "coverage", "ratio"),
]
"""One of each source: every window asks for each anew."""


SINCE_EXPOSURE = ("clicked_soon", "items_clicked", "first", "kinds", "basket", "returned", "funnel")
"""One of each way to combine rows, of each log."""


def _by_bucket(engine: Any) -> None:
    """As for millions of units, on few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("abeval.aggregates.aggregates.UNITS_PER_BUCKET", 0)
        collect_prepared(Run(BUSY, engine, nasty.busy()), metrics(BUSY), replays=True)


def _spelled(engine: Any) -> None:
    """Variants that no experiment names, ties that nothing breaks; then what defines a unit."""
    entries = {
        "variants": {"a": {}, "b": {}},
        "logs": {"impressions": {}},
        "segments": {"own": "click"},
    }
    log = nasty.spelled(nasty.tied()["impressions"])
    run = Run(nasty.tied_experiment(**entries).experiment, engine, {"impressions": log})
    write_totals(run, prepare(run, metrics(run.experiment)).schema, set())
    assert engine.rows("select * from placed")


def _sums(engine: Any) -> None:
    """What `abeval tools sql --sums` sums by unit, of logs with and without exposures."""
    named = ["ctr", "page_views_per_user", "sessions_per_user"]
    table = nasty.units_experiment().experiment
    for experiment, frames in (
        (WORDS, nasty.words()),
        (nasty.tied_experiment().experiment, nasty.tied()),
        (table, nasty.units()),
    ):
        run = Run(experiment, engine, frames)
        chosen = metrics(experiment, () if experiment.is_unit_table else named)
        shape = prepare(run, chosen).schema
        write_totals(run, shape, {metric.source for metric in chosen})
        assert engine.rows("select * from unit_totals")


def _by_rule(engine: Any) -> None:
    """Units that a platform placed: by the log, compared with its rule, and by the rule itself."""
    logged = small_log(600)
    placed = logged.drop(columns="variant")
    loaded = abeval.define(
        name="exp",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        assignment={"scheme": SETTINGS["growthbook_1"]},
        logs={"impressions": {}},
        metrics=[{"name": "ctr"}],
        trust={"aa_runs": 0},
    )
    for frame in (logged, placed):
        analyze_on(Run(loaded.experiment, engine, {"impressions": frame}))


def _planted(engine: Any) -> None:
    """Every optional column of an agreement, and the rows that a model learned from.

    Its levels are computed although the log is small and in no order.
    """
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("abeval.agreement.gap._LEAST_CLICKS", 0)
        patch.setattr("abeval.agreement.gap._LEAST_ORDER", -np.inf)
        simulate_plant(folder, "skewed_scores", impressions=6_000)
        experiment = abeval.load(Path(folder) / "experiment.toml").experiment
        frames = {
            "impressions": pd.read_parquet(Path(folder) / "impressions" / "log.parquet"),
            "training": pd.read_parquet(Path(folder) / "training.parquet"),
        }
        read_offline(Run(experiment, engine, frames), ReplayOptions(metrics=["auc"]))


def _interleaved(engine: Any) -> None:
    """Lists drafted again, credit by position, and orders of what was seen."""
    shown = interleaved.log(users=40)
    orders = shown.loc[shown.click == 1, ["user_id", "item_id", "time"]].assign(price=2.5)
    orders["time"] += pd.Timedelta(minutes=5)
    source = {"path": "none.parquet", "columns": {"ts": "time"}}
    experiment = interleaved.experiment(
        interleaving={"debias": True},
        logs={"impressions": source, "events": {"orders": source}},
        metrics=[
            {"name": "clicks_per_user"},
            {"name": "revenue", "log": "orders", "value": "price", "per_unit": "sum"},
        ],
    ).experiment
    assert experiment.interleaving is not None
    run = Run(deal_units(experiment), engine, {"impressions": shown, "orders": orders})
    assert read_lists(run, experiment.interleaving).credit.keys() == {"clicks_per_user", "revenue"}


def _sessions(both: Both) -> None:
    """People have one variant in all of their sessions, which are the unit: both engines say so."""
    entries = {"name": "sessions", "unit": "session_id", "control": "control"}
    entries |= {"variants": {"control": {}, "treatment": {}}, "logs": {"impressions": {}}}
    experiment = abeval.define({**entries, "metrics": [{"name": "ctr"}]}).experiment
    analyze_on(Run(experiment, both, {"impressions": visits("user_id")}))


def _add_states(logs: Mapping[str, Any]) -> dict[str, Any]:
    """Give two rows each order, of its states."""
    number = np.arange(len(logs["orders"]))
    states = np.where(number % 2, "paid", "created")
    return {**logs, "orders": logs["orders"].assign(order_id=number // 2, status=states)}


RUNS: dict[str, Callable[[Any], object]] = {
    "analysis of words": lambda e: analyze_on(Run(WORDS, e, nasty.words())),
    "analysis of numbers": lambda e: analyze_on(Run(NUMBERS, e, nasty.numbers())),
    "a table of units": lambda e: analyze_on(
        Run(nasty.units_experiment().experiment, e, nasty.units())
    ),
    "cuts of words": lambda e: analyze_on(
        Run(
            nasty.words_experiment(
                cuts={"kind": "category", "where": 'lower("Device")'},
                metrics=[{"name": m} for m in ("ctr", "dwell_per_user", "gauc", "auc", "q_ctr")],
                privacy={"min_units": 3},
            ).experiment,
            *(e, nasty.words()),
        )
    ),
    "events since exposure": lambda e: analyze_on(
        Run(
            events_world.experiment(
                timezone="Asia/Kolkata",
                pre_period={"start": "2026-02-22", "end": "2026-03-01"},
                inference={"adjust": "cuped"},
                logs=events_world.LOGS_WITH_UNITS,
                metrics=[
                    *(m for m in events_world.METRICS if m["name"] in SINCE_EXPOSURE),
                    {"name": "tall", "log": "units", "value": "size"},
                    {"name": "known", "log": "orders", "value": "amount", "missing": "drop"},
                ],
            ).experiment,
            *(e, {**_add_states(events_world.world(90).logs), "units": events_world.units(90)}),
        )
    ),
    "ties by hash": lambda e: analyze_on(Run(nasty.tied_experiment().experiment, e, nasty.tied())),
    "variants in other spellings": _spelled,
    "sums for a warehouse": _sums,
    "a rule of a platform": _by_rule,
    "clicks by time": lambda e: analyze_on(
        Run(nasty.touched_experiment().experiment, e, nasty.touched())
    ),
    "time of words": lambda e: analyze_windows(
        Run(WORDS, e, nasty.words()), metrics(WORDS, TIMED), (3,), ()
    ),
    "A/A of sub-buckets": _by_bucket,
    "hours of a busy log": lambda e: analyze_windows(
        Run(BUSY, e, nasty.busy()), metrics(BUSY), (3,), (), ("hour", "weekday")
    ),
    "replay of a busy log": lambda e: replay(
        Run(BUSY, e, nasty.busy()),
        ReplayOptions(k=(3,), metrics=["rprec", "ndcg@3[lin,ties]", "gauc[pairs]", "map@3[R]"]),
    ),
    "replay of words": lambda e: replay(
        Run(WORDS, e, nasty.words()),
        ReplayOptions(k=(3,), metrics=OFFLINE, relevance="dwell_ms / 7000"),
    ),
    "replay of numbers": lambda e: replay(
        Run(NUMBERS, e, nasty.numbers()),
        ReplayOptions(
            k=(3,),
            metrics=[*OFFLINE, "ild@3[vectors]", "recall@3", "gauc[units]"],
        ),
    ),
    "blends and parts of numbers": lambda e: replay(
        Run(
            nasty.numbers_experiment(
                models={"x": {"score": "a"}, "y": {"score": "0.3 * a + 0.7 * b / position"}}
            ).experiment,
            *(e, nasty.numbers()),
        ),
        ReplayOptions(
            k=(3, "own: 1 + 1"),
            metrics=[
                *("ndcg@own[lin]", "bpref", "err@3", "rbp@own[0.8]", "judged@3", "r2", "mape"),
                "prediction_coverage",
            ],
            where={"some": "a > 0.2 and position < 4"},
        ),
    ),
    "vectors of numbers": lambda e: replay(
        Run(NUMBERS, e, nasty.numbers()),
        ReplayOptions(k=(3,), metrics=["dcg@3[lin]"], relevance="similarity"),
    ),
    "agreement of words": lambda e: read_offline(
        Run(AGREED, e, nasty.words()), ReplayOptions(k=(3,), metrics=["auc", "q_ctr"])
    ),
    "agreement of a planted log": _planted,
    "interleaved lists": _interleaved,
    "cities in turn": lambda e: analyze_on(
        Run(
            abeval.define(test_clustered_switchbacks.entries()).experiment,
            *(e, {"impressions": test_clustered_switchbacks.log()}),
        )
    ),
    "sessions of people who were randomised": _sessions,
    "policy of words": lambda e: evaluate_policy(
        *(Run(WORDS, e, nasty.words()), "Ä", PolicyChoice(to="it's \\b")),
        OffPolicyOptions((10.0,), (10.0,), (100.0,), min_ess=1.0),
    ),
}

RAN: set[str] = set()
"""Queries that ran on both engines, over all tests of this module."""


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark_session() as made:
        yield made


@pytest.mark.parametrize("name", RUNS)
def test_every_statement_has_one_answer(name: str, session: Any) -> None:
    both = Both(DuckDBEngine(), SparkEngine(session=session))
    try:
        RUNS[name](both)
        assert both.ran
    finally:
        both.close()
        RAN.update(both.ran)


@pytest.mark.parametrize("command", ["analyze", "replay"])
def test_the_sample_logs_have_one_result(command: str, session: Any) -> None:
    """With all settings of a session as Spark has them."""
    run = getattr(abeval.load(SAMPLE / "experiment.toml"), command)
    for name in INTERPRETED:
        session.conf.unset(name)
    mine, theirs = json.loads(run().to_json()), json.loads(run(engine=session).to_json())
    for name, value in INTERPRETED.items():
        session.conf.set(name, value)
    assert difference(mine, theirs) is None
    assert session.catalog.listTables() == []


def test_units_are_numbered_alike(session: Any) -> None:
    ids = [*nasty.NAMES, None, *(f"u{i * 7919 % 4001}" for i in range(4000))]
    sql = "select row_number() over (order by logged_id) as unit_id, logged_id from known"
    duck, spark = DuckDBEngine(), SparkEngine(session=session)
    try:
        for engine in (duck, spark):
            engine.add_frame("known", pd.DataFrame({"logged_id": ids}))
            engine.table("numbered", sql)
        assert list(duck.columns("numbered")) == list(spark.columns("numbered"))
        both = (engine.rows("select * from numbered") for engine in (duck, spark))
        assert first_difference(*both) is None
    finally:
        spark.close()
        duck.close()


def test_every_rule_gives_ten_thousand_odd_ids_the_variant_that_python_gives(session: Any) -> None:
    units = odd_ids(10_000)
    layer = Layer("ranker", {"exp": (100_000, 800_000)})
    plan = Plan(Assignment("exp", WEIGHTS), 0.6, (layer, "exp"), Holdout("hold", 0.1))
    rules = {"abeval": plan.rule()} | {name: scheme(name).rule(WEIGHTS) for name in SETTINGS}
    engine = SparkEngine(session=session)
    engine.add_frame("ids", pd.DataFrame({"logged_id": units}))
    unit_hash = engine.hash64(["logged_id"])
    engine.view("logged_names", f"select logged_id, {unit_hash} as unit_hash from ids")
    known = engine.frame("select logged_id, unit_hash from logged_names")
    hashes = np.sort(known["unit_hash"].to_numpy())
    place = find_hash_indices(known["unit_hash"].to_numpy(), hashes)
    for name, rule in rules.items():
        names = sorted({v for v in rule.variants(units) if v is not None})
        codes = apply_rule(engine, rule, hashes, names)[place]
        expected = [None if code < 0 else names[code] for code in codes]
        assert expected == rule.variants(known["logged_id"]), name
    engine.close()


def test_an_expression_has_one_value_or_is_refused(session: Any, tmp_path: Path) -> None:
    """Spark may refuse what DuckDB answers, and never gives another answer."""
    file = tmp_path / "nasty.parquet"
    duck, spark = DuckDBEngine(), SparkEngine(session=session)
    duck.table("n", NASTY)
    duck.rows(f"copy n to '{file}' (format parquet)")
    spark.add_log("n", LogSource(path=str(file)))
    columns = (f"{text} as c_{i}" for i, text in enumerate(listed(EXPRESSIONS)))
    sql = f"select id, {', '.join(columns)} from n"
    mine, theirs = (sorted(engine.rows(sql), key=itemgetter(0)) for engine in (duck, spark))
    values = (zip(*rows, strict=True) for rows in (mine, theirs))
    for text, *columns in zip(["id", *listed(EXPRESSIONS)], *values, strict=True):
        pairs = (list(enumerate(column)) for column in columns)
        assert first_difference(*pairs) is None, text
    for text in listed(REFUSED):
        with pytest.raises(QueryError):
            spark.rows(f"select id, {text} as value from n")
    spark.close()
    duck.close()


def test_frames_tables_and_files_of_spark_are_read(session: Any, tmp_path: Path) -> None:
    frame = nasty.words()["impressions"]
    loaded = nasty.words_experiment(metrics=[{"name": "ctr"}])
    expected = loaded.analyze(logs={"impressions": frame})
    shown = session.createDataFrame(frame.astype(object).where(frame.notna(), None))
    shown.createOrReplaceTempView("shown")
    logs = {"impressions": {"columns": {"score": "model_score"}}}
    table = {"impressions": {**logs["impressions"], "table": "shown"}}
    by_table = nasty.words_experiment(metrics=[{"name": "ctr"}], logs=table)
    assert by_table.analyze(engine=session)["ctr"].units == expected["ctr"].units
    found = by_table.analyze(logs={"impressions": shown}, engine=session)
    assert found["ctr"].units == expected["ctr"].units
    missing = nasty.words_experiment(logs={"impressions": {"table": "showm"}})
    with pytest.raises(LogError, match="no table 'showm'; did you mean `shown`"):
        missing.analyze(engine=session)
    session.catalog.dropTempView("shown")


@pytest.mark.parametrize("name", test_copies.WORLDS)
def test_a_file_of_any_kind_has_the_same_rows(session: Any, tmp_path: Path, name: str) -> None:
    """Workbooks, databases, other encodings: DuckDB or Python reads them for Spark too."""
    users = test_copies.table_of_users()
    test_copies.made(name, tmp_path, users)
    own = test_copies.NESTED if name == "nested.jsonl" else {}
    unit, variant = own.get("user_id", "user_id"), own.get("group", "group")
    entries = {"path": name, **test_copies.WORLDS[name][2], "columns": {"variant": variant}}
    source = LogSource.model_validate(entries)
    both = Both(DuckDBEngine(folder=tmp_path), SparkEngine(folder=tmp_path, session=session))
    try:
        both.add_log("raw_units", source.map_unit(unit))
        assert both.columns("raw_units")[unit] == "BIGINT"
        assert len(both.rows("select * from raw_units")) == len(users)
    finally:
        both.close()


def test_the_sessions_settings_are_put_back(session: Any) -> None:
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    engine = SparkEngine(session=session)
    assert session.conf.get("spark.sql.session.timeZone") == "UTC"
    engine.close()
    assert session.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
    session.conf.unset("spark.sql.session.timeZone")


def test_every_query_ran_on_both() -> None:
    """After the others, which fill `RAN`: a query nobody ran is one nobody compared."""
    print(f"{len(RAN)} of {len(query_names())} queries ran on both engines")  # noqa: T201
    assert sorted(RAN) == sorted(query_names())


SHAPES: dict[str, dict[str, Any]] = {
    "filter, and local times": {
        "ts_zone": "Europe/Berlin",
        "where": "position < 4 and category <> 'x'",
    },
    "query, and local times of half an hour": {
        "ts_zone": "Australia/Lord_Howe",
        "query": "select l.*, u.variant from log l join users u on l.user_id = u.user_id",
    },
}


@pytest.mark.parametrize("shape", SHAPES)
def test_logs_of_any_shape_are_the_same(session: Any, tmp_path: Path, shape: str) -> None:
    """With times that a clock shows twice or never, in a file whose name is a glob."""
    hours = pd.date_range("2024-04-06 12:00", "2024-04-07 06:00", freq="7min", unit="us")
    nights = [hours, hours - pd.Timedelta(days=7), hours + pd.Timedelta(days=203)]
    ts = pd.Series(nights[0].append(nights[1:]))
    log = small_log(len(ts)).assign(ts=ts)
    source = {"path": "log[1].parquet", **SHAPES[shape]}
    if "query" in source:
        log[["user_id", "variant"]].drop_duplicates().to_parquet(tmp_path / "users.parquet")
    kept = log.drop(columns="variant") if "query" in source else log
    kept.to_parquet(tmp_path / "log[1].parquet")
    loaded = abeval.define(
        tmp_path,
        name="shapes",
        unit="user_id",
        control="a",
        timezone="Asia/Kolkata",
        variants={"a": {}, "b": {}},
        logs={"impressions": source},
        tables={"users": {"path": "users.parquet"}} if "query" in source else {},
        metrics=[{"name": "ctr"}, {"name": "sessions_per_user"}],
        trust={"aa_runs": 0},
    )
    here = json.loads(loaded.analyze().to_json())
    there = json.loads(loaded.analyze(engine=session).to_json())
    assert difference(here, there) is None
