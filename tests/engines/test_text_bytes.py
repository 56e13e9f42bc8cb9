"""Compressed files that are cut, damaged or none: what is wrong, with which, and exit code 2."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pytest

from abeval.cli.main import main

ROWS = [f"{i},{'ab'[i % 2]},{x:.6f}" for i, x in enumerate(np.random.default_rng(1).random(20_000))]
TEXT = "\n".join(["user_id,variant,x", *ROWS, ""]).encode()


def packed(ending: str, folder: Path) -> bytes:
    if ending == ".gz":
        return gzip.compress(TEXT)
    (folder / "plain.csv").write_bytes(TEXT)
    file = folder / "packed.csv.zst"
    duckdb.sql(f"copy (from '{folder / 'plain.csv'}') to '{file}' (format csv, compression zstd)")
    return file.read_bytes()


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["abeval", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(str(ended.value.code or 0)), " ".join((printed.out + printed.err).split())

    return run


NAMED = ("--unit", "user_id", "--variant", "variant", "--metric", "x")


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_whole_files_and_several_in_a_row_are_read(ending: str, tmp_path: Path, run: Run) -> None:
    file = tmp_path / f"a.csv{ending}"
    file.write_bytes(packed(ending, tmp_path))
    assert "10,000" in run("analyze", file, *NAMED)[1]
    rest = b"".join(line.encode() + b"\n" for line in ["90001,a,1", "90002,b,2"])
    if ending == ".gz":
        file.write_bytes(packed(ending, tmp_path) + gzip.compress(rest))
        assert "10,001" in run("analyze", file, *NAMED)[1]


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_a_cut_file_is_said(ending: str, share: float, tmp_path: Path, run: Run) -> None:
    data = packed(ending, tmp_path)
    file = tmp_path / f"cut.csv{ending}"
    file.write_bytes(data[: max(8, int(len(data) * share))])
    code, output = run("analyze", file, *NAMED)
    assert code == 2
    assert f"{file} is cut" in output


def test_a_wrong_check_sum_is_said(tmp_path: Path, run: Run) -> None:
    data = bytearray(packed(".gz", tmp_path))
    data[-6] ^= 255
    file = tmp_path / "crc.csv.gz"
    file.write_bytes(data)
    code, output = run("analyze", file, *NAMED)
    assert code == 2
    assert "crc.csv.gz is damaged" in output


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("data", [TEXT, bytes(range(1, 200))])
def test_what_is_not_compressed_is_said(ending: str, data: bytes, tmp_path: Path, run: Run) -> None:
    file = tmp_path / f"plain.csv{ending}"
    file.write_bytes(data)
    for code, output in (run("analyze", file, *NAMED), run("init", file)):
        assert code == 2
        assert "is not compressed with" in output
        assert f"name it without {ending}" in output
