"""The public surface: every name is there, typed, and the results that methods return are in it."""

import inspect

import pytest

import abeval
from abeval.api import LoadedExperiment


@pytest.mark.parametrize("name", abeval.__all__)
def test_every_public_name_can_be_imported_and_is_listed(name):
    assert getattr(abeval, name) is not None
    assert name in dir(abeval)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        abeval.nothing  # noqa: B018


def returned() -> dict[str, str]:
    methods = inspect.getmembers(LoadedExperiment, inspect.isfunction)
    return {
        name: str(method.__annotations__["return"]).strip("'\"")
        for name, method in methods
        if not name.startswith("_")
    }


def test_every_result_of_a_method_is_public():
    assert {*returned().values()} <= {*abeval.__all__}


@pytest.mark.parametrize("method", ["analyze", "windows", "aa", "power", "replay"])
def test_a_keyword_that_there_is_not_is_refused(method):
    loaded = abeval.load("sample_logs/experiment.toml")
    with pytest.raises(TypeError, match=r"'log'; did you mean .logs."):
        getattr(loaded, method)(log={})


def test_the_command_line_has_every_option_of_a_replay():
    from abeval.cli.commands import replay
    from abeval.offline.replay import ReplayOptions

    flags = {*inspect.signature(replay).parameters}
    renamed = {"metrics": "metric"}
    assert {renamed.get(name, name) for name in ReplayOptions.__annotations__} <= flags


def test_an_option_that_an_evaluation_has_not_is_refused():
    with pytest.raises(TypeError, match=r"'metric'; did you mean .metrics."):
        abeval.evaluate([], [], metric=["mrr"])


ENTRIES = {
    "name": "x",
    "unit": "user_id",
    "control": "a",
    "variants": {"a": {}, "b": {}},
    "logs": {"impressions": {"path": "log.csv"}},
}


def test_an_experiment_is_defined_by_keywords_or_by_a_mapping():
    by_keyword = abeval.define(**ENTRIES)
    assert abeval.define(ENTRIES) == by_keyword
    assert abeval.define(ENTRIES, alpha=0.01).experiment.alpha == 0.01
    in_folder = abeval.define(ENTRIES, folder="logs")
    assert in_folder == abeval.define("logs", **ENTRIES) == abeval.define(folder="logs", **ENTRIES)
    assert in_folder.experiment.folder.name == "logs"


@pytest.mark.parametrize("entries", [[], None, 3])
def test_an_experiment_of_something_else_is_refused(entries):
    with pytest.raises(abeval.ExperimentError, match="as a mapping or as keywords"):
        abeval.define(entries)
