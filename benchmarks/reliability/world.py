"""An experiment whose log grows by a day, and runs of it in processes of their own."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import abeval
import abeval.pipeline
import abeval.report.page
from abeval.cli.main import main

EXPERIMENT = """\
name = "grows"
unit = "user_id"
control = "a"
variants = {a = {}, b = {}}
period = {start = 2024-03-01, end = 2024-03-08}
cleaning.duplicates = "unchecked"
segments.device = "device"
trust.aa_runs = 200
metrics = [{name = "ctr"}, {name = "clicks_per_user"}, {name = "impressions_per_user"}]
logs.impressions.path = "log"
engine = {memory_limit = "1GB", threads = 1, temp_directory = "TEMPORARY"}
"""


@dataclass(frozen=True)
class World:
    """A folder with an experiment, its log and what runs write.

    Attributes:
        folder: Of everything.
    """

    folder: Path

    @property
    def out(self) -> Path:
        """Where runs write."""
        return self.folder / "out"

    @property
    def temporary(self) -> Path:
        """Where the databases of runs are."""
        return self.folder / "temporary"

    @property
    def experiment(self) -> Path:
        """The experiment file."""
        return self.folder / "experiment.toml"

    def make(self, days: int, seed: int = 0) -> None:
        """Write the experiment and the first days of its log."""
        for folder in (self.folder / "log", self.out, self.temporary):
            folder.mkdir(parents=True, exist_ok=True)
        self.experiment.write_text(EXPERIMENT.replace("TEMPORARY", str(self.temporary)))
        for day in range(days):
            self.add_day(day, seed)

    def add_day(self, day: int, seed: int = 0) -> None:
        """Write one more day of the log."""
        day_log(day, seed).to_parquet(self.folder / "log" / f"day-{day}.parquet")

    def load(self) -> abeval.LoadedExperiment:
        """The experiment."""
        return abeval.load(self.experiment)


def day_log(day: int, seed: int) -> pd.DataFrame:
    """Impressions of one day."""
    rows, units = 4_000, 900
    random = np.random.default_rng([seed, day])
    user = random.integers(0, units, rows)
    start = pd.Timestamp("2024-03-01") + pd.Timedelta(days=day)
    seconds = random.integers(0, 86_400, rows)
    return pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(user % 2 == 0, "a", "b"),
            "ts": (start + pd.to_timedelta(seconds, unit="s")).as_unit("ms"),
            "request_id": np.arange(rows) // 5,
            "item_id": random.integers(0, 50, rows),
            "device": np.array(["phone", "tv", "web"])[user % 3],
            "click": (random.random(rows) < 0.1 + 0.01 * (user % 2)).astype(int),
        }
    )


def begun(arguments: Sequence[object]) -> int:
    """Start the command in a copy of this process, which has imported most: its number."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        sys.argv = ["abeval", *map(str, arguments)]
        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """Wait for a run: its exit code, or less the number of the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
