"""Malformed inputs by the hundred, and how each ends.

    python -m benchmarks.malformed [--count 1600] [--seed 1]

An input must end in a result, or in one message and exit code 2: never in a traceback, a fault of
abeval, a run without end, a file that is half written, or replaced though nothing was computed, or
left behind.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NoReturn

import duckdb

from abeval.cli.main import main as abeval

SECONDS = 120
"""After which an input counts as one without end."""

FILE = """\
name = "t"
unit = "user_id"
control = "a"
[period]
start = 2024-01-01
end = 2024-01-04
[models.m]
score = "score"
[models.n]
score = "price"
[variants.a]
model = "m"
[variants.b]
model = "n"
[logs.impressions]
path = "log.parquet"
[[metrics]]
name = "ctr"
[[metrics]]
name = "spent"
value = "price"
"""
LOG = """
select
  i as impression_id, i // 5 as request_id, 'u' || (i // 5) as user_id, i % 37 as item_id,
  timestamp '2024-01-01' + interval (i * 600) second as ts,
  case when (i // 5) % 2 = 0 then 'a' else 'b' end as variant,
  cast(i % 5 + 1 as int) as position, cast(hash(i) % 7 = 0 as int) as click,
  (hash(i) % 50) * 1.0 as dwell, cast(hash(i * 7) % 1000 as double) / 1000 as score,
  cast(hash(i * 3) % 1000 as double) / 1000 as price
from range(400) t(i)
"""
OLD = '{"old": "whole"}'
"""What the output file has before each run."""


@dataclass(frozen=True)
class Case:
    """One input.

    Attributes:
        kind: The class of the input.
        name: What is odd in it.
        arguments: Of the command; `{}` is the folder.
        files: Content by name, beside the good log and experiment file, or instead of them.
        links: Where links lead, by name.
    """

    kind: str
    name: str
    arguments: tuple[str, ...] = ("analyze", "{}/e.toml", "--json", "{}/o.json")
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class End:
    """How a run ended.

    Attributes:
        word: `result`, `refused` (exit code 2), or what is wrong.
        said: What was printed on stderr.
        seconds: How long it took.
    """

    word: str
    said: str
    seconds: float

    @property
    def is_fine(self) -> bool:
        """Whether it ended as an input may."""
        return self.word in ("result", "refused")


# The classes.

VALUES = (
    *("-1", "0", "1", "0.5", "1e308", "-1e308", "1e-320", "inf", "-inf", "nan", f"1{'0' * 400}"),
    *(
        "true",
        "[]",
        "[1, 'x']",
        "[[]]",
        "{}",
        "{ a = 1 }",
        "1979-05-27",
        "0001-01-01",
        "9999-12-31",
    ),
    *("07:32:00", "2024-01-02T00:00:00Z", '""', '" "', '"x"', '"a"', '"💥"', f'"{"y" * 300}"'),
    *('"../../etc/passwd"', '"a\\u0000b"', "'''\"; drop table x; --'''", '"ctr"', '"NaN"', '"*"'),
)
"""TOML values, each put in the place of every entry."""

ENTRIES = (
    *("name", "unit", "control", "timezone", "alpha", "period", "period.start", "period.end"),
    *("pre_period", "pre_period.start", "variants", "variants.a", "variants.a.weight"),
    *("variants.a.model", "models", "models.m.score", "assignment", "assignment.salt", "logs"),
    *("logs.impressions", "logs.impressions.path", "logs.impressions.table"),
    *("logs.impressions.database", "logs.impressions.format", "logs.impressions.columns"),
    *("logs.impressions.columns.ts", "logs.impressions.columns.click"),
    *("logs.impressions.time_unit", "logs.impressions.dwell_unit"),
    *(
        "logs.impressions.first_position",
        "logs.impressions.dwell_without_click",
        "logs.clicks.path",
    ),
    *(
        "logs.clicks.join",
        "logs.clicks.attribution_hours",
        "logs.items.path",
        "logs.exposures.path",
    ),
    *(
        "cleaning.duplicates",
        "cleaning.duplicate_key",
        "cleaning.crossover",
        "sessions.gap_minutes",
    ),
    *("clicks.long_seconds", "segments.s", "events", "metrics", "inference.relative"),
    *("inference.adjust", "inference.stratify_by", "inference.looks", "inference.planned_units"),
    *("inference.planned_looks", "inference.spending", "inference.prior", "inference.prior.mean"),
    *("inference.prior.sd", "inference.resample", "inference.family", "trust.aa_runs"),
    *("engine.name", "engine.address", "engine.memory_limit", "engine.threads"),
    *("engine.temp_directory", "no_such_entry"),
)
METRIC_ENTRIES = (
    *("name", "role", "direction", "direction.toward", "margin", "margin.absolute", "value"),
    *("numerator", "denominator", "function", "quantile", "unit", "resolution", "cap"),
    *("covariates", "weight"),
)


def with_entry(path: str, value: str) -> str:
    """The file with one entry of another value, written as dotted keys at its top."""
    kept, section = [], ""
    for line in FILE.splitlines():
        section = line.strip("[]") if line.startswith("[") else section
        if line.startswith("[["):
            kept.append(line)
            continue
        key, equals, old = line.partition(" = ")
        whole = f"{section}.{key}".strip(".") if equals else section
        if not (whole == path or whole.startswith(f"{path}.")):
            kept.append(f"{whole} = {old}" if equals and "metrics" not in section else line)
    plain = [line for line in kept if not line.startswith("[") and "metrics" not in line]
    own = FILE[FILE.index("[[metrics]]") :] if path != "metrics" else ""
    top = [line for line in plain if " = " in line and line not in own.splitlines()]
    return "\n".join([*top, f"{path} = {value}"]) + "\n" + own


def entries() -> Iterator[Case]:
    """Every entry of the file with every odd value."""
    for path in ENTRIES:
        for value in VALUES:
            text = with_entry(path, value)
            yield Case("entry", f"{path} = {value[:40]}", files={"e.toml": text.encode()})
    for entry in METRIC_ENTRIES:
        for value in VALUES:
            text = FILE + f"[[metrics]]\nname = 'gauc'\n{entry} = {value}\n"
            yield Case("entry", f"metrics.{entry} = {value[:40]}", files={"e.toml": text.encode()})


def damaged(data: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """The same bytes cut, flipped, doubled, or with others put in."""
    rng = random.Random(seed)  # noqa: S311 (no secret)
    for i in range(count):
        at, other = rng.randrange(len(data)), rng.randrange(256)
        match i % 5:
            case 0:
                yield f"cut at {at}", data[:at]
            case 1:
                yield f"byte {at} is {other}", data[:at] + bytes([other]) + data[at + 1 :]
            case 2:
                yield f"{at} without 7", data[:at] + data[at + 7 :]
            case 3:
                yield f"{at} twice", data[:at] + data[max(0, at - 20) :]
            case _:
                text = rng.choice(
                    [b"\x00", b"\xff", b"[[", b"'''", b"\n", b"= ", b"\r", b"\xef\xbb"]
                )
                yield f"{text!r} at {at}", data[:at] + text + data[at:]


def texts() -> Iterator[Case]:
    """The experiment file with bytes that are not meant."""
    for name, data in damaged(FILE.encode(), 200, seed=1):
        yield Case("experiment file", name, files={"e.toml": data})


EXPRESSIONS = (
    *("", " ", "'", '"', "(", ")", "1 +", "price price", "price;", "price -- x", "/* x", "*", "?"),
    *("$1", ":x", "{{x}}", "select 1", "(select 1)", "exists (select 1)", "sum(price)", "count(*)"),
    *("max(price)", "row_number() over ()", "price over ()", "unnest([1])", "[1, 2]", "{'a': 1}"),
    *(
        "null",
        "cast(null as double)",
        "true",
        "'x'",
        "ts",
        "user_id",
        "variant",
        "no_such",
        "1e308",
    ),
    *("1e308 * 10", "-1e308 * price", "9223372036854775807", "9223372036854775807 + position"),
    *("price / 0", "price // 0", "position % 0", "1 / (position - 1)", "ln(0)", "ln(price - 1)"),
    *("sqrt(-1)", "sqrt(price - 1)", "pow(10, 400)", "cast('x' as int)", "try_cast('x' as int)"),
    *(
        "cast(user_id as int)",
        "cast('nan' as double)",
        "cast('inf' as double)",
        "cast(ts as double)",
    ),
    *("interval 1 day", "date '2024-01-01'", "current_date", "now()", "random()", "uuid()"),
    *("getenv('HOME')", "read_text('/etc/passwd')", "(from '/etc/passwd')", "'a' || user_id"),
    *("repeat('x', 1000000)", "repeat('x', 10) || price", "concat(user_id, price)", "lower(price)"),
    *(
        "case when price > 1 then 1",
        "case when true then 'x' else 1 end",
        "coalesce()",
        "nosuch(1)",
    ),
    *("price between 1 and", "price in ()", "price in (1, 'x')", "price like '%'", "price = 'x'"),
    *("click and price", "not price", "-price", "--price", "price is", "price::int", "price::foo"),
    *("a.price", "t.*", '"price"', '"no such"', "struct_pack(a := 1)", "list_sum([price])", "💥"),
    *("x -> x + 1", "list_transform([1], x -> x)", "columns('.*')", "exclude price", "price\x00"),
    *("(" * 200 + "price" + ")" * 200, "+".join(["price"] * 2000), "x" * 5000, "-" * 3000 + "1"),
    *("not " * 2000 + "true", "(" * 20000, "1 " * 5000),
)


def expressions() -> Iterator[Case]:
    """What is no value, as value, numerator, segment and function."""
    for text in EXPRESSIONS:
        quoted = json.dumps(text).replace("\\u0000", "\\u0000")
        added = {
            "value": f"[[metrics]]\nname = 'own'\nvalue = {quoted}\n",
            "ratio": f"[[metrics]]\nname = 'own'\nnumerator = {quoted}\ndenominator = '1'\n",
            "function": f"[[metrics]]\nname = 'own'\nfunction = {quoted}\n",
            "segment": f"[segments]\nown = {quoted}\n",
        }
        for place, more in added.items():
            yield Case(
                "expression", f"{place} {text[:40]}", files={"e.toml": (FILE + more).encode()}
            )


COLUMNS = (
    "user_id",
    "ts",
    "variant",
    "item_id",
    "request_id",
    "position",
    "click",
    "dwell",
    "score",
)
CELLS = (
    *("null", "cast(null as int)", "''", "'x'", "0", "-1", "1e308", "cast('nan' as double)"),
    *("cast('-inf' as double)", "true", "[1]", "{'a': 1}", "9223372036854775807", "0.5"),
    *(
        "cast(1 as decimal(38, 10))",
        "cast('x' as blob)",
        "timestamp 'infinity'",
        "date '0001-01-01'",
    ),
    *("timestamp '200000-01-01'", "timestamptz '2024-01-01 00:00:00+00'", "time '01:00:00'"),
    *("interval 1 day", "uuid '00000000-0000-0000-0000-000000000000'", "cast(1e30 as hugeint)"),
    *("cast(2 as utinyint)", "repeat('y', 100000)"),
)


SOME_NUMBERS = (
    *("null", "-1", "0", "0.5", "1e30", "1e308", "-1e308", "9223372036854775807"),
    *("cast('nan' as double)", "cast('inf' as double)", "cast('-inf' as double)"),
)
SOME_TIMES = (
    *("null", "timestamp 'infinity'", "timestamp '-infinity'", "timestamp '200000-01-01'"),
    *("timestamp '0044-03-15 (BC)'", "timestamp '0001-01-01'", "timestamp '1970-01-01'"),
    *("timestamp '1582-10-10'", "timestamp '9999-12-31 23:59:59.999'"),
)


@cache
def log_of(sql: str = LOG, suffix: str = ".parquet") -> bytes:
    """A log as the bytes of a file."""
    kind = {".csv": "csv", ".json": "json"}.get(suffix, "parquet")
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as con:
        path = Path(folder) / f"x{suffix}"
        con.execute(f"copy ({sql}) to '{path}' (format {kind})").fetchall()
        return path.read_bytes()


def logs() -> Iterator[Case]:
    """Columns of other types and values: in every row, and in one row among the others."""
    for column in COLUMNS:
        for cell in CELLS:
            sql = f"select * replace ({cell} as {column}) from ({LOG})"
            yield Case("log", f"{column} is {cell}", files={"log.parquet": sql.encode()})
    for column in ("ts", "position", "click", "dwell", "score"):
        kind = "ts" if column == "ts" else f"cast({column} as double)"
        for cell in SOME_TIMES if column == "ts" else SOME_NUMBERS:
            some = f"case when impression_id = 7 then {cell} else {kind} end as {column}"
            sql = f"select * replace ({some}) from ({LOG})"
            for period, text in (("with", FILE), ("without", without_period())):
                odd = {"log.parquet": sql.encode(), "e.toml": text.encode()}
                yield Case("log", f"one {column} is {cell}, {period} a period", files=odd)
    for column in COLUMNS:
        sql = f"select * exclude ({column}) from ({LOG})"
        yield Case("log", f"no {column}", files={"log.parquet": sql.encode()})


def without_period() -> str:
    """The file without its period."""
    return FILE.replace("[period]\nstart = 2024-01-01\nend = 2024-01-04\n", "")


def files() -> Iterator[Case]:
    """Logs with bytes that are not meant, in three formats."""
    for suffix, seed in ((".parquet", 2), (".csv", 3), (".json", 4)):
        text = FILE.replace("log.parquet", f"log{suffix}").encode()
        for name, data in damaged(log_of(suffix=suffix), 60, seed):
            whole = {"e.toml": text, f"log{suffix}": data}
            yield Case("file of a log", f"{suffix}: {name}", files=whole)


NUMBERS = ("-1", "0", "1e300", "1e-300", "nan", "inf", "-inf", "x", "", " ", str(2**63), "9" * 400)
OPTIONS: Mapping[str, Sequence[str]] = {
    "analyze": ("--threads", "--memory-limit", "--engine", "--store", "--aggregates", "--csv"),
    "compare": ("--metric",),
    "power": ("--mde", "--days", "--power", "--metric"),
    "aa": ("--runs", "--seed", "--metric"),
    "windows": ("--width", "--look", "--by", "--metric"),
    "replay": (
        *("--k", "--bins", "--curve", "--k-by", "--blend", "--threshold", "--kept-negatives"),
        *("--metric", "--compat", "--relevance", "--ties", "--no-relevant", "--split"),
    ),
    "off-policy": (
        "--from",
        "--to",
        "--probability",
        "--policy",
        "--clip",
        "--min-ess",
        "--reward",
    ),
}


def options() -> Iterator[Case]:
    """Every option with every odd number and text."""
    for command, flags in OPTIONS.items():
        for flag in flags:
            for value in (
                *NUMBERS,
                "position:1=0",
                "a=1/2",
                "a=2024-01-01/2024-01-02",
                "💥",
                "y" * 300,
            ):
                needed = ("--metric", "ctr") if command == "compare" and flag != "--metric" else ()
                needed = ("--from", "a", "--to", "b") if command == "off-policy" else needed
                out = () if flag in ("--csv", "--store") else ("--json", "{}/o.json")
                where = "{}/" if flag in ("--csv", "--store", "--aggregates") and value else ""
                arguments = (command, "{}/e.toml", *needed, *out, flag, f"{where}{value}")
                yield Case("option", f"{command} {flag} {value[:40]}", arguments)
    for value in NUMBERS:
        for flag in ("--impressions", "--seed"):
            arguments = ("simulate", "{}/new", "--impressions", "5000", flag, value)
            yield Case("option", f"simulate {flag} {value[:40]}", arguments)
        arguments = ("assign", "--salt", "s", "--explain", "7", "--variants", f"a={value},b=1")
        yield Case("option", f"assign --variants a={value[:40]}", arguments)


def names() -> Iterator[Case]:
    """Names that no file can have, or that are of something else."""
    for what, name in (
        ("too long", "x" * 300),
        ("a folder", "."),
        ("a loop", "loop"),
        ("below a file", "log.parquet/x"),
        ("in no folder", "no/where"),
        ("a device", "full"),
        ("leading nowhere", "dangling/x"),
    ):
        for flag in ("--json", "--csv", "--report", "--store", "--save-aggregates", "--aggregates"):
            links = {"loop": "pool", "pool": "loop", "full": "/dev/full", "dangling": "nothing"}
            arguments = ("analyze", "{}/e.toml", flag, f"{{}}/{name}")
            yield Case("name", f"{flag} {what}", arguments, links=links)
        for arguments in (("analyze", f"{{}}/{name}"), ("assign", f"{{}}/{name}", *ASSIGN)):
            yield Case("name", f"{arguments[0]} {what}", arguments, links=links)
        text = re.sub('path = ".*"', f'path = "{name}"', FILE)
        yield Case("name", f"a log {what}", files={"e.toml": text.encode()}, links=links)


ASSIGN = ("--salt", "s", "--variants", "a=1,b=1", "--json", "{}/o.json")


def ids() -> Iterator[Case]:
    """Files of ids with bytes that are not meant."""
    for name, data in damaged(
        b'user,country\n007,de\n" 7",fr\n"a,b",us\n8,"x ""y"""\n', 60, seed=5
    ):
        yield Case("ids", name, ("assign", "{}/ids.csv", *ASSIGN), {"ids.csv": data})


def every_case() -> list[Case]:
    """All inputs, always the same."""
    kinds = (entries, texts, expressions, logs, files, options, names, ids)
    return [case for kind in kinds for case in kind()]


def sample(count: int, seed: int = 1) -> list[Case]:
    """As many inputs of each class as there are of the others, always the same for a seed."""
    rng = random.Random(seed)  # noqa: S311 (no secret)
    cases = every_case()
    rng.shuffle(cases)
    places: Counter[str] = Counter()
    ranked = []
    for i, case in enumerate(cases):
        ranked.append((places[case.kind], i))
        places[case.kind] += 1
    return [cases[i] for _, i in sorted(ranked)[:count]]


# Running one.


def lay_out(case: Case, folder: Path) -> None:
    """Write the files of a run."""
    written: dict[str, bytes] = {"e.toml": FILE.encode(), "log.parquet": log_of(), **case.files}
    for name, data in written.items():
        # A log may be given by its query.
        is_query = name == "log.parquet" and data.startswith(b"select")
        (folder / name).write_bytes(log_of(data.decode()) if is_query else data)
    for name, target in case.links.items():
        path = Path(target)
        (folder / name).symlink_to(path if path.is_absolute() else folder / path)
    (folder / "o.json").write_text(OLD)


class TooLateError(BaseException):
    """Raised in a run without end; no `except Exception` keeps it."""


def _too_late(*_: object) -> None:
    raise TooLateError


def run(case: Case) -> End:
    """Run the command in this process, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as name:
        folder = Path(name)
        lay_out(case, folder)
        before = {path: path.read_bytes() for path in sorted(folder.glob("*")) if path.is_file()}
        start, out, err = time.perf_counter(), io.StringIO(), io.StringIO()
        arguments = [argument.replace("{}", name) for argument in case.arguments]
        code = _call(arguments, out, err)
        seconds = time.perf_counter() - start
        word = _word(code, out.getvalue(), err.getvalue()) or _left(folder, before, code)
        said = err.getvalue().replace(name, "")
        return End(word or ("refused" if code == 2 else "result"), said, seconds)


def _call(arguments: list[str], out: io.StringIO, err: io.StringIO) -> int | None:
    """The exit code; None for a run without end."""
    argv, sys.argv = sys.argv, ["abeval", *arguments]
    signal.signal(signal.SIGALRM, _too_late)
    signal.alarm(SECONDS)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            abeval()
    except SystemExit as stop:
        return int(stop.code or 0)
    except TooLateError:
        return None
    finally:
        signal.alarm(0)
        sys.argv = argv
    return 0


def _word(code: int | None, out: str, err: str) -> str | None:
    """What is wrong with the exit code and the messages."""
    if code is None:
        return "without end"
    if code == 1 and "No space left" in err:
        # A full disk is no fault of the input.
        return None
    if "Traceback" in err or code not in (0, 2):
        return "traceback" if "Traceback" in err else f"exit code {code}"
    if code == 2 and out:
        return "stdout though refused"
    if code == 2 and not re.match(r"error: |Usage: ", err):
        return "no message"
    return None


def _left(folder: Path, before: Mapping[Path, bytes], code: int | None) -> str | None:
    """What is wrong with the files."""
    if list(folder.rglob(".abeval-*")):
        return "a draft is left"
    output = folder / "o.json"
    for path, data in before.items():
        if path != output and path.read_bytes() != data:
            return f"{path.name} was replaced"
    text = output.read_text()
    if code == 0 and text != OLD:
        json.loads(text, parse_constant=_no_number)
    elif text != OLD:
        return "the output was replaced though refused"
    return None


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} in JSON")


def main() -> None:
    """Run the inputs, and print how many of each class ended how."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_600, help="inputs to run")
    parser.add_argument("--seed", type=int, default=1, help="of the choice")
    chosen = parser.parse_args()
    ends: dict[str, Counter[str]] = {}
    for case in sample(chosen.count, chosen.seed):
        end = run(case)
        ends.setdefault(case.kind, Counter())[end.word] += 1
        if not end.is_fine:
            print(
                f"{end.word}: {case.kind}: {case.name!r}\n  {end.said.strip()[-300:]}", flush=True
            )
    print("\n| class | inputs | refused | result | otherwise |\n|---|---|---|---|---|")
    for kind, words in sorted(ends.items()):
        fine = words["refused"], words["result"]
        print(f"| {kind} | {words.total()} | {fine[0]} | {fine[1]} | {words.total() - sum(fine)} |")


if __name__ == "__main__":
    main()
