"""Every command with every optional part of an experiment: a result, or one message.

The parts are the two-valued factors of an orthogonal array of strength 2 (Rao 1947): in 16 worlds
each pair of parts is there, missing, and each there alone.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomlkit

from abeval.assignment import Assignment
from abeval.cli.main import app
from abeval.errors import AbevalError

PARTS = (
    *("no_user", "no_time", "no_click_log", "cuts", "segments", "items", "exposures", "events"),
    *("training", "pre_period", "scores", "units", "assignment", "propensity", "scorecard"),
)
WORLDS = [
    {name for mask, name in enumerate(PARTS, start=1) if (world & mask).bit_count() % 2}
    for world in range(16)
]
"""The parts of each world: a part is there where the number and its mask share an odd number of
bits."""

COMMANDS: dict[str, list[str]] = {
    "analyze": [],
    "analyze --report a.html": ["--report", "a.md", "--json", "a.json", "--csv", "a.csv"],
    "analyze --checks": [],
    "analyze --pairs ctr": [],
    "power --days 10": [],
    "power --mde 1%": [],
    "audit": [],
    "replay": ["--report", "r.html", "--curve", "3", "--all"],
    "replay --relevance dwell": [],
    "agree": ["--report", "g.html"],
    "aa": ["--runs", "50"],
    "windows": [],
    "windows --by hour --by weekday": ["--report", "w.html"],
    "off-policy": ["--from", "a", "--to", "b"],
    "tools sql": ["ctr"],
    "tools sql --sums": [],
    "tools sql --views": [],
}
FEW = (0, 1, 2, 4, 8)
"""Worlds that every check-in runs: each part is there in some, and missing in some."""
QUICK = (
    *("analyze", "analyze --checks", "analyze --pairs ctr"),
    *("power --days 10", "audit", "windows", "off-policy"),
)


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """150 users of two variants, and the impressions of their requests of four items each."""
    random = np.random.default_rng(3)
    users = pd.DataFrame({"user_id": [f"u{i:03}" for i in range(150)]})
    rule = Assignment("salt", {"a": 0.5, "b": 0.5})
    users["variant"] = [*rule.assign_many(users.user_id).variant]
    users["country"] = random.choice(["x", "y"], len(users))
    users["before"] = random.gamma(2, 1, len(users)).round(2)
    requests = users.loc[users.index.repeat(1 + random.poisson(3, len(users)))]
    requests = requests.reset_index(drop=True).rename_axis("request_id").reset_index()
    seconds = random.integers(0, 9 * 86_400, len(requests))
    requests["ts"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(seconds, unit="s")
    log = requests.loc[requests.index.repeat(4)].reset_index(drop=True)
    log["position"] = np.arange(len(log)) % 4 + 1
    log["impression_id"] = np.arange(len(log))
    log["item_id"] = random.integers(1, 20, len(log))
    log["device"] = random.choice(["p", "d"], len(log))
    log["click"] = (random.random(len(log)) < 0.3).astype(int)
    log["propensity"], log["dwell"], log["grade"], log["policy"] = 0.25, 5.0, 1, "a"
    log["s1"], log["s2"] = random.random(len(log)), random.random(len(log))
    return users, log


def write_world(parts: set[str], folder: Path) -> None:
    """Write the logs of a world and their experiment, without what contradicts it."""
    users, log = tables()
    user, time = ["user_id"] * ("no_user" not in parts), ["ts"] * ("no_time" not in parts)
    logs: dict[str, Any] = {}

    def add(name: str, frame: pd.DataFrame, columns: Sequence[str], **entries: Any) -> None:
        frame[[*columns]].to_parquet(folder / f"{name}.parquet")
        logs[name] = {"path": f"{name}.parquet", **entries}

    optional = {"no_click_log": ["click"], "propensity": ["propensity"], "scores": ["s1", "s2"]}
    columns = ["variant", "item_id", "impression_id", "device", *user, *time]
    columns += [c for part, own in optional.items() if part in parts for c in own]
    add("impressions", log, columns + ["request_id", "position"] * ("assignment" not in parts))
    metrics: list[dict[str, Any]] = [{"name": "ctr", "role": "goal"}]
    entries: dict[str, Any] = {"name": "world", "unit": "user_id" if user else "row"}
    entries |= {"control": "a", "variants": {"a": {}, "b": {}}, "metrics": metrics, "logs": logs}
    if time:
        entries["period"] = {"start": "2026-01-04", "end": "2026-01-10"}
    if time and "pre_period" in parts:
        entries["pre_period"] = {"start": "2026-01-01", "end": "2026-01-04"}
        entries["inference"] = {"adjust": "cuped"}
    if "no_click_log" not in parts:
        add("clicks", log[log.click == 1], ["impression_id", "dwell", *time])
    if "cuts" in parts:
        entries["cuts"] = {"place": "device"}
    if "segments" in parts:
        entries["segments"] = {"device": "device"}
    if "items" in parts:
        items = pd.DataFrame({"item_id": range(1, 20)})
        add("items", items.assign(category=items.item_id % 3), ["item_id", "category"])
    if "scores" in parts:
        entries["models"] = {"one": {"score": "s1"}, "two": {"score": "s2"}}
        entries["variants"] = {"a": {"model": "one"}, "b": {"model": "two"}}
    if "training" in parts:
        add("training", log, ["item_id", "click", "policy", *user, *time])
    if user:
        metrics.append({"name": "clicks_per_user", "role": "guardrail", "margin": 0.2})
        if "exposures" in parts:
            exposed = users.assign(ts=pd.Timestamp("2026-01-03"))
            add("exposures", exposed, ["user_id", "variant", *time])
        if "units" in parts:
            own = {"segments": {"country": "country"}, "covariates": ["before"]}
            add("units", users, ["user_id", "country", "before"], **own)
        if "assignment" in parts:
            entries["assignment"] = {"salt": "salt"}
    if user and time and "events" in parts:
        orders = log.iloc[::9].assign(ts=lambda rows: rows.ts + pd.Timedelta(hours=1))
        add("orders", orders, ["user_id", "ts", "dwell"])
        logs["events"] = {"orders": logs.pop("orders")}
        rule = {"log": "orders", "value": "dwell", "per_unit": "sum", "within": "2 days"}
        metrics.append({"name": "orders", **rule})
    if "scorecard" in parts:
        del entries["metrics"]
    (folder / "world.toml").write_text(tomlkit.dumps(entries))


def run(arguments: Sequence[str]) -> tuple[str | None, str]:
    """Run a command in this process; return the message that it ends with, if any, and stdout."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        try:
            app([*arguments], standalone_mode=False)
        except AbevalError as error:
            return str(error), out.getvalue()
    return None, out.getvalue()


def check_commands(folder: Path, file: str, commands: Sequence[str]) -> dict[str, str]:
    """Run commands on an experiment; return the messages of those without a result."""
    messages = {}
    for command in commands:
        name, *options = command.split()
        last = [file] if name == "tools" else []
        first = [] if last else [file]
        message, out = run([name, *first, *options, *last, *COMMANDS[command]])
        if message is None:
            assert out.strip(), command
            continue
        messages[command] = message
        what, _, hint = message.partition("\n  hint: ")
        # One sentence of what is wrong, and one of how to mend it.
        assert hint, message
        assert "\n" not in what, message
        assert "Traceback" not in message
        assert "nan" not in message.lower().split()
    return messages


NEEDS = {
    "audit": "nothing to audit by",
    "off-policy": "the impressions have no column `propensity`",
    "replay": "no model to replay",
    "replay --relevance dwell": "no model to replay|needs dwell",
    "tools sql --sums": "one statement cannot give|sums can give none of the metrics",
    "windows": "windows need a time",
    "windows --by hour --by weekday": "windows need a time",
}
"""What a command says that needs what a world lacks; no other has a message."""


def check_world(number: int, folder: Path, commands: Sequence[str]) -> None:
    parts = WORLDS[number]
    write_world(parts, folder)
    messages = check_commands(folder, "world.toml", commands)
    for command, message in messages.items():
        needed = NEEDS.get(command, "none")
        assert any(words in message for words in needed.split("|")), (command, message)
    # What has all it needs answers.
    able = {
        "audit": "assignment" in parts and "no_user" not in parts,
        "off-policy": "propensity" in parts,
        "replay": "scores" in parts,
        "windows": "no_time" not in parts,
        "windows --by hour --by weekday": "no_time" not in parts,
    }
    for command, is_able in able.items():
        if command in commands:
            assert (command not in messages) == is_able, (command, messages.get(command))


def test_each_two_parts_are_met_in_all_four_ways() -> None:
    for place, one in enumerate(PARTS):
        for other in PARTS[:place]:
            ways = {(one in world, other in world) for world in WORLDS}
            assert len(ways) == 4, (one, other)


@pytest.mark.parametrize("number", [4, 9])
def test_quick_commands_have_a_result_or_one_message(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_world(number, tmp_path, QUICK)


@pytest.mark.first_cases(1)
@pytest.mark.whole
@pytest.mark.parametrize(
    "number", [n if n in FEW else pytest.param(n, marks=pytest.mark.slow) for n in range(16)]
)
def test_every_command_has_a_result_or_one_message(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # The report has the analysis in it, and the windows by hour those by day.
    check_world(number, tmp_path, [one for one in COMMANDS if one not in ("analyze", "windows")])
