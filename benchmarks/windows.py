"""What windows cost where variants, metrics and days are many.

    python benchmarks/windows.py DIR [--people 20000] [--days 90] [--cap] [--adjust]

Writes a log of five variants and 40 metrics into DIR where it holds none yet, runs `abeval windows`
on it in a process of its own, and prints its processor seconds and its peak of memory.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from process import run

VARIANTS, COLUMNS = 5, 20
START = pd.Timestamp("2026-01-01")


def main() -> None:
    """Write the log where needed, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--cap", action="store_true", help="cap the metrics")
    parser.add_argument("--adjust", action="store_true", help="adjust by the days before")
    options = parser.parse_args()
    folder = options.directory
    if not (folder / "log.parquet").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_log(folder / "log.parquet", options.people, options.days)
    file = folder / "windows.toml"
    file.write_text(experiment(options.days, options.cap, options.adjust))
    command = [sys.executable, "-m", "abeval", "windows", str(file)]
    cost = run([*command, "--json", str(folder / "windows.json")])
    print(f"{cost.cores:.1f} s of processor, {cost.seconds:.1f} s, {cost.megabytes:.0f} MB")


def experiment(days: int, cap: bool, adjust: bool) -> str:
    """The experiment file: of every column a total per user, and one per click."""
    end = START + pd.Timedelta(days=days)
    before = START - pd.Timedelta(days=7)
    lines = [
        *('name = "long"', 'unit = "user_id"', 'control = "v0"', "[logs.impressions]"),
        *('path = "log.parquet"', "[period]", f"start = {START.date()}", f"end = {end.date()}"),
        *("[pre_period]", f"start = {before.date()}", f"end = {START.date()}"),
        *("[inference]", f'adjust = "{"cuped" if adjust else "none"}"'),
        *(f"[variants.v{i}]" for i in range(VARIANTS)),
    ]
    for i in range(COLUMNS):
        capped = "cap = 0.99" if cap else ""
        lines += ["[[metrics]]", f'name = "total_{i}"', f'value = "c{i}"', capped]
        lines += [
            "[[metrics]]",
            f'name = "rate_{i}"',
            f'numerator = "c{i}"',
            'denominator = "click"',
        ]
    return "\n".join(lines) + "\n"


def write_log(file: Path, people: int, days: int) -> None:
    """Users who come back, half of them new in the period; every other column is money."""
    random = np.random.default_rng(7)
    entry = np.where(random.random(people) < 0.5, -7, random.integers(0, days, people))
    rate = random.beta(1.5, 5, people)
    day = np.arange(-7, days)
    there = (day == entry[:, None]) | (
        (day > entry[:, None]) & (random.random((people, days + 7)) < rate[:, None])
    )
    user, place = np.nonzero(there)
    rows = np.repeat(np.arange(len(user)), 1 + random.poisson(2, len(user)))
    user, place = user[rows], place[rows]
    seconds = random.integers(0, 86_400, len(rows))
    log = {
        "user_id": user,
        "variant": np.char.add("v", (user % VARIANTS).astype(str)),
        "ts": START.to_datetime64() + ((place - 7) * 86_400 + seconds).astype("timedelta64[s]"),
        "click": random.random(len(rows)) < 0.2,
    }
    for i in range(COLUMNS):
        amount = random.gamma(1.0, 20.0, len(rows)) if i % 2 else random.poisson(1.5, len(rows))
        log[f"c{i}"] = np.round(amount, 2)
    pd.DataFrame(log).sort_values("ts").to_parquet(file)


if __name__ == "__main__":
    main()
