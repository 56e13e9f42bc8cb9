"""Aggregates as files: written by one run, judged by another that reads no log.

`pipeline.py` saves the `Aggregates` of an analysis and reads them for `inference/judge.py`.
`document.py` is what is not a table.
"""

import hashlib
import re
import secrets
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from abeval.aggregates.aggregates import Aggregates, Quantile
from abeval.aggregates.buckets import BucketSums
from abeval.engines.sources import exact
from abeval.engines.sql import literal
from abeval.errors import AbevalError, ExperimentError
from abeval.experiment.model import Experiment
from abeval.files import DRAFT, check_writable, held, sweep_drafts, write_text
from abeval.store.document import (
    AGAIN,
    BUCKETS,
    FRAMES,
    LOCK,
    SAVED,
    Document,
    document_text,
    read_document,
)
from abeval.version import __version__

_SUMS = ["s_y", "s_x", "s_y_y", "s_y_x", "s_x_x"]
_BEFORE = ["b_y", "b_x", "b_is_new"]


def _file_of(table: str, digest: str) -> str:
    """The name of a table's file: of its content, so that a new one never replaces an old one."""
    return f"{table}-{digest[:32]}.parquet"


_TABLE = re.compile(rf"({'|'.join((*FRAMES, BUCKETS))})-[0-9a-f]{{32}}\.parquet")


def check_savable(folder: Path) -> None:
    """Make the folder; raise now what `save_aggregates` would raise after long work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExperimentError(f"the folder {folder} cannot be created: {error.strerror}") from error
    check_writable(folder / SAVED)


def save_aggregates(folder: Path, experiment: Experiment, aggregates: Aggregates) -> None:
    """Write aggregates as files, beside those that are there, and swap them in whole.

    Tables are Parquet files named by their content. `aggregates.json` holds the rest: the digests
    of the tables and of itself, and the entries of the experiment that aggregates depend on. It is
    replaced in one step: until then the old aggregates count, from then on the new ones.

    Args:
        folder: A writable folder.
        experiment: Whose aggregates they are.
        aggregates: What to write.

    Raises:
        AbevalError: They cannot be written, or another run writes there at this moment.
    """
    frames: dict[str, pd.DataFrame] = {name: getattr(aggregates, name) for name in FRAMES}
    frames[BUCKETS] = _bucket_frame(aggregates.buckets)
    with held(folder / LOCK, str(folder)):
        try:
            with duckdb.connect() as connection:
                written = {
                    name: _write(connection, folder, name, frame)
                    for name, frame in frames.items()
                    if len(frame.columns)
                }
        except (duckdb.Error, OSError) as error:
            raise AbevalError(f"aggregates cannot be written to {folder}: {error}") from error
        text = document_text(
            Document(
                abeval=__version__,
                experiment=definition(experiment),
                tables=written,
                catalogue_size=aggregates.catalogue_size,
                refused=dict(aggregates.refused),
                facts=dict(aggregates.facts),
                caps=dict(aggregates.caps),
                quantiles={m: dict(by_variant) for m, by_variant in aggregates.quantiles.items()},
                stretches=aggregates.stretches,
                notes=tuple(_encodable(note) for note in aggregates.notes),
            )
        )
        write_text(folder / SAVED, text)
        _sweep(folder, {_file_of(name, digest) for name, digest in written.items()})


def _sweep(folder: Path, keep: Collection[str]) -> None:
    """Remove tables that no longer count, and what killed runs left."""
    sweep_drafts(folder)
    for path in folder.iterdir():
        if _TABLE.fullmatch(path.name) and path.name not in keep:
            path.unlink(missing_ok=True)


def read_aggregates(folder: Path, experiment: Experiment) -> Aggregates:
    """What `save_aggregates` wrote, to the last digit.

    Raises:
        ExperimentError: The files are missing, damaged, or of another experiment.
    """
    saved = read_document(folder / SAVED)
    _check_definition(folder, saved.experiment, definition(experiment))
    with duckdb.connect() as connection:
        tables: dict[str, pd.DataFrame] = {
            name: _read(connection, folder, name, digest) for name, digest in saved.tables.items()
        }
    buckets = tables.pop(BUCKETS)
    return Aggregates(
        **{name: tables.get(name, pd.DataFrame()) for name in FRAMES},
        catalogue_size=saved.catalogue_size,
        refused=saved.refused,
        facts=saved.facts,
        caps=saved.caps,
        quantiles={
            metric: {variant: Quantile(*values) for variant, values in by_variant.items()}
            for metric, by_variant in saved.quantiles.items()
        },
        buckets={
            str(metric): _bucket_sums(rows)
            for metric, rows in buckets.groupby("metric", sort=False)
        },
        stretches=saved.stretches,
        notes=(*saved.notes, *_other_version(saved.abeval)),
    )


def _encodable(text: str) -> str:
    """Text without lone surrogates, such as odd file names have; they have no UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def _other_version(version: str) -> tuple[str, ...]:
    if version == __version__:
        return ()
    return (f"The aggregates were computed by abeval {version}; abeval {__version__} judges them.",)


def definition(experiment: Experiment) -> dict[str, Any]:
    """The entries of an experiment that its aggregates depend on."""
    judged = {"control", "alpha", "events", "engine", "inference", "trust"}
    entries = experiment.model_dump(mode="json", exclude=judged)
    logs = entries["logs"]
    for log in (*(log for name, log in logs.items() if name != "events"), *logs["events"].values()):
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


def _bucket_sums(rows: pd.DataFrame) -> BucketSums:
    before = rows.reindex(columns=_BEFORE).to_numpy(float)
    known = None if np.isnan(before).any() else before
    return BucketSums(rows["units"].to_numpy(float), rows[_SUMS].to_numpy(float), known)


def _bucket_frame(buckets: Mapping[str, BucketSums]) -> pd.DataFrame:
    parts = []
    for metric, sums in buckets.items():
        before = np.full((len(sums.units), 3), np.nan) if sums.before is None else sums.before
        frame = pd.DataFrame(np.hstack([sums.sums, before]), columns=[*_SUMS, *_BEFORE])
        parts.append(frame.assign(units=sums.units, metric=metric))
    empty = pd.DataFrame({name: np.empty(0) for name in (*_SUMS, *_BEFORE, "units")})
    return pd.concat(parts) if parts else empty.assign(metric="")


def _write(
    connection: duckdb.DuckDBPyConnection, folder: Path, name: str, frame: pd.DataFrame
) -> str:
    """Write a table to a draft, then give it its name; its digest."""
    draft = folder / f"{DRAFT}{secrets.token_hex(8)}"
    connection.register("saved", frame)
    try:
        connection.execute(f"copy saved to {literal(str(draft))} (format parquet)")
        if (folder / SAVED).exists():
            draft.chmod((folder / SAVED).stat().st_mode)
        digest = _sha256_of(draft)
        draft.replace(folder / _file_of(name, digest))
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return digest


def _read(
    connection: duckdb.DuckDBPyConnection, folder: Path, name: str, digest: str
) -> pd.DataFrame:
    file = folder / _file_of(name, digest)
    try:
        if _sha256_of(file) != digest:
            raise ExperimentError(f"{file} is not the file that was written with {SAVED}", AGAIN)
    except OSError as error:
        raise ExperimentError(f"{file} cannot be read: {error.strerror}", AGAIN) from error
    rows = f"from read_parquet({literal(exact(str(file)))})"
    if name == "reach":
        # Millions of rows: a name in each would take more time and memory than all the rest.
        names = f"select distinct variant {rows} where variant is not null order by variant"
        connection.execute(f"create type variant_name as enum ({names})")
        rows = f"select * replace (cast(variant as variant_name) as variant) {rows}"
    return connection.execute(rows).df()


def _sha256_of(file: Path) -> str:
    """Digest a file's bytes."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
