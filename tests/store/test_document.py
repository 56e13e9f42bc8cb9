"""`aggregates.json`: a file that another run wrote is read as it was meant, or refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from abeval.errors import ExperimentError
from abeval.store.saved import Document, document_text, read_document

DIGEST = "0" * 64
NEEDED = ("moments", "units", "accounts", "days", "entered", "buckets")
DOCUMENT = Document(
    abeval="1.0",
    experiment={"name": "small"},
    tables=dict.fromkeys(NEEDED, DIGEST),
    catalogue_size=None,
    refused={"gauc": ("score",)},
    facts={"units": 3},
    caps={"ctr": (4, None)},
    quantiles={"p90": {"a": (7, 1.5, None, 2.5, None)}},
    stretches=(),
    notes=("A note.",),
)
TEXT = """{
 "format": 4,
 "sha256": "SHA256",
 "abeval": "1.0",
 "experiment": {
  "name": "small"
 },
 "tables": {
  "moments": "0",
  "units": "0",
  "accounts": "0",
  "days": "0",
  "entered": "0",
  "buckets": "0"
 },
 "catalogue_size": null,
 "refused": {
  "gauc": [
   "score"
  ]
 },
 "facts": {
  "units": 3
 },
 "caps": {
  "ctr": [
   4,
   null
  ]
 },
 "quantiles": {
  "p90": {
   "a": [
    7,
    1.5,
    null,
    2.5,
    null
   ]
  }
 },
 "stretches": [],
 "notes": [
  "A note."
 ]
}
""".replace('"0"', f'"{DIGEST}"')


def signed(text: str) -> str:
    """A text with the digest of what it says."""
    body = {k: v for k, v in json.loads(text).items() if k not in ("format", "sha256")}
    return text.replace("SHA256", hashlib.sha256(json.dumps(body).encode()).hexdigest())


def read(folder: Path, text: str) -> Document:
    (folder / "aggregates.json").write_text(text)
    return read_document(folder / "aggregates.json")


def test_aggregates_are_written_as_folders_have_them() -> None:
    assert document_text(DOCUMENT) == signed(TEXT)


def test_the_tables_that_every_analysis_has_are_enough(tmp_path: Path) -> None:
    assert read(tmp_path, signed(TEXT)) == DOCUMENT


@pytest.mark.parametrize("table", NEEDED)
def test_a_table_that_every_analysis_has_may_not_be_missing(tmp_path: Path, table: str) -> None:
    with pytest.raises(ExperimentError, match="tables is not what it should be"):
        read(tmp_path, signed(TEXT.replace(f'"{table}": ', '"reach": ')))


def test_what_is_read_cannot_be_changed() -> None:
    changed: Any = DOCUMENT
    with pytest.raises(ValidationError, match="frozen"):
        changed.catalogue_size = 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"units": 3', '"units": 4', "its digest differs"),
        ('"format": 4', '"format": 5', "has format 5, but this abeval reads 4"),
        ('"format": 4', '"format": 3', "has format 3, but this abeval reads 4"),
    ],
)
def test_what_was_changed_since_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ExperimentError, match=said):
        read(tmp_path, signed(TEXT).replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"units": 3', '"units": "3"', "facts.units"),
        ("null,\n    2.5", '"1",\n    2.5', "quantiles.p90.a.2"),
        ('"abeval"', '"version"', "abeval"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, place: str
) -> None:
    with pytest.raises(ExperimentError, match=f"{place} is not what it should be"):
        read(tmp_path, signed(TEXT.replace(old, new)))
