"""How often a study and an agreement read the logs."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import abeval
from abeval.api import LoadedExperiment
from abeval.engines.duckdb import DuckDBEngine
from tests import sample

SAMPLE = Path(__file__).parents[1] / "sample_logs" / "experiment.toml"

ASKED: dict[str, Callable[[LoadedExperiment], object]] = {
    "report": LoadedExperiment.study,
    "agree": lambda loaded: loaded.agree(metrics=["auc"]),
}


@pytest.mark.first_cases(1)
@pytest.mark.whole
@pytest.mark.parametrize("asked", ASKED)
def test_one_engine_reads_each_log_once(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Counter[str]()
    engine, add_log, table = DuckDBEngine.__init__, DuckDBEngine.add_log, DuckDBEngine.table

    def counted_engine(*arguments: object, **options: object) -> None:
        calls["engine"] += 1
        engine(*arguments, **options)  # type: ignore[arg-type]

    def counted_log(own: DuckDBEngine, name: str, *arguments: object) -> None:
        calls[name] += 1
        add_log(own, name, *arguments)  # type: ignore[arg-type]

    def counted_table(own: DuckDBEngine, name: str, sql: str) -> None:
        calls[name] += name == "logged_cells"
        table(own, name, sql)

    monkeypatch.setattr(DuckDBEngine, "__init__", counted_engine)
    monkeypatch.setattr(DuckDBEngine, "add_log", counted_log)
    monkeypatch.setattr(DuckDBEngine, "table", counted_table)
    ASKED[asked](sample.at_one_look())
    once = {"engine", "raw_impressions", "raw_clicks", "raw_items", "logged_cells"}
    assert +calls == Counter(once)


@pytest.mark.slow
@pytest.mark.whole
def test_a_column_that_only_an_agreement_reads_stops_nothing_else() -> None:
    loaded = abeval.load(SAMPLE).replace(agreement={"features": ["nowhere"]})
    study = loaded.study()
    assert study.analysis is not None
    assert study.time is not None
    assert study.replay is not None
    assert study.agreement is None
    assert [what for what, _ in study.left_out] == ["agreement"]
