"""What an experiment file sets: cleaning, sessions, inference, privacy, the engine.

Parts of the `Experiment` of `model.py`, each with its defaults.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from abeval.bounds import MAX_GAP_MINUTES, MAX_LONG_SECONDS, MAX_SIZE, MAX_THREADS, MAX_VALUE
from abeval.experiment.sections import SIZE, Moment, Name, Section


class Cleaning(Section):
    """How duplicate rows and units in several variants are handled."""

    duplicates: Literal["drop", "keep", "unchecked"] = "drop"
    duplicate_key: list[Name] | None = None
    crossover: Literal["first", "exclude", "as_assigned"] = "first"


class Sessions(Section):
    """A session ends after this time without an impression."""

    gap_minutes: Annotated[float, Field(gt=0, le=MAX_GAP_MINUTES)] = 30.0


class Clicks(Section):
    """From which dwell on a click is a long one."""

    long_seconds: Annotated[float, Field(gt=0, le=MAX_LONG_SECONDS)] = 30.0


class Prior(Section):
    """A normal prior for every lift: 0.05 is 5 %."""

    mean: Annotated[float, Field(ge=-MAX_SIZE, le=MAX_SIZE)] = 0.0
    sd: Annotated[float, Field(ge=1 / MAX_SIZE, le=MAX_SIZE)]


Look = Annotated[float, Field(gt=0, le=1, strict=True)] | Moment
Relative = Literal["fieller", "delta", "log_delta"]
Adjust = Literal["none", "cuped", "regression", "stratify"]
Resample = Literal["jackknife", "bootstrap", "permutation"]
Family = Literal[
    "none", "bonferroni", "weighted", "holm", "hochberg", "hommel", "bh", "by", "dunnett"
]


class Inference(Section):
    """How effects are estimated and tested."""

    relative: Relative = "fieller"
    adjust: Adjust = "none"
    stratify_by: str | None = None
    looks: Literal["fixed", "always_valid", "group_sequential"] = "fixed"
    planned_units: Annotated[int, Field(gt=0, le=int(MAX_VALUE))] | None = None
    planned_looks: Annotated[list[Look], Field(min_length=1)] | None = None
    spending: Literal["obrien_fleming", "pocock", "power"] = "obrien_fleming"
    prior: Prior | None = None
    resample: Resample | None = None
    family: Family = "holm"


class Privacy(Section):
    """What results may show of few units."""

    min_units: Annotated[int, Field(ge=2, le=1_000_000)] | None = None


class EngineOptions(Section):
    """Which engine runs the queries, and what it may use."""

    name: Literal["duckdb", "spark"] = "duckdb"
    address: Name | None = None
    memory_limit: Annotated[str, StringConstraints(pattern=SIZE)] | None = None
    threads: Annotated[int, Field(ge=1, le=MAX_THREADS)] | None = None
    temp_directory: Name | None = None
    remote_files: bool = False

    @property
    def memory(self) -> int | None:
        """Bytes of the limit of memory, None without one.

        Example:
            >>> EngineOptions(memory_limit="1.5 GB").memory
            1500000000
        """
        if self.memory_limit is None:
            return None
        number = self.memory_limit.rstrip("KMGTiB ")
        unit = self.memory_limit.removeprefix(number).strip()
        step = 1024 if "i" in unit else 1000
        return int(float(number) * step ** (1 + "KMGT".index(unit[0])))
