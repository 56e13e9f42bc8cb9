"""Commands with good and odd options together, names of files, addresses, a closed stdout."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from tests.malformed import data
from tests.malformed.experiments import expression
from tests.malformed.harness import Case, Record, command, drawn

GROUPS = ("engine", "table")


def run(seed: int, count: int, first: int = 0) -> Iterator[Record]:
    """Run commands that are drawn."""
    return drawn("options", _draw, seed, count, first)


def _draw(rng: random.Random) -> Case:
    known = data.table("options.toml")
    name = rng.choice([name for name in known if name not in GROUPS])
    flags = {flag: values for flag, values in known[name].items() if flag.startswith("--")}
    for group in known[name]["flags"]:
        flags |= known[group]
    words = [*name.split()]
    if known[name]["has"] and rng.random() < 0.97:
        good = known[name]["has"]
        words.append(_filled(rng, rng.choice((good[0], good[0], *good))))
    if words[1:] and words[1].endswith((".csv", ".parquet", ".json", ".duckdb")):
        words += ["--variant", "variant"] if name == "analyze" and rng.random() < 0.8 else []
    needed = {"off-policy": ("--from", "--to"), "tools assign": ("--salt", "--variants")}
    needed |= {"history add": ("--history",), "history report": ("--history",)}
    for flag in needed.get(name, ()):
        if rng.random() < 0.95:
            words += [flag, _filled(rng, _drawn_value(rng, flags[flag]))]
    chosen = rng.sample(sorted(flags), min(len(flags), rng.choice((0, 1, 1, 2, 2, 3, 4))))
    for flag in chosen:
        words += [flag, *([_filled(rng, _drawn_value(rng, flags[flag]))] if flags[flag] else [])]
    if rng.random() < 0.03:
        rng.shuffle(words)
    # No process can be started with a NUL among its arguments.
    words = [word.replace("\0", "0") for word in words]
    # A log of an experiment file is read, too.
    reads = {"log.parquet", "t.csv"} if {"e.toml", "units.toml"} & {*words} else set[str]()
    outputs = [word for word in words[2:] if words.count(word) == 1 and word not in reads]
    codes = (0, 2, 3, 4, 5, 6) if "--gate" in words else (0, 2)
    shown = " ".join(word[:30] for word in words)
    is_closed = rng.random() < 0.04
    act = command(*words)
    return Case(repr(shown)[1:-1], act, codes=codes, is_closed=is_closed, outputs=outputs)


def _drawn_value(rng: random.Random, values: Sequence[str]) -> str:
    return rng.choice((values[0], values[0], *values))


def _filled(rng: random.Random, value: str) -> str:
    """Put drawn things in the place of their kind."""
    kinds: Mapping[str, Sequence[str]] = data.listed("drawn.json")
    for kind, drawable in {**kinds, "TEXT": data.listed("texts.json")}.items():
        if kind in value:
            value = value.replace(kind, rng.choice(drawable))
    return value.replace("EXPRESSION", expression(rng))
