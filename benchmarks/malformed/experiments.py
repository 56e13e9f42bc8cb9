"""Experiment files with odd values in every place, or bytes that are not meant."""

from __future__ import annotations

import random
from collections.abc import Iterator

from benchmarks.malformed.world import FILE, Case

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
    *("name", "role", "direction", "margin", "margin.absolute", "value"),
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
