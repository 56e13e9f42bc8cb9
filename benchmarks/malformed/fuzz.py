"""Inputs that a random generator makes: experiment files, expressions, options, logs.

    python -m benchmarks.malformed.fuzz [--minutes 10] [--seed 1] [--first 0]

Input `n` of a seed is always the same: `--seed S --first n --count 1` runs it again. Each is made
of a good one, or by a grammar, so that more of them than of the corpus come to the statistics.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator

from benchmarks.malformed.experiments import ENTRIES, VALUES
from benchmarks.malformed.logs import CELLS, COLUMNS, EXPRESSIONS
from benchmarks.malformed.options import NUMBERS, OPTIONS
from benchmarks.malformed.run import run
from benchmarks.malformed.world import FILE, LOG, Case

SECTIONS = (
    *(
        '[segments]\nprice = "price > 0.5"',
        "[cleaning]\nduplicates = 'drop'",
        "[trust]\naa_runs = 9",
    ),
    *("[inference]\nadjust = 'cuped'", "[inference]\nlooks = 'always_valid'", "[sessions]"),
    *("[pre_period]\nstart = 2023-12-01\nend = 2024-01-01", "[privacy]\nmin_units = 3"),
    *("[[metrics]]\nname = 'gauc'", "[[metrics]]\nname = 'ctr_q'\nquantile = 0.5\nvalue = 'dwell'"),
    *("[[metrics]]\nname = 'x'\nnumerator = 'price'\ndenominator = 'position'",),
    *(
        "[assignment]\nsalt = 's'",
        "[[metrics]]\nname = 'mrr'\nrole = 'guardrail'\nmargin = 0.1",
        "[engine]\nthreads = 1",
    ),
)
"""Good parts that an experiment file may have."""


def of_file(rng: random.Random) -> Case:
    """A good experiment file with more sections, and some lines changed."""
    lines = (FILE + "\n".join(rng.sample(SECTIONS, rng.randrange(5)))).splitlines()
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(7):
            case 0:
                lines[at], lines[other] = lines[other], lines[at]
            case 1:
                lines.insert(at, lines[other])
            case 2:
                del lines[at]
            case 3:
                key = lines[at].partition("=")[0].strip()
                lines[at] = f"{key} = {rng.choice(VALUES)}"
            case 4:
                key = rng.choice(ENTRIES).rpartition(".")[2]
                lines.insert(at, f"{key} = {rng.choice(VALUES)}")
            case 5:
                lines[at] = lines[at].replace(
                    rng.choice('abc="[]12-'), rng.choice('abc="[]12- '), 1
                )
            case _:
                lines[at] = "".join(rng.sample(lines[at], len(lines[at])))
    return Case("experiment file", "", files={"e.toml": "\n".join(lines).encode()})


LEAVES = (
    *("price", "click", "position", "dwell", "score", "ts", "user_id", "variant", "item_id"),
    *("1", "0", "-1", "0.5", "1e300", "null", "true", "'x'", "''", "date '2024-01-01'"),
)
UNARY = ("-", "not ", "abs({})", "ln({})", "sqrt({})", "lower({})", "cast({} as int)", "length({})")
BINARY = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "=",
    "<",
    ">=",
    "<>",
    "and",
    "or",
    "||",
    "is distinct from",
)
MORE = (
    *(
        "case when {} then {} end",
        "coalesce({}, {})",
        "least({}, {})",
        "({} in ({}))",
        "nullif({}, {})",
    ),
    *("try_cast({} as double) + {}", "({} between {} and 1)", "greatest({}, {})", "round({}, {})"),
)


OF_NUMBERS = (
    *("({} + {})", "({} - {})", "({} * {})", "({} / {})", "({} // {})", "({} % {})", "-({} + {})"),
    *("case when {} > {} then 1 end", "coalesce({}, {})", "least({}, {})", "nullif({}, {})"),
    *("abs({}) + ln({})", "sqrt({}) + floor({})", "round({}, 2) - {}", "cast({} as int) + {}"),
    *("pow({}, {})", "cast({} < {} as int)", "exp({}) * {}", "greatest({}, {}, 0.5)"),
)
NUMBER_LEAVES = ("price", "click", "position", "dwell", "score", "1", "0", "-1", "0.5", "1e300")


def expression(rng: random.Random, depth: int = 3) -> str:
    """A random expression; two thirds are of numbers, most of which DuckDB can compute."""
    return _of_numbers(rng, depth) if rng.random() < 2 / 3 else _of_anything(rng, depth)


def _of_numbers(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(NUMBER_LEAVES)
    inner = [_of_numbers(rng, depth - 1) for _ in range(2)]
    return rng.choice(OF_NUMBERS).format(*inner)


def _of_anything(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(LEAVES) if rng.random() < 0.97 else rng.choice(EXPRESSIONS)
    inner = [_of_anything(rng, depth - 1) for _ in range(2)]
    match rng.randrange(3):
        case 0:
            form = rng.choice(UNARY)
            return form.format(inner[0]) if "{}" in form else f"{form}{inner[0]}"
        case 1:
            return f"({inner[0]} {rng.choice(BINARY)} {inner[1]})"
        case _:
            return rng.choice(MORE).format(*inner)


PLACES = (
    *("[[metrics]]\nname = 'own'\nvalue = {}", "[segments]\nown = {}"),
    *(
        "[[metrics]]\nname = 'own'\nnumerator = {}\ndenominator = '1'",
        "[segments]\na = {}\nb = 'variant'",
    ),
    *("[[metrics]]\nname = 'own'\nnumerator = 'click'\ndenominator = {}",),
    *("[[metrics]]\nname = 'own'\nquantile = 0.9\nvalue = {}", "[logs.impressions]\nwhere = {}"),
)


def of_expression(rng: random.Random) -> Case:
    """A random expression in one of the places that take one."""
    text = expression(rng).replace("\\", "").replace("\0", "")
    place = rng.choice(PLACES).format("'''" + text.replace("'''", "''") + " '''")
    whole = f"{FILE}{place}\n"
    if place.startswith("[logs.impressions]"):
        whole = FILE.replace(
            'path = "log.parquet"', f'path = "log.parquet"\n{place.partition(chr(10))[2]}'
        )
    return Case("expression", text[:60], files={"e.toml": whole.encode()})


def of_log(rng: random.Random) -> Case:
    """A log in which some columns have odd values, in all rows, in some, or in one; or are gone."""
    sql = LOG
    for column in rng.sample(COLUMNS, rng.randint(1, 3)):
        cell = rng.choice(CELLS)
        match rng.randrange(4):
            case 0:
                sql = f"select * replace ({cell} as {column}) from ({sql})"
            case 1:
                some = f"impression_id % {rng.choice((2, 7, 400))} = 1"
                kept = f"try_cast(cast({cell} as varchar) as bigint)"
                case = f"case when {some} then {kept} else try_cast({column} as bigint) end"
                sql = f"select * replace ({case} as {column}) from ({sql})"
            case 2:
                sql = f"select * replace (cast({column} as varchar) as {column}) from ({sql})"
            case _:
                sql = f"select * exclude ({column}) from ({sql})"
    if rng.random() < 0.3:
        sql = f"select * from ({sql}) limit {rng.choice((0, 1, 2, 5, 12))}"
    return Case("log", "", files={"log.parquet": sql.encode()})


GOOD_VALUES = (
    "ctr",
    "spent",
    "1",
    "2",
    "5",
    "day",
    "a",
    "b",
    "a=1,b=1",
    "0.05",
    "7",
    "clicks",
    "mean",
)


def of_options(rng: random.Random) -> Case:
    """A command with some of its options, with good values and others."""
    command = rng.choice(sorted(OPTIONS))
    arguments = [command, "{}/e.toml", "--json", "{}/o.json"]
    for flag in rng.sample(list(OPTIONS[command]), rng.randint(0, min(3, len(OPTIONS[command])))):
        # Folders and files go below the folder of the input.
        path = "{}/x" if flag in ("--csv", "--policy") else ""
        arguments += [
            flag,
            path + rng.choice((*GOOD_VALUES, *GOOD_VALUES, *NUMBERS)).replace("/", ""),
        ]
    if command in ("windows", "aa") and "--metric" not in arguments:
        arguments += ["--metric", rng.choice(("ctr", "spent", "gauc", "nothing"))]
    if command == "off-policy":
        arguments += ["--from", "a", "--to", rng.choice("ab")]
    return Case("option", " ".join(arguments), tuple(arguments))


MAKERS: tuple[Callable[[random.Random], Case], ...] = (of_file, of_expression, of_log, of_options)


def made(seed: int, number: int) -> Case:
    """One input: always the same for a seed and a number."""
    return MAKERS[number % len(MAKERS)](random.Random(f"{seed} {number}"))  # noqa: S311 (no secret)


def inputs(seed: int, first: int, count: int | None, minutes: float) -> Iterator[tuple[int, Case]]:
    """Inputs until there are enough, or the time is over."""
    end = time.monotonic() + 60 * minutes
    number = first
    while time.monotonic() < end and (count is None or number < first + count):
        yield number, made(seed, number)
        number += 1


def main() -> None:
    """Run inputs, print those that do not end as they may, and how many of each class ended how."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int)
    chosen = parser.parse_args()
    ends: Counter[tuple[str, str]] = Counter()
    for number, case in inputs(chosen.seed, chosen.first, chosen.count, chosen.minutes):
        end = run(case)
        ends[case.kind, end.word] += 1
        if not end.is_fine:
            print(
                f"{number}: {end.word}: {case.kind} {case.name}\n{end.said.strip()[-400:]}",
                flush=True,
            )
    print(f"{ends.total()} inputs, seed {chosen.seed}")
    for (kind, word), count in sorted(ends.items()):
        print(f"  {kind}: {count} {word}")


if __name__ == "__main__":
    main()
