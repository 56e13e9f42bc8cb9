"""Aggregates as files: written by one run, judged by another that reads no log.

`pipeline.py` saves the `Aggregates` of an analysis and reads them for `inference/judge.py`;
`store/totals.py` keeps its totals by the same functions.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from abeval.aggregates.aggregates import Aggregates, Quantile
from abeval.aggregates.buckets import BucketSums
from abeval.engines.sql import literal
from abeval.errors import AbevalError, ExperimentError
from abeval.experiment.model import Experiment
from abeval.files import check_writable, write_text
from abeval.store.manifest import sha256_of

FORMAT = 2
SAVED = "aggregates.json"
_FRAMES = ("moments", "reach", "group_units", "units", "accounts", "days")
_BUCKETS = "buckets"
KEPT = (SAVED, *(f"{name}.parquet" for name in (*_FRAMES, _BUCKETS)))
"""Names such as `save_aggregates` writes into its folder."""
_SUMS = ["s_y", "s_x", "s_y_y", "s_y_x", "s_x_x"]


def check_savable(folder: Path) -> None:
    """Make the folder; raise now what `save_aggregates` would raise after long work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExperimentError(f"the folder {folder} cannot be created: {error.strerror}") from error
    check_writable(folder / SAVED)


def save_aggregates(folder: Path, experiment: Experiment, aggregates: Aggregates) -> None:
    """Write aggregates as files.

    Tables are Parquet; `aggregates.json`, written last, holds the rest: the digests of the tables,
    and the entries of the experiment that aggregates depend on.

    Args:
        folder: A writable folder.
        experiment: Whose aggregates they are.
        aggregates: What to write.
    """
    (folder / SAVED).unlink(missing_ok=True)
    frames: dict[str, pd.DataFrame] = {name: getattr(aggregates, name) for name in _FRAMES}
    frames[_BUCKETS] = _bucket_frame(aggregates.buckets)
    try:
        with duckdb.connect() as connection:
            written = {
                name: _write(connection, folder / f"{name}.parquet", frame)
                for name, frame in frames.items()
                if len(frame.columns)
            }
    except (duckdb.Error, OSError) as error:
        raise AbevalError(f"aggregates cannot be written to {folder}: {error}") from error
    document = {
        "format": FORMAT,
        "experiment": definition(experiment),
        "tables": written,
        "catalogue_size": aggregates.catalogue_size,
        "refused": aggregates.refused,
        "facts": aggregates.facts,
        "caps": aggregates.caps,
        "quantiles": aggregates.quantiles,
        "notes": aggregates.notes,
    }
    write_text(folder / SAVED, json.dumps(document, indent=1) + "\n")


def read_aggregates(folder: Path, experiment: Experiment) -> Aggregates:
    """What `save_aggregates` wrote, to the last digit.

    Raises:
        ExperimentError: The files are missing, damaged, or of another experiment.
    """
    raw = _document(folder)
    _check_definition(folder, raw["experiment"], definition(experiment))
    with duckdb.connect() as connection:
        tables = {
            name: _read(connection, folder, name, digest) for name, digest in raw["tables"].items()
        }
    buckets = tables.pop(_BUCKETS)
    return Aggregates(
        **{name: tables.get(name, pd.DataFrame()) for name in _FRAMES},
        catalogue_size=raw["catalogue_size"],
        refused={metric: tuple(lacks) for metric, lacks in raw["refused"].items()},
        facts=raw["facts"],
        caps={metric: (caps[0], caps[1]) for metric, caps in raw["caps"].items()},
        quantiles={
            metric: {variant: Quantile(*values) for variant, values in by_variant.items()}
            for metric, by_variant in raw["quantiles"].items()
        },
        buckets={
            str(metric): BucketSums(rows["units"].to_numpy(float), rows[_SUMS].to_numpy(float))
            for metric, rows in buckets.groupby("metric", sort=False)
        },
        notes=tuple(raw["notes"]),
    )


def _document(folder: Path) -> Mapping[str, Any]:
    file = folder / SAVED
    try:
        raw: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        version, keys = raw["format"], set(raw)
    except FileNotFoundError:
        raise ExperimentError(
            f"{folder} has no aggregates: there is no {SAVED}",
            "abeval analyze EXPERIMENT.toml --save-aggregates FOLDER writes them",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExperimentError(f"{file} cannot be read", _AGAIN) from error
    if version != FORMAT or not keys >= _KEYS:
        raise ExperimentError(
            f"{file} has format {version}, but this abeval reads {FORMAT}", _AGAIN
        )
    return raw


_KEYS = {
    *("format", "experiment", "tables", "catalogue_size", "refused"),
    *("facts", "caps", "quantiles", "notes"),
}
_AGAIN = "write the aggregates again with --save-aggregates"


def definition(experiment: Experiment) -> dict[str, Any]:
    """The entries of an experiment that its aggregates depend on."""
    judged = {"control", "alpha", "events", "engine", "inference", "trust"}
    entries = experiment.model_dump(mode="json", exclude=judged)
    for log in entries["logs"].values():
        for place in ("path", "table", "database", "format") if log is not None else ():
            del log[place]
    for metric in entries["metrics"]:
        for name in ("role", "direction", "margin", "unit", "weight"):
            del metric[name]
    resampled = experiment.inference.resample is not None
    return {
        **entries,
        "inference.resample": resampled,
        "trust.aa_runs": experiment.trust.aa_runs > 0,
    }


def _check_definition(folder: Path, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    if saved.get("name") != wanted["name"]:
        raise ExperimentError(
            f"{folder} has the aggregates of {saved.get('name')!r}, not of {wanted['name']!r}",
            "name the folder of this experiment",
        )
    changed = [name for name in wanted if saved.get(name) != wanted[name]]
    if changed:
        raise ExperimentError(
            f"the aggregates in {folder} were computed with different settings: "
            f"{', '.join(changed)}",
            "analyse the log again, with --save-aggregates; alpha, families, looks, roles, margins "
            "and directions may change",
        )


def _bucket_frame(buckets: Mapping[str, BucketSums]) -> pd.DataFrame:
    parts = [
        pd.DataFrame(sums.sums, columns=_SUMS).assign(units=sums.units, metric=metric)
        for metric, sums in buckets.items()
    ]
    empty = pd.DataFrame({name: np.empty(0) for name in (*_SUMS, "units")})
    return pd.concat(parts, ignore_index=True) if parts else empty.assign(metric="")


def _write(connection: duckdb.DuckDBPyConnection, file: Path, frame: pd.DataFrame) -> str:
    connection.register("saved", frame)
    connection.execute(f"copy saved to {literal(str(file))} (format parquet)")
    return sha256_of(file)


def _read(
    connection: duckdb.DuckDBPyConnection, folder: Path, name: str, digest: str
) -> pd.DataFrame:
    file = folder / f"{name}.parquet"
    try:
        if name not in (*_FRAMES, _BUCKETS) or sha256_of(file) != digest:
            raise ExperimentError(f"{file} is not the file that was written with {SAVED}", _AGAIN)
    except OSError as error:
        raise ExperimentError(f"{file} cannot be read: {error.strerror}", _AGAIN) from error
    rows = f"from read_parquet({literal(str(file))})"
    if name == "reach":
        # Millions of rows: a name in each would take more time and memory than all the rest.
        names = f"select distinct variant {rows} where variant is not null order by variant"
        connection.execute(f"create type variant_name as enum ({names})")
        rows = f"select * replace (cast(variant as variant_name) as variant) {rows}"
    return connection.execute(rows).df()
