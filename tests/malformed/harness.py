"""Run one input in a copy of this process, in a folder of its own, and judge how it ended.

An input must end in a result, or in one message and exit code 2: never in a traceback, a fault of
abeval, a run without end, words of a library beneath, a file that is half written, or replaced
though nothing was computed, or written elsewhere.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import json
import os
import pkgutil
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import abeval
from abeval.cli.main import main
from abeval.errors import AbevalError
from abeval.server import make_server
from tests.malformed import data
from tests.malformed.world import write_world

CPU_SECONDS, SECONDS = 60, 300
"""Of a run; the system ends one that takes longer."""

WORKERS = 2
LONGEST = 20_000
"""Letters that a message may have."""

RAW = [re.compile(line) for line in data.lines("markers.txt")]
"""What only a library beneath abeval says, or a fault of abeval."""

Act = Callable[[], object]
Change = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Case:
    """One input.

    Attributes:
        name: What is odd in it, short.
        act: What is done with it, in a folder with the files of `world.py`.
        files: Content by name, beside those files or instead of them; or what makes it of theirs.
        codes: Exit codes that are as they should be.
        is_closed: Whether standard output is closed.
        outputs: Files that may be replaced, besides those in `out/`.
    """

    name: str
    act: Act
    files: Mapping[str, bytes | Change] = field(default_factory=dict)
    codes: tuple[int, ...] = (0, 2)
    is_closed: bool = False
    outputs: Sequence[str] = ()


class Record(NamedTuple):
    """How an input ended: its exit code (negative: the signal that ended it), CPU seconds."""

    name: str
    code: int
    ok: bool
    message: str
    seconds: float


def command(*arguments: str) -> Act:
    """Run the command line."""

    def act() -> None:
        sys.argv = ["abeval", *arguments]
        main()

    return act


def calls(*asked: tuple[str, Mapping[str, Any]]) -> Act:
    """Call tools of a server one after the other; what the last answers is the outcome."""

    async def talk() -> bool:
        import mcp

        async with mcp.Client(make_server([Path()])) as client:
            for tool, arguments in asked:
                answer = await client.call_tool(tool, dict(arguments))
                print(*(part.text for part in answer.content), file=sys.stderr)  # noqa: T201
        return bool(answer.is_error)

    def act() -> None:
        if asyncio.run(talk()):
            sys.exit(2)

    return act


def do_apart(act: Act) -> None:
    """Do something in a copy of this process, with which the threads that it starts end.

    A copy of a process with threads of DuckDB or Arrow may wait for a lock that nobody holds.
    """
    process = get_context("fork").Process(target=act)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"what was done apart ended with {process.exitcode}")


def drawn(
    family: str, draw: Callable[[random.Random], Case], seed: int, count: int, first: int = 0
) -> Iterator[Record]:
    """Run inputs that a family draws; input `n` of a seed is always the same."""

    def cases() -> Iterator[Case]:
        for number in range(first, first + count):
            rng = random.Random(f"{seed} {family} {number}")  # noqa: S311 (no secret)
            case = draw(rng)
            yield replace(case, name=f"{number}: {case.name}")

    return run_cases(cases())


def _import_all() -> None:
    """Import what copies of this process would import one by one."""
    for name in ("duckdb", "mcp", "pandas", "plotly", "polars", "pyarrow", "scipy.stats"):
        with suppress(ImportError):
            import_module(name)
    for module in pkgutil.walk_packages(abeval.__path__, "abeval."):
        if module.name != "abeval.__main__" and ".spark" not in module.name:
            import_module(module.name)


@cache
def _world() -> Path:
    """Write the files that every input stands beside, once a process."""
    _import_all()
    root = Path(tempfile.mkdtemp(prefix="malformed-world-"))
    atexit.register(shutil.rmtree, root)
    if _ended(_begin(lambda: write_world(root / "world"), root))[0] != 0:
        raise RuntimeError((root / "stderr").read_text())
    return root / "world"


def run_cases(cases: Iterable[Case], workers: int = WORKERS) -> Iterator[Record]:
    """Run inputs in copies of this process, a few at once."""
    world = _world()
    with tempfile.TemporaryDirectory(prefix="malformed-") as name:
        running: deque[tuple[Case, Path, int]] = deque()
        for number, case in enumerate(cases):
            if len(running) == workers:
                yield _finish(*running.popleft())
            root = Path(name) / str(number)
            shutil.copytree(world, root / "case")
            for file, content in case.files.items():
                path = root / "case" / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content(path.read_bytes()) if callable(content) else content)
            running.append((case, root, _begin(case.act, root, is_closed=case.is_closed)))
        while running:
            yield _finish(*running.popleft())


def _begin(act: Act, root: Path, *, is_closed: bool = False) -> int:
    """Start a copy of this process that does something below a folder: its number."""
    folder = root / "case"
    folder.mkdir(parents=True, exist_ok=True)
    before = _contents(folder)
    (root / "before.json").write_text(json.dumps(before))
    gc.freeze()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        _settle(root, folder, is_closed=is_closed)
        act()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except AbevalError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        code = 2
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)


def _settle(root: Path, folder: Path, *, is_closed: bool) -> None:
    """Make this copy a process of its own: its folder, streams, limits, and who watches it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    os.chdir(folder)
    (root / "tmp").mkdir(exist_ok=True)
    os.environ |= {"HOME": str(root), "TMPDIR": str(root / "tmp"), "COLUMNS": "100"}
    tempfile.tempdir = str(root / "tmp")
    sys.dont_write_bytecode = True
    warnings.resetwarnings()
    for number, name in ((1, "stdout"), (2, "stderr")):
        sink = os.open(root / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(sink, number)
        os.close(sink)
        stream = os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        setattr(sys, name, stream)
    if is_closed:
        os.close(1)
        sys.stdout = None  # type: ignore[assignment]  # as Python itself starts
    sys.addaudithook(_Watch(root).note)


CHANGES = frozenset(
    (
        *("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.link"),
        *("os.truncate", "os.chmod", "subprocess.Popen", "os.system"),
    )
)
"""Events of Python by which something is changed."""


class _Watch:
    """Note what is written, made or removed outside a folder."""

    def __init__(self, root: Path) -> None:
        self._root, self._file = str(root), os.open(root / "outside", os.O_WRONLY | os.O_CREAT)

    def note(self, event: str, given: tuple[Any, ...]) -> None:
        """Note an event of Python."""
        if event == "open":
            writes = isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if not writes or given[0] == os.devnull:
                return
        elif event not in CHANGES:
            return
        if isinstance(given[0], str | bytes | os.PathLike):
            path = os.path.abspath(os.fsdecode(given[0]))  # noqa: PTH100 (a Path opens nothing else)
            if not path.startswith(self._root):
                os.write(self._file, f"{event} {path}\n".encode(errors="replace"))


def _ended(child: int) -> tuple[int, float]:
    """Wait for a copy: its exit code and the seconds of processor that it took."""
    _, status, used = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def _finish(case: Case, root: Path, child: int) -> Record:
    code, seconds = _ended(child)
    out, said = ((root / n).read_text("utf-8", "replace") for n in ("stdout", "stderr"))
    fault = (
        _fault(case, code, out, said)
        or _fault_of_files(case, root, code)
        or (root / "outside").read_text()
    )
    shutil.rmtree(root)
    message = said.replace(str(root), "").strip()
    return Record(case.name, code, not fault, f"[{fault}] {message}" if fault else message, seconds)


def _fault(case: Case, code: int, out: str, said: str) -> str:
    """Say what is wrong with the exit code and the messages, if anything is."""
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    if code not in case.codes:
        return "traceback" if "Traceback" in said else f"exit code {code}"
    if code == 2 and not said.strip() and not case.is_closed:
        return "no message"
    if raw := next(filter(None, (mark.search(said) for mark in RAW)), None):
        return f"raw text: {raw[0]}"
    if len(said) > LONGEST:
        return f"{len(said)} letters"
    if any(not c.isprintable() and c != "\n" for c in said):
        return "control characters"
    return "stdout though refused" if code == 2 and out else ""


def _contents(folder: Path) -> dict[str, str]:
    """Return every file below a folder, as text that tells whether it changed."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        os.fsencode(path.relative_to(folder)).hex(): path.read_bytes().hex()
        if path.stat().st_size < 5_000
        else str(hash(path.read_bytes()))
        for path in files
    }


def _fault_of_files(case: Case, root: Path, code: int) -> str:
    """Say what is wrong with the files, if anything is."""
    folder, before = root / "case", json.loads((root / "before.json").read_text())
    after = _contents(folder)
    named = {bytes.fromhex(name).decode(errors="replace"): name for name in before | after}
    drafts = [name for name in named if ".abeval-" in name]
    if drafts:
        return f"{drafts[0]} is left"
    changed = [name for name, key in named.items() if before.get(key) != after.get(key)]
    may = (
        [*case.outputs, *(name for name in changed if name.startswith("out/"))] if code != 2 else []
    )
    kept = [name for name in changed if named[name] in before and name not in may]
    if kept:
        return f"{kept[0]!r} was replaced"
    if code == 2 and changed:
        return f"{changed[0]!r} was written though refused"
    for name in changed:
        text = (folder / name).read_bytes() if name.startswith("out/") else b""
        if text.startswith(b"{"):
            try:
                json.loads(text, parse_constant=_refuse)
            except ValueError as error:
                return f"{name}: {error}"
    return ""


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} in JSON")


def weighted(rng: random.Random, good: Sequence[Any], odd: Sequence[Any], share: float) -> Any:
    """Draw a good value, or with some probability an odd one."""
    return rng.choice(odd if rng.random() < share else good)
