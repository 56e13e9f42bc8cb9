"""Which outputs a run may write: no input, no other output, no log of the next run."""

from __future__ import annotations

from pathlib import Path

import pytest

from abeval.errors import ExperimentError
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.logs.outputs import Output, check_named, check_outputs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("logs/one.parquet", "logs/day=1/a.parquet", "s3:/bucket/a.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def reading(folder: Path, path: str) -> Experiment:
    variants = {"control": "a", "variants": {"a": {}, "b": {}}}
    logs = {"impressions": {"path": path}}
    return parse_experiment({"name": "e", "unit": "user_id", **variants, "logs": logs}, folder)


@pytest.mark.parametrize(
    ("path", "output", "refused"),
    [
        ("logs", "logs/new.json", True),
        ("logs", "logs/day=1/new.json", True),
        ("logs", "other/new.json", False),
        ("logs", "new.json", False),
        ("logs/one.parquet", "logs/one.parquet", True),
        ("logs/one.parquet", "logs/one.parquet.json", False),
        ("logs/one.parquet", "logs/day=1/new.json", False),
        ("logs/*.parquet", "logs/new.parquet", True),
        ("logs/*.parquet", "logs/new.json", False),
        ("logs/*.parquet", "logs/day=1/new.parquet", False),
        ("logs/*/*.parquet", "logs/day=2/new.parquet", True),
        ("logs/*/*.parquet", "logs/new.parquet", False),
        ("logs/*/*.parquet", "logs/day=2/new.json", False),
        ("logs/**/*.parquet", "logs/new.parquet", True),
        ("logs/**/*.parquet", "logs/x/y/z/new.parquet", True),
        ("logs/**/*.parquet", "logs/x/y/new.json", False),
        ("logs/**", "logs/x/new.json", True),
        ("logs/**/a.*", "logs/x/b.json", False),
        ("lo?s/day=[12]/*", "logs/day=2/new.json", True),
        ("lo?s/day=[12]/*", "logs/day=3/new.json", False),
        ("s3://bucket/*.parquet", "s3:/bucket/new.parquet", False),
    ],
)
def test_an_output_that_the_path_of_a_log_names_is_refused(
    folder: Path, path: str, output: str, refused: bool
) -> None:
    experiment, outputs = reading(folder, path), [Output("--json", folder / output)]
    if refused:
        with pytest.raises(ExperimentError):
            check_outputs(experiment, outputs, {})
    else:
        check_outputs(experiment, outputs, {})


def test_another_input_is_not_replaced(folder: Path) -> None:
    experiment, inputs = reading(folder, "logs"), {"the ids": folder / "ids.csv"}
    with pytest.raises(ExperimentError, match="--json would replace the ids"):
        check_outputs(experiment, [Output("--json", folder / "ids.csv")], inputs)


def test_two_outputs_are_two_files_and_two_folders(folder: Path) -> None:
    experiment = reading(folder, "logs")
    kept = folder / "kept"
    store = Output("store", kept, ("manifest.json",))
    for other in (
        Output("aggregates", kept, ("aggregates.json",)),
        Output("json", kept / "manifest.json"),
        Output("json", kept),
    ):
        with pytest.raises(ExperimentError, match="would write the same file"):
            check_outputs(experiment, [store, other], {})
    check_outputs(experiment, [store, Output("json", kept / "o.json")], {})


def test_an_output_has_a_name() -> None:
    with pytest.raises(ExperimentError, match="json: the name is empty"):
        check_named("json", "")
    check_named("json", ".")
