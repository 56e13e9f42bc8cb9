"""Experiment files with odd values in any place, odd expressions, more sections, other bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from tests.malformed import data
from tests.malformed.harness import Case, Record, command, drawn, weighted

COMMANDS = (
    *("analyze e.toml --json out/o.json",) * 6,
    "analyze e.toml --report out/o.html",
    "analyze e.toml --checks --json out/o.json",
    "windows e.toml --json out/o.json",
    "power e.toml --mde 5% --json out/o.json",
    "replay e.toml --json out/o.json",
    "agree e.toml --json out/o.json",
    "aa e.toml --runs 20 --json out/o.json",
    "audit e.toml --json out/o.json",
    "off-policy e.toml --from a --to b --json out/o.json",
    "tools sql --sums e.toml --dialect bigquery",
)


def run(seed: int, count: int, first: int = 0) -> Iterator[Record]:
    """Run experiment files that are drawn."""
    return drawn("experiments", _draw, seed, count, first)


def _draw(rng: random.Random) -> Case:
    base = rng.choice(
        [data.table("world.toml")["e.toml"]] * 3 + [data.table("world.toml")["units.toml"]]
    )
    change = rng.choice(
        (_with_entry, _with_entry, _with_metric, _with_expression, _with_expression, _with_lines)
    )
    name, text = change(rng, base)
    if rng.random() < 0.3:
        # An array of tables ends what stands before it, so sections come last.
        text += "\n".join(["", *rng.sample(data.listed("sections.json"), rng.randint(1, 2)), ""])
    content = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.08:
        name, content = damaged(rng, content)
    line = rng.choice(COMMANDS)
    return Case(f"{line.split()[0]}: {name}", command(*line.split()), {"e.toml": content})


def _with_entry(rng: random.Random, base: str) -> tuple[str, str]:
    """Put an odd value in the place of an entry."""
    path, value = rng.choice(data.lines("entries.txt")), rng.choice(data.lines("values.txt"))
    if rng.random() < 0.15:
        value = toml(rng.choice(data.listed("texts.json")))
    return f"{path} = {value[:40]}", with_entry(base, path, value)


def with_entry(base: str, path: str, value: str) -> str:
    """Return the file with an entry of another value, as dotted keys above its arrays of tables."""
    kept, section, arrays = [f"{path} = {value}"], "", []
    is_array = False
    for line in base.splitlines():
        if line.startswith("["):
            section, is_array = line.strip("[]"), line.startswith("[[")
        if is_array:
            arrays.append(line)
        elif not line.startswith("["):
            key, equals, old = line.partition(" = ")
            whole = f"{section}.{key}".strip(".")
            if equals and not f"{whole}.".startswith(f"{path}."):
                kept.append(f"{whole} = {old}")
    is_metrics = path == "metrics" or (arrays and any(k.startswith("metrics") for k in kept))
    return "\n".join([*kept, *([] if is_metrics else arrays)]) + "\n"


def _with_metric(rng: random.Random, base: str) -> tuple[str, str]:
    """Add a metric with some odd entries."""
    entries = {"name": rng.choice(('"own"', '"ctr"', '"gauc"', '"dwell_per_user"'))}
    for _ in range(rng.randint(1, 3)):
        good = ('"price"', '"click"', '"goal"', '"guardrail"', "0.5", "0.1", '"mean"')
        key = rng.choice(data.lines("metric_entries.txt"))
        entries[key] = weighted(rng, good, data.lines("values.txt"), 0.6)
    listed = [f"{key} = {value}" for key, value in entries.items()]
    name = ", ".join(listed)[:80]
    if "[[metrics]]" in base:
        return name, base + "\n".join(["[[metrics]]", *listed, ""])
    return name, base.replace("metrics = [", f"metrics = [{{{', '.join(listed)}}}, ")


def _with_expression(rng: random.Random, base: str) -> tuple[str, str]:
    """Put an expression in a place that takes one."""
    text = expression(rng)
    place = rng.choice(data.listed("expressions.json")["places"])
    section, _, entry = place.partition("\n")
    entry = entry.replace("{}", toml(text))
    if section == "[logs.impressions]":
        whole = with_entry(base, f"logs.impressions.{entry.split(' ')[0]}", toml(text))
    elif section == "[[metrics]]" and "[[metrics]]" not in base:
        whole = base.replace("metrics = [", f"metrics = [{{{entry.replace(chr(10), ', ')}}}, ")
    else:
        whole = f"{base}{section}\n{entry}\n"
    return f"{entry[:30]} … {text[:40]}", whole


def expression(rng: random.Random, depth: int = 3) -> str:
    """Make a random expression, or take an odd one."""
    forms = data.listed("expressions.json")
    if depth == 3 and rng.random() < 0.3:
        return str(rng.choice(forms["odd"]))
    if depth == 0 or rng.random() < 0.2:
        return str(weighted(rng, forms["leaves"], forms["odd"], 0.02))
    form = rng.choice(forms["forms"])
    for _ in range(form.count("{}")):
        form = form.replace("{}", expression(rng, depth - 1).replace("{}", "x"), 1)
    return str(form)


def _with_lines(rng: random.Random, base: str) -> tuple[str, str]:
    """Swap, double, drop, cut or shuffle some lines."""
    rows = base.splitlines()
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, other = rng.randrange(len(rows)), rng.randrange(len(rows))
        match rng.randrange(6):
            case 0:
                rows[at], rows[other] = rows[other], rows[at]
            case 1:
                rows.insert(at, rows[other])
            case 2:
                del rows[at]
            case 3:
                key = rows[at].partition("=")[0].strip()
                rows[at] = f"{key} = {rng.choice(data.lines('values.txt'))}"
            case 4:
                rows[at] = rows[at].replace(rng.choice('abc="[]12-'), rng.choice('abc="[]12- '), 1)
            case _:
                rows[at] = "".join(rng.sample(rows[at], len(rows[at])))
    return "lines", "\n".join(rows) + "\n"


def damaged(rng: random.Random, content: bytes) -> tuple[str, bytes]:
    """Return the same bytes cut, changed, doubled, or with others put in."""
    at = rng.randrange(max(len(content), 1))
    match rng.randrange(5):
        case 0:
            return f"cut at {at}", content[:at]
        case 1:
            return f"{at} is changed", content[:at] + rng.randbytes(1) + content[at + 1 :]
        case 2:
            return f"{at} without 7", content[:at] + content[at + 7 :]
        case 3:
            return f"{at} twice", content[:at] + content[max(0, at - 20) :]
        case _:
            put = rng.choice(
                [b"\x00", b"\xff", b"[[", b"'''", b"\n", b"\r", b"\xef\xbb", b"\xfe\xff"]
            )
            return f"{put!r} at {at}", content[:at] + put + content[at:]


def toml(text: str) -> str:
    """Write a text as TOML does."""
    return json.dumps(text).replace("\x7f", "\\u007f")
