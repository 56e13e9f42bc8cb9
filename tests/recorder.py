"""Record what the commands answer on six logs, and compare two recordings byte for byte.

    python -m tests.recorder record LOGS OUT [LOG ...]   # LOGS is written once, by the code before
    python -m tests.recorder compare OLD NEW

Walls move safely where the texts, exit codes, JSON, HTML and CSV of every command stay as they are.
Record before a change and after it, on the same folder of logs: results name their files.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
ALIKE = "control=0.5,treatment=0.5"

WRITTEN = {
    "analyze": "analyze FILE --json OUT.json --report OUT.html --csv OUT.csv",
    "gate": "analyze FILE --gate --json OUT.json",
    "study": "analyze FILE --report OUT.html --report OUT.json",
    "markdown": "analyze FILE --format md --report OUT.md",
    "check": "analyze FILE --checks --json OUT.json --gate",
    "windows": "windows FILE --all --json OUT.json --report OUT.html",
    "power": "power FILE --mde 2% --all --json OUT.json",
    "aa": "aa FILE --runs 40 --json OUT.json",
    "compare": "analyze FILE --pairs ctr --json OUT.json",
    "replay": "replay FILE --all --json OUT.json --report OUT.html",
    "agree": "agree FILE --all --json OUT.json --report OUT.html",
    "audit": "audit FILE --json OUT.json",
}
TABLE = "users.csv --unit user --variant group"
COMMANDS: Mapping[str, Mapping[str, str]] = {
    "sample": WRITTEN
    | {
        "curve": "replay FILE --k 1,3 --curve 8 --relevance long_click --json OUT.json",
        "hours": "windows FILE --by hour --by weekday --look 7 --look 14 --json OUT.json",
        "days": "power FILE --days 21 --power 0.9 --json OUT.json",
        "init": "init impressions clicks.parquet items.parquet --output OUT.toml",
        "page": "report analyze.json replay.json --output OUT.html",
        "history_add": "history add analyze.json replay.json --history OUT.parquet",
        "history_report": "history report --history OUT.parquet --json OUT.json",
    },
    "ramped": WRITTEN,
    "position": {k: WRITTEN[k] for k in ("analyze", "replay", "agree", "study")},
    "reordered": {k: WRITTEN[k] for k in ("agree", "windows")},
    "table": {
        "analyze": f"analyze {TABLE} --json OUT.json --report OUT.html --csv OUT.csv",
        "chosen": f"analyze {TABLE} --metric rate=clicks/views --metric spent --covariate before "
        "--segment country --control A --json OUT.json",
        "init": "init users.csv --output OUT.toml",
        "wrong": "analyze users.csv --unit usr --variant group",
    },
    "faulty": {k: WRITTEN[k] for k in ("analyze", "check", "study", "compare", "windows", "power")}
    | {
        "off_policy": "off-policy FILE --from control --to treatment --all --json OUT.json",
        "misspelt": "analyze misspelt.toml",
        "missing": "replay nowhere.toml",
        "assign": f"tools assign ids.csv --salt s --variants {ALIKE} --json OUT.json",
        "explain": f"tools assign --salt s --variants {ALIKE} --explain 17",
        "rule": f"tools assign --salt s --variants {ALIKE} --sql spark",
        "metrics": "tools metrics",
        "schema": "tools schema",
        "help": "analyze --help",
    },
}
"""Log → recording → command. FILE is the experiment, OUT the files of the recording."""

RAMPED = """
name = "ramped"
unit = "user_id"
control = "control"
timezone = "Europe/Berlin"

[period]
start = 2026-03-22
end = 2026-04-05

[pre_period]
start = 2026-03-15
end = 2026-03-22

[variants]
control = { weight = 2 }
treatment = { weight = 1, model = "new" }
bold = { weight = 1 }

[assignment]
salt = "ramped"

[models.new]
score = "predicted"

[logs.impressions]
path = "impressions.csv"
ts_zone = "UTC"

[logs.clicks]
path = "clicks.csv"

[logs.events.orders]
path = "orders.csv"

[segments]
country = "country"
before = { value = "device", known = "before" }

[cuts]
scene = "scene"

[inference]
adjust = "cuped"

[[events]]
name = "sale"
start = 2026-03-28
end = 2026-03-30

[[metrics]]
name = "ctr"
role = "goal"

[[metrics]]
name = "revenue"
role = "goal"
log = "orders"
value = "amount"

[[metrics]]
name = "bought"
log = "orders"
within = "3 days"

[[metrics]]
name = "sessions_per_user"
role = "guardrail"
margin = 0.05

[[metrics]]
name = "latency_p90"
value = "latency"
quantile = 0.9
role = "guardrail"
direction = "decrease"
margin = 0.1

[[metrics]]
name = "latency"
value = "latency"
direction = "decrease"

[[metrics]]
name = "clicks_a_session"
function = "clicks_per_user / sessions_per_user"

[[metrics]]
name = "gauc"

[[metrics]]
name = "day_2"
retention = 2
"""

FAULTY = """
name = "faulty"
unit = "user_id"
control = "control"

[period]
start = 2026-03-22
end = 2026-04-05

[variants]
control = {}
treatment = {}

[logs.impressions]
path = "impressions.csv"

[segments]
device = "device"

[[metrics]]
name = "ctr"
role = "goal"

[[metrics]]
name = "sessions_per_user"
role = "guardrail"
margin = 0.02
"""


def traffic(users: int, seed: int) -> pd.DataFrame:
    """Return impressions of users who come back, from a week before the period to its end."""
    rng = np.random.default_rng(seed)
    visits = 1 + rng.negative_binomial(1, 0.12, users)
    user = np.repeat(np.arange(users), visits)
    born = rng.integers(0, 19 * 1440, users)
    minute = np.minimum(born[user] + rng.exponential(4_000, len(user)).astype(int), 21 * 1440 - 1)
    taste = rng.beta(2, 9, users)
    score = np.clip(taste[user] + rng.normal(0, 0.05, len(user)), 0.01, 0.99)
    frame = pd.DataFrame(
        {
            "impression_id": np.arange(len(user)),
            "request_id": user * 30 + minute // 1440,
            "user_id": [f"u{n:05}" for n in user],
            "item_id": rng.zipf(1.6, len(user)) % 400,
            "ts": pd.Timestamp("2026-03-15") + pd.to_timedelta(minute, unit="min"),
            "country": np.array(["de", "fr", "日本", ""])[user % 4],
            "device": np.array(["phone", "tablet", "desktop"])[user % 3],
            "scene": np.array(["feed", "search"])[rng.integers(0, 2, len(user))],
            "latency": np.round(rng.gamma(3, 40, len(user)), 1),
            "predicted": np.round(score, 4),
            "category": rng.integers(0, 9, len(user)),
            "click": (rng.random(len(user)) < taste[user]).astype(int),
        }
    )
    return frame.sort_values("ts", kind="stable").reset_index(drop=True)


def write_ramped(folder: Path) -> None:
    """Write three variants by hash, clicks and orders in files of their own, and some dirt."""
    from abeval.assignment import Assignment

    rng = np.random.default_rng(5)
    rows = traffic(2_400, 4)
    rule = Assignment("ramped", {"control": 2, "treatment": 1, "bold": 1})
    variant = {user: rule.assign(user).variant for user in rows["user_id"].unique()}
    rows["variant"] = rows["user_id"].map(variant)
    clicked = (rows["click"] == 1) | ((rows["variant"] == "bold") & (rng.random(len(rows)) < 0.04))
    clicks = rows.loc[clicked, ["impression_id", "ts"]].copy()
    clicks["ts"] += pd.to_timedelta(rng.integers(1, 90, len(clicks)), unit="s")
    clicks["dwell"] = np.round(rng.gamma(2, 15, len(clicks)), 1)
    orders = rows.loc[rng.random(len(rows)) < 0.03, ["user_id", "ts"]].copy()
    orders["amount"] = np.round(rng.lognormal(3, 1, len(orders)), 2)
    rows = pd.concat([rows.drop(columns="click"), rows.drop(columns="click").iloc[:40]])
    rows.loc[rows.index[100:130], "user_id"] = None
    rows.to_csv(folder / "impressions.csv", index=False)
    clicks.to_csv(folder / "clicks.csv", index=False)
    orders.to_csv(folder / "orders.csv", index=False)
    (folder / "experiment.toml").write_text(RAMPED)


def write_faulty(folder: Path) -> None:
    """Write a log whose treatment lost a quarter of its users, and users in both variants."""
    rows = traffic(1_600, 9)
    number = rows["user_id"].str[1:].astype(int)
    rows["variant"] = np.where(number % 2 == 0, "control", "treatment")
    rows = rows[(number % 2 == 0) | (number % 8 != 1)]
    rows.loc[rows.index % 97 == 0, "variant"] = "control"
    rows["item_id"] = np.random.default_rng(1).integers(0, 20, len(rows))
    rows["propensity"], rows["position"] = 0.05, 1
    rows.to_csv(folder / "impressions.csv", index=False)
    (folder / "experiment.toml").write_text(FAULTY)
    (folder / "misspelt.toml").write_text(
        FAULTY.replace("[variants]", "[varients]").replace("margin = 0.02", "margin = -1")
    )
    pd.DataFrame({"id": range(60)}).to_csv(folder / "ids.csv", index=False)


def write_table(folder: Path) -> None:
    """Write a table of one row a user."""
    rng = np.random.default_rng(2)
    before = rng.gamma(2, 10, 900)
    table = pd.DataFrame(
        {
            "user": np.arange(900),
            "group": np.array(["A", "B"])[rng.integers(0, 2, 900)],
            "country": np.array(["de", "fr", None], dtype=object)[rng.integers(0, 3, 900)],
            "before": before.round(2),
            "spent": (before * rng.gamma(2, 0.5, 900)).round(2),
            "views": rng.poisson(8, 900),
            "clicks": rng.poisson(1, 900),
        }
    )
    table.to_csv(folder / "users.csv", index=False)


def write_logs(folder: Path) -> None:
    """Write the six logs, each in a folder of its name."""
    from tests.worlds.plants import simulate_plant

    shutil.copytree(ROOT / "sample_logs", folder / "sample")
    for name, write in (("ramped", write_ramped), ("faulty", write_faulty), ("table", write_table)):
        (folder / name).mkdir()
        write(folder / name)
    for name in ("position", "reordered"):
        simulate_plant(folder / name, name, 16_000)


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder, and come back."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def answer(command: str) -> str:
    """Run a command in this process; return its exit code, what it printed, and its messages."""
    from abeval.cli.main import main

    printed, messages = io.StringIO(), io.StringIO()
    code: object = 0
    sys.argv = ["abeval", *command.split()]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(messages):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    return f"exit {code}\n--- stdout\n{printed.getvalue()}--- stderr\n{messages.getvalue()}"


def record(logs: Path, out: Path, only: tuple[str, ...] = ()) -> None:
    """Run the commands of the logs, and write what they answer.

    Args:
        logs: Folder of the logs; written if it is not there.
        out: Folder of the recording: a file a command and format, by log.
        only: Names of logs, or `log/recording`; all without any.
    """
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    if not logs.is_dir():
        logs.mkdir(parents=True)
        write_logs(logs)
    out = out.resolve()
    for log, commands in COMMANDS.items():
        folder = out / log
        for name, command in commands.items():
            if only and log not in only and f"{log}/{name}" not in only:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            shared = "history" if name.startswith("history") else name
            target = os.path.relpath(folder / shared, logs.resolve() / log)
            words = command.replace("FILE", "experiment.toml").replace("OUT", target)
            if log == "sample" and name.startswith(("history", "page")):
                words = re.sub(r"(?<= )(\w+\.json)\b", rf"{Path(target).parent}/\1", words)
                if name == "history_add":
                    Path(folder / "history.parquet").unlink(missing_ok=True)
            if name == "init":
                Path(folder / "init.toml").unlink(missing_ok=True)
            with inside(logs / log):
                text = answer(words)
            text = text.replace(str(out), "OUT").replace(os.path.relpath(out, logs / log), "OUT")
            (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def differences(old: Path, new: Path) -> list[str]:
    """Return the files that differ, each with its first lines that do; only files in both.

    A recording of some logs is compared on those.
    """
    lines = []
    for file in sorted(path for path in new.rglob("*") if path.is_file()):
        name, before = file.relative_to(new), old / file.relative_to(new)
        if not before.exists():
            lines.append(f"{name}: new")
        elif file.suffix == ".parquet":
            continue
        elif before.read_bytes() != file.read_bytes():
            texts = [path.read_text(encoding="utf-8").splitlines() for path in (before, file)]
            changes = [x for x in difflib.unified_diff(*texts, lineterm="", n=0) if x[0] in "+-"]
            lines.append(f"{name}: {len(changes)} lines")
            lines += [f"    {line[:300]}" for line in changes[2:10]]
    return lines


if __name__ == "__main__":
    action, first, second, *rest = sys.argv[1:]
    if action == "record":
        record(Path(first), Path(second), tuple(rest))
    else:
        found = differences(Path(first), Path(second))
        sys.stdout.write("\n".join(found or ["no difference"]) + "\n")
        sys.exit(bool(found))
