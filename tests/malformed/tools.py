"""Calls of the server's tools with odd arguments; after each a good one, which is answered."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.malformed import data
from tests.malformed.harness import Case, Record, calls, drawn, weighted

NEEDED = ("file", "files", "name")
GOOD = ("explain", {"file": "t.csv", "name": "srm", "variant": "variant"})


def run(seed: int, count: int, first: int = 0) -> Iterator[Record]:
    """Run calls that are drawn."""
    return drawn("tools", _draw, seed, count, first)


def _draw(rng: random.Random) -> Case:
    known = data.table("tools.toml")
    asked = []
    for _ in range(rng.randint(1, 3)):
        tool = rng.choice(sorted(known))
        arguments = {}
        for name, values in known[tool].items():
            if rng.random() < (0.95 if name in NEEDED else 0.5):
                arguments[name] = weighted(rng, values, [_odd(rng, values[0])], 0.35)
        if rng.random() < 0.05:
            arguments[rng.choice(data.listed("texts.json"))] = 1
        asked.append((tool, arguments))
    shown = "; ".join(f"{tool} {str(arguments)[:60]}" for tool, arguments in asked)
    return Case(repr(shown)[1:-1], calls(*asked, GOOD), codes=(0,))


def _odd(rng: random.Random, good: Any) -> Any:
    """Draw a value of the same type, or any other."""
    text = rng.choice((*data.listed("texts.json"), *data.listed("drawn.json")["IN"]))
    if rng.random() < 0.3:
        return rng.choice([value for value in data.listed("json_values.json") if value != 1e400])
    if isinstance(good, list):
        return [text] * rng.choice((0, 1, 2))
    if isinstance(good, float | int):
        return rng.choice((-1, 0, 1e-300, 1e300, 0.5, 10**30, "0.1", "x"))
    return text
