"""Save aggregates in a folder, and read them again."""

import hashlib
import json
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import duckdb
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from abeval.aggregates.aggregates import (
    Aggregates,
    AuditSums,
    BucketSums,
    ExtremeUnit,
    Quantile,
    UnitsByAuc,
    VariantUnits,
)
from abeval.aggregates.kernels.reach import NO_REACH, GroupUnits, Reach
from abeval.aggregates.sums import MOMENT_COLUMNS
from abeval.engines.sources import exact
from abeval.engines.sql import literal, numbered
from abeval.errors import AbevalError, ExperimentError
from abeval.experiment.model import Experiment
from abeval.files import DRAFT, check_writable, held, sweep_drafts, write_text
from abeval.logs.accounting import DayRows, LogRows, SeenUnits
from abeval.logs.placing import Entered, Stretches
from abeval.version import __version__

FORMAT = 4
BUCKETS = "buckets"
AGAIN = "write the aggregates again with --save-aggregates"

_Table = Literal[
    "moments",
    "reach",
    "group_units",
    "units",
    "accounts",
    "days",
    "entered",
    "audits",
    "extremes",
    "seen_in",
    "unit_aucs",
    "buckets",
]
TABLES = get_args(_Table)

SAVED, LOCK = "aggregates.json", "lock"
KEPT = (SAVED, LOCK, f"*-{'?' * 32}.parquet")
"""Globs of what saved aggregates are."""
REQUIRED = frozenset({"moments", "units", "accounts", "days", "entered", BUCKETS})
"""Tables that are always there; the others only where they have rows."""

_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Document(BaseModel):
    """What `aggregates.json` says beside its format and its digest.

    Attributes:
        abeval: The version that computed the aggregates.
        experiment: The entries of the experiment that they depend on.
        tables: Table → sha256 of its file.
        catalogue_size: As the other fields, that of `Aggregates`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    abeval: str
    experiment: dict[str, Any]
    tables: dict[_Table, _Digest]
    catalogue_size: int | None
    refused: dict[str, tuple[str, ...]]
    facts: dict[str, int]
    caps: dict[str, tuple[int, int | None]]
    quantiles: dict[str, dict[str, Quantile]]
    stretches: Stretches
    notes: tuple[str, ...]

    @field_validator("tables")
    @classmethod
    def _complete(cls, tables: dict[str, str]) -> dict[str, str]:
        if not set(tables) >= REQUIRED:
            raise ValueError("tables are missing")
        return tables


_DOCUMENT = TypeAdapter(Document)


def document_text(document: Document) -> str:
    """Return the text of the file."""
    body = document.model_dump(mode="json")
    return json.dumps({"format": FORMAT, "sha256": _digest(body), **body}, indent=1) + "\n"


def read_document(file: Path) -> Document:
    """Return the content of the file.

    Raises:
        ExperimentError: It is missing, damaged, or of another format.
    """
    raw = _raw(file)
    version, digest = raw.pop("format"), raw.pop("sha256", None)
    if version != FORMAT:
        raise ExperimentError(f"{file} has format {version}, but this abeval reads {FORMAT}", AGAIN)
    if digest != _digest(raw):
        raise ExperimentError(f"{file} is not as it was written: its digest differs", AGAIN)
    try:
        return _DOCUMENT.validate_json(json.dumps(raw), strict=True)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        what = f"{file} cannot be read: {where} is not what it should be"
        raise ExperimentError(what, AGAIN) from error


def _raw(file: Path) -> dict[str, Any]:
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        return {"format": raw["format"], **raw}
    except FileNotFoundError:
        raise ExperimentError(
            f"{file.parent} has no aggregates: there is no {file.name}",
            "abeval analyze EXPERIMENT.toml --save-aggregates FOLDER writes them",
        ) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ExperimentError(f"{file} cannot be read", AGAIN) from error


def _digest(body: dict[str, Any]) -> str:
    """Return a digest of what the file says, whatever its spaces."""
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()


Columns = Mapping[str, NDArray[Any]]

_ROWS: Mapping[str, Any] = {
    "group_units": GroupUnits,
    "units": VariantUnits,
    "accounts": LogRows,
    "days": DayRows,
    "entered": Entered,
    "audits": AuditSums,
    "extremes": ExtremeUnit,
    "seen_in": SeenUnits,
    "unit_aucs": UnitsByAuc,
}
"""Table → the type of its rows."""

_PLAIN = ("catalogue_size", "refused", "facts", "caps", "quantiles", "stretches")
"""Fields of `Aggregates` that are in the document as they are."""

_SUMS = ["s_y", "s_x", "s_y_y", "s_y_x", "s_x_x"]
_BEFORE = ["b_y", "b_x", "b_is_new"]


def _file_of(table: str, digest: str) -> str:
    """Name a table's file by its content, so that a new one never replaces an old one."""
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
                **{name: getattr(aggregates, name) for name in _PLAIN},
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
    """Return what `save_aggregates` wrote, to the last digit.

    Raises:
        ExperimentError: The files are missing, damaged, or of another experiment.
    """
    saved = read_document(folder / SAVED)
    _check_definition(folder, saved.experiment, definition(experiment))
    with duckdb.connect() as connection:
        for name, digest in saved.tables.items():
            _show(connection, folder, name, digest)
        rows: dict[str, Any] = {
            name: [row(*values) for values in _rows(connection, name, row._fields)]
            for name, row in _ROWS.items()
            if name in saved.tables
        }
        moments = _rows(connection, "moments", MOMENT_COLUMNS)
        buckets = connection.execute(f"from {BUCKETS}").fetchnumpy()
        is_shown = "reach" in saved.tables
        reach = _reach(connection, list(experiment.variants)) if is_shown else NO_REACH
    by = f"The aggregates were computed by abeval {saved.abeval}; abeval {__version__} judges them."
    other = [by] if saved.abeval != __version__ else []
    return Aggregates(
        **rows,
        moments=moments,
        reach=reach,
        **{name: getattr(saved, name) for name in _PLAIN},
        buckets={
            metric: _bucket_sums({n: v[buckets["metric"] == metric] for n, v in buckets.items()})
            for metric in dict.fromkeys(buckets["metric"].tolist())
        },
        notes=(*saved.notes, *other),
    )


def _encodable(text: str) -> str:
    """Text without lone surrogates, such as odd file names have; they have no UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def definition(experiment: Experiment) -> dict[str, Any]:
    """Return the entries of an experiment that its aggregates depend on."""
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
    item = "cast(item_id as varchar)"
    listed = connection.execute(f"select distinct {item} as item_id from reach order by item_id")
    items = [str(item_id) for (item_id,) in listed.fetchall()]
    columns = connection.execute(
        f"select {numbered('variant', variants)} as variant, "
        f"dense_rank() over (order by {item}) - 1 as item, item_group, units, impressions "
        "from reach order by variant, item_group, item"
    ).fetchnumpy()
    return Reach(variants, items, *(np.asarray(column) for column in columns.values()))


def _sha256_of(file: Path) -> str:
    """Digest a file's bytes."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
