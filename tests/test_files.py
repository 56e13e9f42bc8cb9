"""Output files are whole or not there."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from abeval.errors import AbevalError
from abeval.files import check_writable, write_text
from abeval.locks import take


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert write_text(path, "σ\r\n×\n") == path
    assert path.read_bytes() == "σ\r\n×\n".encode()


def test_nothing_is_left_beside_it(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "one")
    write_text(tmp_path / "a.txt", "two")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "two")]


def test_a_failure_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(AbevalError, match="No space left on device"):
        write_text(path, "new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "old")]


def test_a_link_is_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "real.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(AbevalError, match="does not exist") as caught:
        write_text(tmp_path / "no" / "a.txt", "")
    assert caught.value.hint == f"run mkdir -p {tmp_path / 'no'}"


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(AbevalError, match="it is a folder"):
        write_text(tmp_path, "")


def test_a_forbidden_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", forbid)
    with pytest.raises(AbevalError, match="is not writable") as caught:
        write_text(tmp_path / "a.txt", "")
    assert caught.value.hint is not None


def test_a_device_is_written_directly() -> None:
    write_text(Path("/dev/null"), "gone")
    assert Path("/dev/null").is_char_device()


def test_a_lone_surrogate_stays_valid_json(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.json", json.dumps("\ud800", ensure_ascii=False))
    assert json.loads(path.read_text()) == "\ud800"


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/null"])
def test_streams_need_no_right_to_their_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "dev")
    check_writable(Path(name))


def test_a_device_that_may_not_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(AbevalError, match="cannot write /dev/null"):
        check_writable(Path("/dev/null"))


@pytest.mark.parametrize("write", [check_writable, lambda path: write_text(path, "")])
def test_a_name_too_long_and_links_in_a_circle_are_said(
    write: Callable[[Path], object], tmp_path: Path
) -> None:
    with pytest.raises(AbevalError, match="File name too long"):
        write(tmp_path / ("x" * 300))
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(AbevalError, match="symbolic links"):
        write(tmp_path / "a")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(mode)
    write_text(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_nobody_else_can_read_the_draft_of_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, modes = tmp_path / "a.txt", []
    path.touch(0o600)
    monkeypatch.setattr("os.fsync", lambda number: modes.append(os.fstat(number).st_mode))
    write_text(path, "secret")
    assert stat.S_IMODE(modes[0]) == 0o600


def test_the_name_is_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr("os.fsync", lambda number: synced.append(os.fstat(number).st_ino))
    path = write_text(tmp_path / "a.txt", "whole")
    assert synced == [path.stat().st_ino, tmp_path.stat().st_ino]


def test_drafts_of_killed_runs_are_removed_and_those_of_others_are_not(tmp_path: Path) -> None:
    (tmp_path / ".abeval-0123456789abcdef").write_text("half")
    alive = tmp_path / ".abeval-fedcba9876543210"
    alive.touch()
    with alive.open() as opened:
        assert take(opened.fileno())
        write_text(tmp_path / "a.txt", "whole")
        assert sorted(p.name for p in tmp_path.iterdir()) == [alive.name, "a.txt"]
    write_text(tmp_path / "a.txt", "again")
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_what_is_only_named_like_a_draft_is_left_alone(tmp_path: Path) -> None:
    names = {
        ".abeval-mynotes",
        ".abeval-",
        ".abeval-0123456789abcdef.txt",
        ".abeval-ABCDEF0123456789",
    }
    for name in names:
        (tmp_path / name).write_text("mine")
    (tmp_path / ".abeval-0123456789abcdef").symlink_to(tmp_path / ".abeval-mynotes")
    write_text(tmp_path / "a.txt", "whole")
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {*names, ".abeval-0123456789abcdef", "a.txt"}


def test_a_draft_that_is_swept_away_too_early_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def late(descriptor: int) -> bool:
        nonlocal calls
        calls += 1
        if calls == 1:
            for draft in tmp_path.glob(".abeval-*"):
                draft.unlink()
        return take(descriptor)

    monkeypatch.setattr("abeval.locks.take", late)
    write_text(tmp_path / "a.txt", "whole")
    assert calls == 2
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "whole")]
