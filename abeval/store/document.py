"""`aggregates.json`: of saved aggregates all that is not a table, under a digest of its own.

`saved.py` writes and reads it.
"""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from abeval.errors import ExperimentError
from abeval.logs.placing import Stretches
from abeval.stats.records import RefusalReason

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
    "unit_values",
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
_Quantile = tuple[int, float, float | None, float | None, RefusalReason | None]


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
    quantiles: dict[str, dict[str, _Quantile]]
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
    """The text of the file."""
    body = document.model_dump(mode="json")
    return json.dumps({"format": FORMAT, "sha256": _digest(body), **body}, indent=1) + "\n"


def read_document(file: Path) -> Document:
    """The content of the file.

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
    """A digest of what the file says, whatever its spaces."""
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()
