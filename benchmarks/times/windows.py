"""What windows cost where variants, metrics and days are many: 5, 40 and 90."""

from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.timing import ABEVAL

SIZE, DAYS = 20_000, 90
VARIANTS, COLUMNS = 5, 20
START = pd.Timestamp("2026-01-01")
SIDES = {"plain": (False, False), "capped": (True, False), "adjusted": (False, True)}


def list_commands(folder: Path) -> dict[str, list[str]]:
    """List the effects over time, with caps or an adjustment, whose files are written."""
    for name, (cap, adjust) in SIDES.items():
        (folder / f"{name}.toml").write_text(write_experiment(cap, adjust))
    return {n: [*ABEVAL, "windows", f"{n}.toml", "--json", f"{n}.json"] for n in SIDES}


def write_experiment(cap: bool, adjust: bool) -> str:
    """Write the experiment file: of every column a total per user, and one per click."""
    end = START + pd.Timedelta(days=DAYS)
    before = START - pd.Timedelta(days=7)
    lines = [
        *('name = "long"', 'unit = "user_id"', 'control = "v0"', "[logs.impressions]"),
        *('path = "log.parquet"', "[period]", f"start = {START.date()}", f"end = {end.date()}"),
        *("[pre_period]", f"start = {before.date()}", f"end = {START.date()}"),
        *("[inference]", f'adjust = "{"cuped" if adjust else "none"}"'),
        *(f"[variants.v{i}]" for i in range(VARIANTS)),
    ]
    capped = "cap = 0.99" if cap else ""
    for i in range(COLUMNS):
        lines.append(f'[[metrics]]\nname = "total_{i}"\nvalue = "c{i}"\n{capped}')
        lines.append(f'[[metrics]]\nname = "rate_{i}"\nnumerator = "c{i}"\ndenominator = "click"')
    return "\n".join(lines) + "\n"


def write_log(folder: Path, size: int) -> None:
    """Write users who come back, half of them new in the period; every other column is money."""
    random = np.random.default_rng(7)
    entry = np.where(random.random(size) < 0.5, -7, random.integers(0, DAYS, size))
    rate = random.beta(1.5, 5, size)
    day = np.arange(-7, DAYS)
    there = (day == entry[:, None]) | (
        (day > entry[:, None]) & (random.random((size, DAYS + 7)) < rate[:, None])
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
    pd.DataFrame(log).sort_values("ts").to_parquet(folder / "log.parquet")
