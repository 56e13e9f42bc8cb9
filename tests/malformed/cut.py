"""Every command, with the network cut and every file but the logs unreadable: the same result.

Only where it is asked for, `python -m tests.malformed --only cut`: it needs Linux 6.7 or newer,
whose kernel (Landlock) holds a run to the logs, the folders that it writes, and its own programs.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import struct
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd

import abeval.cli.main as command_line
from tests.malformed.harness import SECONDS, Record, do_apart

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE, _READ_FILE, _READ_FOLDER, _TRUNCATE = 1, 2, 4, 8, 1 << 14
_EVERY = (1 << 15) - 1
_TCP = 3
_NO_NEW_PRIVILEGES = 38
_NEW_NETWORK = 0x40000000

_KERNEL = ("/proc", "/sys/fs/cgroup", "/sys/devices")
"""What the kernel says of itself: without its control group DuckDB ends the process."""

LOG = """\
name = "t"
unit = "user_id"
control = "a"
variants = {a = {model = "old"}, b = {model = "new"}}
models = {old = {score = "old"}, new = {score = "new"}}
period = {start = 2024-03-01, end = 2024-03-08}
segments.device = "device"
cleaning.duplicates = "unchecked"
trust.aa_runs = 200
logs.impressions.path = "log"
"""

COMMANDS = (
    "analyze e.toml --json out/a.json --csv out/a.csv --report out/a.html",
    "analyze e.toml --json out/e.json --memory-limit 500MB --temp-directory out/temporary",
    "analyze e.toml --pairs ctr --json out/f.json",
    "power e.toml --mde 0.02 --json out/g.json",
    "aa e.toml --runs 200 --metric ctr --json out/h.json",
    "windows e.toml --metric ctr --json out/i.json --report out/i.html",
    "replay e.toml --json out/j.json --report out/j.html",
    "off-policy e.toml --from a --to b --json out/k.json",
    "tools sql e.toml --views",
    "tools sql e.toml ctr",
    "tools sql 4_metrics/sessions --dialect spark",
    "tools assign ids.csv --salt s --variants a=1,b=1 --json out/l.json",
    "tools simulate out/simulated --impressions 5000",
    "tools metrics",
    "tools schema",
)


def write_world(folder: Path) -> None:
    """The logs, their experiments, and files that no command names."""
    (folder / "log").mkdir(parents=True)
    random = np.random.default_rng(5)
    rows = 6_000
    user = random.integers(0, 600, rows)
    frame = pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(user % 2 == 0, "a", "b"),
            "ts": pd.Timestamp("2024-03-01")
            + pd.to_timedelta(np.sort(random.integers(0, 7 * 86_400, rows)), unit="s"),
            "request_id": np.arange(rows) // 5,
            "position": np.arange(rows) % 5 + 1,
            "item_id": random.integers(0, 30, rows),
            "device": np.array(["phone", "tv", "web"])[user % 3],
            "old": random.random(rows),
            "new": random.random(rows),
            "propensity": random.uniform(0.05, 0.5, rows),
            "click": (random.random(rows) < 0.1).astype(int),
            "dwell": random.integers(0, 90, rows),
        }
    )
    for number in range(3):
        part = frame[number * rows // 3 : (number + 1) * rows // 3]
        part.to_parquet(folder / "log" / f"{number}.parquet")
    (folder / "e.toml").write_text(LOG)
    (folder / "ids.csv").write_text("id\n" + "\n".join(map(str, range(50))) + "\n")
    (folder / "unnamed.txt").write_text("nobody may read this")


def confine(folder: Path) -> None:
    """Cut the network, and hold this process to the logs, its outputs and its programs."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK):
        print("no network namespace: TCP is cut, other protocols are not", file=sys.stderr)  # noqa: T201
    rules = _checked(libc.syscall(_CREATE, struct.pack("QQQ", _EVERY, _TCP, 0), 24, 0))
    programs = {sys.prefix, sys.base_prefix, sysconfig.get_path("purelib"), *_sources(), "/usr"}
    read = _EXECUTE | _READ_FILE | _READ_FOLDER
    for path in (*programs, "/lib", "/lib64", "/dev", *_KERNEL, folder / "log"):
        _allow(libc, rules, Path(path), read)
    _allow(libc, rules, folder / "out", _EVERY)
    _allow(libc, rules, Path("/dev/null"), _READ_FILE | _WRITE | _TRUNCATE)
    for name in ("e.toml", "ids.csv"):
        _allow(libc, rules, folder / name, _READ_FILE)
    _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(libc.syscall(_RESTRICT, rules, 0))


def _sources() -> list[str]:
    package = Path(command_line.__file__).parents[1]
    return [str(package), str(package.parent / "queries")]


def _allow(libc: ctypes.CDLL, rules: int, path: Path, access: int) -> None:
    if path.exists():
        opened = os.open(path, os.O_PATH)
        rule = struct.pack("=Qi", access, opened)
        _checked(libc.syscall(_ADD, rules, 1, rule, 0))
        os.close(opened)


def _checked(number: int) -> int:
    if number < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"the kernel cannot hold a process to files: {os.strerror(code)}")
    return int(number)


def holds(folder: Path) -> bool:
    """Whether this process can reach neither the other file nor an address."""
    try:
        (folder / "unnamed.txt").read_text()
    except PermissionError:
        pass
    else:
        return False
    try:
        socket.create_connection(("127.0.0.1", 9), timeout=1)
    except PermissionError:
        return True
    except OSError as error:
        # Without an interface in its own network.
        return error.errno in (101, 111)
    return False


def begin(folder: Path, arguments: Sequence[str], cut: bool) -> int:
    """Run a command in a copy of this process; what it prints goes to a file."""
    child = os.fork()
    if child:
        return child
    code = 70
    signal.alarm(SECONDS)
    try:
        os.chdir(folder)
        printed = os.open(folder / "out" / "printed.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.environ["HOME"] = tempfile.tempdir = str(folder / "out")
        if cut:
            confine(folder)
            if not holds(folder):
                os._exit(71)
        sys.argv = ["abeval", *arguments]
        command_line.main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


def run(seed: int, count: int) -> Iterator[Record]:
    """Run commands twice, free and cut off: each has the same outputs, whatever the seed."""
    lines = COMMANDS[:count]
    with TemporaryDirectory(prefix=f"abeval-cut-{seed}-") as parent:
        # The same place for both: paths are in what is printed.
        free, cut_off = (_outcomes(lines, Path(parent) / "now", cut) for cut in (False, True))
    for line, before, after in zip(lines, free, cut_off, strict=True):
        unlike = {name for name in before.files | after.files if _differs(name, before, after)}
        ok = before.code == after.code == 0 and not unlike
        message = "" if ok else f"{sorted(unlike)} differ; {after.printed[-400:]}"
        yield Record(line, after.code, ok, message, after.seconds)


class Outcome(NamedTuple):
    """What a command left in the folder of outputs, and how it ended."""

    code: int
    seconds: float
    files: Mapping[str, bytes]
    printed: str


def _differs(name: str, before: Outcome, after: Outcome) -> bool:
    return before.files.get(name) != after.files.get(name)


def _outcomes(lines: Sequence[str], folder: Path, cut: bool) -> list[Outcome]:
    do_apart(partial(write_world, folder))
    out, outcomes = folder / "out", []
    out.mkdir()
    for line in lines:
        _, status, used = os.wait4(begin(folder, line.split(), cut), 0)
        files = {str(f.relative_to(out)): f.read_bytes() for f in out.rglob("*") if f.is_file()}
        code, printed = os.waitstatus_to_exitcode(status), files["printed.txt"].decode()
        outcomes.append(Outcome(code, used.ru_utime + used.ru_stime, files, printed))
    shutil.rmtree(folder)
    return outcomes
