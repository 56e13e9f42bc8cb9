"""Options with odd numbers and texts, names that no file can have, files of ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.malformed.experiments import damaged
from benchmarks.malformed.world import FILE, Case

NUMBERS = ("-1", "0", "1e300", "1e-300", "nan", "inf", "-inf", "x", "", " ", str(2**63), "9" * 400)
OPTIONS: Mapping[str, Sequence[str]] = {
    "analyze": ("--threads", "--memory-limit", "--engine", "--csv", "--pairs"),
    "power": ("--mde", "--days", "--power", "--metric"),
    "aa": ("--runs", "--seed", "--metric"),
    "windows": ("--width", "--look", "--by", "--metric"),
    "replay": (
        *("--k", "--bins", "--curve", "--threshold", "--kept-negatives"),
        *("--metric", "--compat", "--relevance", "--ties", "--no-relevant"),
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
                needed = ("--from", "a", "--to", "b") if command == "off-policy" else ()
                out = () if flag == "--csv" else ("--json", "{}/o.json")
                where = "{}/" if flag == "--csv" and value else ""
                arguments = (command, "{}/e.toml", *needed, *out, flag, f"{where}{value}")
                yield Case("option", f"{command} {flag} {value[:40]}", arguments)
    for value in NUMBERS:
        for flag in ("--impressions", "--seed"):
            new = ("tools", "simulate", "{}/new", "--impressions", "5000")
            arguments = (*new, flag, value)
            yield Case("option", f"simulate {flag} {value[:40]}", arguments)
        arguments = (*ASSIGN[:4], "--explain", "7", "--variants", f"a={value},b=1")
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
        for flag in ("--json", "--csv", "--report"):
            links = {"loop": "pool", "pool": "loop", "full": "/dev/full", "dangling": "nothing"}
            arguments = ("analyze", "{}/e.toml", flag, f"{{}}/{name}")
            yield Case("name", f"{flag} {what}", arguments, links=links)
        for arguments in (("analyze", f"{{}}/{name}"), (*ASSIGN, f"{{}}/{name}")):
            yield Case("name", f"{arguments[0]} {what}", arguments, links=links)
        text = re.sub('path = ".*"', f'path = "{name}"', FILE)
        yield Case("name", f"a log {what}", files={"e.toml": text.encode()}, links=links)


ASSIGN = ("tools", "assign", "--salt", "s", "--variants", "a=1,b=1", "--json", "{}/o.json")


def ids() -> Iterator[Case]:
    """Files of ids with bytes that are not meant."""
    for name, data in damaged(
        b'user,country\n007,de\n" 7",fr\n"a,b",us\n8,"x ""y"""\n', 60, seed=5
    ):
        yield Case("ids", name, (*ASSIGN, "{}/ids.csv"), {"ids.csv": data})
