"""Which outputs a run may write: no input, no other output, no log of the next run."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from abeval.errors import ExperimentError
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.logs.outputs import RunInput, check_apart, list_reads


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
        ("logs/*.parquet", "logs/day=1/new.parquet", True),
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
    reads, writes = list_reads(reading(folder, path)), [("--json", folder / output)]
    if refused:
        with pytest.raises(ExperimentError):
            check_apart(reads, writes)
    else:
        check_apart(reads, writes)


def test_an_input_that_is_not_there_yet_is_not_written(folder: Path) -> None:
    ids = RunInput("the ids", folder / "ids.csv")
    with pytest.raises(ExperimentError, match="--json would replace the ids"):
        check_apart([ids], [("--json", folder / "logs" / ".." / "ids.csv")])


def test_one_file_under_several_names_is_one(folder: Path) -> None:
    file = folder / "logs" / "one.parquet"
    (folder / "hard").hardlink_to(file)
    (folder / "soft").symlink_to(file)
    (folder / "linked").symlink_to(folder / "logs", target_is_directory=True)
    names = ("logs/one.parquet", "hard", "soft", "linked/one.parquet", "logs/ONE.parquet")
    for read, write in [*product(names[:-1], repeat=2), (names[0], names[-1])]:
        with pytest.raises(ExperimentError, match="--json would replace --sums"):
            check_apart([RunInput("--sums", folder / read)], [("--json", folder / write)])
        with pytest.raises(ExperimentError, match="--csv and --json would write the same file"):
            check_apart([], [("--csv", folder / read), ("--json", folder / write)])


def test_a_device_is_read_and_written(folder: Path) -> None:
    check_apart([RunInput("the ids", Path("/dev/null"))], [("--json", Path("/dev/null"))])


def test_what_includes_name_is_read_too(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "a.toml").write_text('include = ["more/b.toml"]')
    (folder / "more" / "b.toml").write_text("alpha = 0.05")
    variants = {"control": "a", "variants": {"a": {}, "b": {}}}
    raw = {"name": "e", "unit": "u", **variants, "logs": {"impressions": {"path": "logs"}}}
    experiment = parse_experiment({**raw, "include": ["a.toml"]}, folder)
    for name in ("a.toml", "more/b.toml"):
        with pytest.raises(ExperimentError, match="would replace the included"):
            check_apart(list_reads(experiment), [("--json", folder / name)])


def test_the_log_of_a_database_has_another_file(folder: Path) -> None:
    (folder / "d.duckdb").touch()
    raw = {"name": "e", "unit": "u", "control": "a", "variants": {"a": {}, "b": {}}}
    logs = {"impressions": {"path": "d.duckdb", "table": "rows"}}
    reads = list_reads(parse_experiment({**raw, "logs": logs}, folder))
    for name in ("d.duckdb", "d.duckdb.wal"):
        with pytest.raises(ExperimentError, match="would replace the log impressions"):
            check_apart(reads, [("--json", folder / name)])
