"""A megabyte of text in any place: an answer within a second of processor more than usual."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence

from tests.malformed import data
from tests.malformed.experiments import with_entry
from tests.malformed.files import good_table
from tests.malformed.harness import Act, Case, Record, calls, command, run_cases
from tests.malformed.tools import GOOD

MORE_SECONDS = 1.0
"""Of processor, that a long text may take."""

TEXTS = {
    "letters": "x",
    "words": "ab ",
    "digits": "7",
    "quotes": "it's ",
    "pairs": "(é,",
    "uri": "s3://key:word@b/a?x=1&",
}
SIZE = 1_000_000


def run(seed: int, count: int, first: int = 0) -> Iterator[Record]:
    """Run places with a kind of text each, in an order that is drawn, and each with a short one."""
    usual = _cases("usual", "x")
    drawn = [(kind, place) for kind in TEXTS for place in usual]
    random.Random(seed).shuffle(drawn)  # noqa: S311 (no secret)
    drawn = drawn[first : first + count]
    places = sorted({place for _, place in drawn})
    seconds = dict(
        zip(places, (r.seconds for r in run_cases(usual[p] for p in places)), strict=True)
    )
    long = {kind: text * (SIZE // len(text.encode())) for kind, text in TEXTS.items()}
    cases = (_cases(kind, long[kind])[place] for kind, place in drawn)
    for (_, place), record in zip(drawn, run_cases(cases), strict=True):
        is_slow = record.seconds > seconds[place] + MORE_SECONDS
        said = f"[{record.seconds:.2f} s, usually {seconds[place]:.2f}] {record.message}"
        yield record._replace(
            ok=record.ok and not is_slow, message=said if is_slow else record.message
        )


FLAGS = """--variant --unit --metric --control --weights --memory-limit --segment --read --connect
--sums --json --nothing"""
COMMANDS = """analyze TEXT
report TEXT
init TEXT
tools sql TEXT
tools assign --salt TEXT --variants a=1,b=1 --explain 7
tools assign --salt s --variants TEXT --explain 7
tools assign --salt s --variants a=1,b=1 --explain TEXT
replay e.toml --metric TEXT
windows e.toml --metric TEXT
power e.toml --mde TEXT
off-policy e.toml --from TEXT --to b
history report --history h.parquet --metric TEXT"""
ENTRIES = """name unit control timezone logs.units.path logs.units.query logs.units.where
logs.units.columns.variant segments.s engine.memory_limit no_such_entry"""
TOOLS: Sequence[tuple[str, dict[str, object]]] = (
    ("explain", {"file": "t.csv", "name": "TEXT", "variant": "variant"}),
    ("analyze", {"file": "TEXT"}),
    ("analyze", {"file": "t.csv", "variant": "TEXT"}),
    ("plan", {"file": "e.toml", "mde": 0.1, "metrics": ["TEXT"]}),
    ("plan", {"file": "e.toml", "mde": "TEXT"}),
    ("history", {"file": "h.parquet", "metrics": ["TEXT"]}),
    ("read_log_columns", {"files": ["TEXT"]}),
    ("TEXT", {}),
    ("analyze", {"TEXT": 1}),
)


def _cases(kind: str, text: str) -> dict[str, Case]:
    """Return every place, with a text in it."""
    cases: dict[str, Case] = {}

    def add(
        place: str, act: Act, content: Mapping[str, bytes] | None = None, code: int = 2
    ) -> None:
        cases[place] = Case(f"{kind}: {place}", act, content or {}, codes=(0, code))

    named = ("--variant", "variant", "--unit", "user_id")
    whole, draft = (*named, "--all", "--report", "out/o.html"), ("--output", "out/d.toml")
    header, rows = good_table(400)
    for place in ("header", "user_id", "variant", "click", "country"):
        names = [text if place == "header" and name == "country" else name for name in header]
        cells = [names, *([*row] for row in rows)]
        if place != "header":
            cells[5][header.index(place)] = text
        content = {"x.csv": "\n".join('"' + '","'.join(row) + '"' for row in cells).encode()}
        add(f"analyze, {place}", command("analyze", "x.csv", *whole), content)
        add(f"init, {place}", command("init", "x.csv", *draft), content)
    for flag in FLAGS.split():
        add(f"analyze {flag}", command("analyze", "t.csv", *named, flag, text))
    for line in COMMANDS.splitlines():
        add(line, command(*(text if word == "TEXT" else word for word in line.split())))
    units = data.table("world.toml")["units.toml"]
    for entry in ENTRIES.split():
        content = {"units.toml": with_entry(units, entry, json.dumps(text)).encode()}
        add(f"entry {entry}", command("analyze", "units.toml"), content)
    for tool, arguments in TOOLS:
        written = json.dumps([tool, arguments])
        asked = json.loads(written.replace('"TEXT"', json.dumps(text)))
        add(f"tool {written}", calls(asked, GOOD), code=0)
    return cases
