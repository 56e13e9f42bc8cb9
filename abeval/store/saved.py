"""Aggregates as files: written by one run, judged by another that reads no log.

`pipeline.py` saves the `Aggregates` of an analysis and reads them for `inference/judge.py`.
`document.py` is what is not a table.
"""

import hashlib
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.aggregates import (
    Aggregates,
    AuditSums,
    BucketSums,
    ExtremeUnit,
    Quantile,
    UnitsByAuc,
    UnitValue,
    VariantUnits,
)
from abeval.aggregates.kernels.reach import NO_REACH, GroupUnits, Reach, entries_sql, items_sql
from abeval.aggregates.sums import MOMENT_COLUMNS
from abeval.engines.sources import exact
from abeval.engines.sql import literal
from abeval.errors import AbevalError, ExperimentError
from abeval.experiment.model import Experiment
from abeval.files import DRAFT, check_writable, held, sweep_drafts, write_text
from abeval.logs.accounting import DayRows, LogRows, SeenUnits
from abeval.logs.placing import Entered
from abeval.version import __version__

Columns = Mapping[str, NDArray[Any]]

_ROWS: Mapping[str, Any] = {
    "group_units": GroupUnits,
    "units": VariantUnits,
    "accounts": LogRows,
    "days": DayRows,
    "entered": Entered,
    "audits": AuditSums,
    "extremes": ExtremeUnit,
    "unit_values": UnitValue,
    "seen_in": SeenUnits,
    "unit_aucs": UnitsByAuc,
}
"""Table → the type of its rows."""

_SUMS = ["s_y", "s_x", "s_y_y", "s_y_x", "s_x_x"]
_BEFORE = ["b_y", "b_x", "b_is_new"]


def _file_of(table: str, digest: str) -> str:
    """The name of a table's file: of its content, so that a new one never replaces an old one."""
    return f"{table}-{digest[:32]}.parquet"


_TABLE = re.compile(rf"({'|'.join(TABLES)})-[0-9a-f]{{32}}\.parquet")


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
    tables = {n: _columns(row._fields, getattr(aggregates, n)) for n, row in _ROWS.items()}
    tables["moments"] = _columns(MOMENT_COLUMNS, aggregates.moments)
    tables["reach"] = _reach_columns(aggregates.reach)
    tables[BUCKETS] = _bucket_columns(aggregates.buckets)
    with held(folder / LOCK, str(folder)):
        try:
            with duckdb.connect() as connection:
                # The type of a column of texts and nulls is that of all its rows.
                connection.execute("set pandas_analyze_sample = 1000000000")
                written = {
                    name: _write(connection, folder, name, columns)
                    for name, columns in tables.items()
                    if name in REQUIRED or len(next(iter(columns.values())))
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
        for name, digest in saved.tables.items():
            _show(connection, folder, name, digest)
        rows = {
            name: [row(*values) for values in _rows(connection, name, row._fields)]
            for name, row in _ROWS.items()
            if name in saved.tables
        }
        moments = _rows(connection, "moments", MOMENT_COLUMNS)
        buckets = connection.execute(f"from {BUCKETS}").fetchnumpy()
        is_shown = "reach" in saved.tables
        reach = _reach(connection, list(experiment.variants)) if is_shown else NO_REACH
    return Aggregates(
        **rows,
        moments=moments,
        reach=reach,
        catalogue_size=saved.catalogue_size,
        refused=saved.refused,
        facts=saved.facts,
        caps=saved.caps,
        quantiles={
            metric: {variant: Quantile(*values) for variant, values in by_variant.items()}
            for metric, by_variant in saved.quantiles.items()
        },
        buckets={
            metric: _bucket_sums({n: v[buckets["metric"] == metric] for n, v in buckets.items()})
            for metric in dict.fromkeys(buckets["metric"].tolist())
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


def _columns(names: Sequence[str], rows: Sequence[Sequence[object]]) -> dict[str, NDArray[Any]]:
    values = zip(*rows, strict=True) if rows else [()] * len(names)
    return {name: _array(column) for name, column in zip(names, values, strict=True)}


def _array(values: Sequence[object]) -> NDArray[Any]:
    """Numbers as numbers, everything else as objects, among which None is null."""
    array = np.array(values)
    return array if array.dtype.kind in "if" and len(values) else np.array(values, dtype=object)


def _reach_columns(reach: Reach) -> dict[str, NDArray[Any]]:
    return {
        "variant": np.array(reach.variants, dtype=object)[reach.variant],
        "item_id": np.array(reach.items, dtype=object)[reach.item],
        "item_group": reach.item_group,
        "units": reach.units,
        "impressions": reach.impressions,
    }


def _bucket_sums(rows: Columns) -> BucketSums:
    before = np.column_stack([np.ma.filled(rows[name], np.nan) for name in _BEFORE])
    sums = np.column_stack([np.asarray(rows[name], dtype=float) for name in _SUMS])
    known = None if np.isnan(before).any() else before
    return BucketSums(np.asarray(rows["units"], dtype=float), sums, known)


def _bucket_columns(buckets: Mapping[str, BucketSums]) -> dict[str, NDArray[Any]]:
    parts = [np.empty((0, len(_SUMS) + len(_BEFORE) + 1))]
    for one in buckets.values():
        before = (
            np.full((len(one.units), len(_BEFORE)), np.nan) if one.before is None else one.before
        )
        parts.append(np.column_stack([one.sums, before, one.units]))
    sizes = [len(one.units) for one in buckets.values()]
    columns = np.ascontiguousarray(np.concatenate(parts).T)
    metrics = np.repeat(np.array(list(buckets), dtype=object), sizes)
    return {**dict(zip((*_SUMS, *_BEFORE, "units"), columns, strict=True)), "metric": metrics}


def _write(connection: duckdb.DuckDBPyConnection, folder: Path, name: str, columns: Columns) -> str:
    """Write a table to a draft, then give it its name; its digest."""
    draft = folder / f"{DRAFT}{secrets.token_hex(8)}"
    connection.register("saved", dict(columns))
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


def _show(connection: duckdb.DuckDBPyConnection, folder: Path, name: str, digest: str) -> None:
    """Show a file that is as it was written as a relation."""
    file = folder / _file_of(name, digest)
    try:
        if _sha256_of(file) != digest:
            raise ExperimentError(f"{file} is not the file that was written with {SAVED}", AGAIN)
    except OSError as error:
        raise ExperimentError(f"{file} cannot be read: {error.strerror}", AGAIN) from error
    connection.execute(f"create view {name} as from read_parquet({literal(exact(str(file)))})")


def _rows(
    connection: duckdb.DuckDBPyConnection, name: str, columns: Sequence[str]
) -> list[tuple[Any, ...]]:
    return connection.execute(f"select {', '.join(columns)} from {name}").fetchall()


def _reach(connection: duckdb.DuckDBPyConnection, variants: Sequence[str]) -> Reach:
    items = [str(item) for (item,) in connection.execute(items_sql("reach")).fetchall()]
    columns = connection.execute(entries_sql("reach", variants)).fetchnumpy()
    return Reach(variants, items, *(np.asarray(column) for column in columns.values()))


def _sha256_of(file: Path) -> str:
    """Digest a file's bytes."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
