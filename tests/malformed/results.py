"""JSON of results with other values in it, or other bytes; histories of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from tests.malformed import data
from tests.malformed.experiments import damaged
from tests.malformed.harness import Case, Change, Record, command, drawn, weighted

COMMANDS = (
    "report FILE --output out/o.html",
    "report FILE --format md",
    "report FILE --json out/o.json --output out/n.md",
    "report FILE r.json --output out/n.html",
    "history add FILE --history out/h.parquet --json out/o.json",
    "history add r.json FILE --history out/h.csv",
    "analyze --sums FILE",
)


def run(seed: int, count: int, first: int = 0) -> Iterator[Record]:
    """Run results that are drawn."""
    return drawn("results", _draw, seed, count, first)


def _draw(rng: random.Random) -> Case:
    file = rng.choice(("r.json", "r.json", "study.json", "replay.json"))
    words = [file if word == "FILE" else word for word in rng.choice(COMMANDS).split()]
    draws = random.Random(rng.random())  # noqa: S311 (no secret)
    if rng.random() < 0.2:
        change: Change = lambda content: damaged(draws, content)[1]  # noqa: E731
    else:
        change = lambda content: _changed(draws, content)  # noqa: E731
    return Case(" ".join(words), command(*words), {file: change})


def _changed(rng: random.Random, content: bytes) -> bytes:
    """Put odd values in a few places of a result, take fields away, add or rename some."""
    whole = json.loads(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        holder, key = rng.choice(list(_places(whole)))
        match rng.randrange(5):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.append(holder[key])
            case 1:
                holder[weighted(rng, ["nothing"], data.listed("texts.json"), 0.5)] = holder[key]
            case _:
                odd = (*data.listed("json_values.json"), *data.listed("texts.json")[:40])
                holder[key] = rng.choice(odd)
        if not list(_places(whole)):
            break
    if rng.random() < 0.05:
        whole = rng.choice(data.listed("json_values.json"))
    return json.dumps(whole).encode()


def _places(whole: Any) -> Iterator[tuple[Any, Any]]:
    """Give every place of a tree: what holds it, and its key or number."""
    keys = (
        whole if isinstance(whole, dict) else range(len(whole)) if isinstance(whole, list) else ()
    )
    for key in keys:
        yield whole, key
        yield from _places(whole[key])
