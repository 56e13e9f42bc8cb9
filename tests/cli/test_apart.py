"""Every option that names a file is known to read or to write it, and no pair of them clashes.

The commands are walked as they are: a new option is tried without a word here.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

from abeval.cli.main import app
from abeval.cli.options import Reads, Writes, find_file_params
from tests.cli.test_cli import call
from tests.cli.test_outputs import EXPERIMENT, contents, unread
from tests.logs.small import small_log

__all__ = ["unread"]


class Named(NamedTuple):
    """An option or argument that names files."""

    parameter: Any
    name: str
    mark: Reads | Writes

    def arguments(self, path: Path | str) -> list[str]:
        value = str(path)
        if isinstance(self.mark, Reads) and self.mark.path(value) != Path(value):
            value = f"other={value}"
        is_option = self.parameter.param_type_name == "option"
        return [self.parameter.opts[0], value] if is_option else [value]


def commands(
    group: Any = None, names: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The names of every command, and the command."""
    for name, command in (group or get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*names, name))
        else:
            yield (*names, name), command


def named(command: Any) -> list[Named]:
    marks = find_file_params(command.callback)
    return [Named(p, *marks[p.name]) for p in command.params if p.name in marks]


ALL = [pytest.param(names, command, id=" ".join(names)) for names, command in commands()]
KINDS = ("logs/one.parquet", "more.toml", "link.toml", "hard.toml")
TARGETS = [
    pytest.param(names, command, target, id=f"{' '.join(names)} {target}")
    for names, command in commands()
    for target in (KINDS if names == ("analyze",) else KINDS[:1])
]
"""One decorator protects all commands: one of them is tried with every kind of file."""


@pytest.mark.parametrize(("names", "command"), ALL)
def test_every_option_that_names_a_file_is_marked(names: tuple[str, ...], command: Any) -> None:
    marks = find_file_params(command.callback)
    for name, parameter in inspect.signature(command.callback).parameters.items():
        shown = str(parameter.annotation)
        metavars = [getattr(one, "metavar", None) for one in parameter.annotation.__metadata__]
        names_file = "pathlib.Path" in shown or {"FILE", "JSON", "NAME=FILE"} & {*metavars}
        # A folder that `simulate` makes is no file of a run.
        if names_file and name != "directory":
            assert name in marks, f"{' '.join(names)}: {name}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    small_log().to_parquet(tmp_path / "logs" / "one.parquet")
    (tmp_path / "more.toml").write_text("alpha = 0.05\n")
    for name in ("e.toml", "other.toml"):
        # By their whole names, so that a copy elsewhere is an experiment too.
        text = EXPERIMENT.replace("PATH", str(tmp_path / "logs"))
        (tmp_path / name).write_text(f'include = ["{tmp_path / "more.toml"}"]\n{text}')
    return tmp_path


def others(command: Any, used: list[Named]) -> list[str]:
    """What else a command cannot do without."""
    known = {one.parameter.name: one for one in named(command)}
    arguments = []
    for parameter in command.params:
        one = known.get(parameter.name)
        if not parameter.required or one in used:
            continue
        if one is not None:
            name = "other.toml" if isinstance(one.mark, Reads) else f"new-{parameter.name}.parquet"
            arguments += one.arguments(name)
        else:
            arguments += [parameter.opts[0], "a=1,b=1"]
    return arguments


@pytest.mark.whole
@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(("names", "command"), ALL)
def test_no_two_options_can_name_one_file(
    names: tuple[str, ...],
    command: Any,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for first, second in combinations(named(command), 2):
        if isinstance(first.mark, Reads) and isinstance(second.mark, Reads):
            continue
        before = contents(folder)
        values = [*first.arguments("e.toml"), *second.arguments("e.toml")]
        arguments = [*names, *values, *others(command, [first, second])]
        assert call(monkeypatch, *arguments) == 2, arguments
        said = capsys.readouterr().err
        assert first.name in said, (arguments, said)
        assert second.name in said, (arguments, said)
        assert any(w in said for w in ("would replace", "would write", "would be read")), said
        assert contents(folder) == before


@pytest.mark.whole
@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(("names", "command", "target"), TARGETS)
def test_no_output_replaces_what_an_experiment_file_names(
    names: tuple[str, ...],
    command: Any,
    target: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "link.toml").symlink_to("e.toml")
    (folder / "hard.toml").hardlink_to("e.toml")
    every = named(command)
    before = contents(folder)
    for read in (one for one in every if isinstance(one.mark, Reads)):
        for write in (one for one in every if isinstance(one.mark, Writes)):
            # Not every file that a command reads is an experiment file.
            if not read.mark.is_experiment(Path("e.toml")):
                continue
            values = [*read.arguments("e.toml"), *write.arguments(target)]
            arguments = [*names, *values, *others(command, [read, write])]
            assert call(monkeypatch, *arguments) == 2, arguments
            assert f"{write.name} would replace" in capsys.readouterr().err, arguments
            assert contents(folder) == before


def test_a_folder_of_a_table_is_read_and_not_written_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("users").mkdir()
    rows = "\n".join(f"{i},{'ab'[i % 2]},{i % 7}" for i in range(60))
    Path("users/one.csv").write_text(f"user_id,group,clicks\n{rows}\n")
    table = ("users", "--unit", "user_id", "--variant", "group", "--metric", "clicks")
    assert call(monkeypatch, "analyze", *table, "--json", "o.json") == 0
    capsys.readouterr()
    assert call(monkeypatch, "analyze", *table, "--json", "users/o.json") == 2
    assert "--json would be read as the experiment file" in capsys.readouterr().err
