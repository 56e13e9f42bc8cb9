"""The manifest of a store: one part for each input file, and what each was made of.

`store/refresh.py` reads it and writes it anew after each part; the `Entry` of each part tells the
other modules of `store/` which file to read.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from abeval.errors import ExperimentError, LogError
from abeval.files import write_text

FORMAT = 3
"""Of the files of a store; a store of another format is computed anew."""

MANIFEST = "manifest.json"
PART, CLOSED, DRAFT = "part-", "closed-", "draft-"
STATE, LOCK, TOTALS = "state.json", "lock", "totals"
SAVED = "aggregates.json"
WRITTEN = (MANIFEST, STATE, LOCK, *(f"{name}*" for name in (PART, CLOSED, DRAFT)), f"{TOTALS}/*")
"""Globs of what a store writes into its folder."""
KEPT = (SAVED, LOCK, f"*-{'?' * 32}.parquet")
"""Globs of what saved aggregates are."""
_OWN = (PART, CLOSED, DRAFT, STATE, TOTALS, ".abeval-")
_SWEPT = re.compile(rf"{PART}[0-9a-f]{{32}}\.parquet|{DRAFT}[0-9a-f]{{16}}")
_MAGIC = b"PAR1"


@dataclass(frozen=True)
class Input:
    """An input file at one moment: if it is the same, the file has not changed.

    Attributes:
        size: In bytes.
        mtime_ns: The time of its last change.
        footer: sha256 of its Parquet footer, which holds its schema, row groups and statistics.
    """

    size: int
    mtime_ns: int
    footer: str


@dataclass(frozen=True)
class Entry:
    """One part.

    Attributes:
        input: The file that it was made of.
        definition: Digest of everything that decides its rows.
        components: Digests of its sums.
        file: Its name in the store.
        sha256: Of its bytes.
        days: The local days of its rows in either period, in order.
        has_others: Whether it has rows of no such day.
        rows: How many rows it has.
    """

    input: Input
    definition: str
    components: tuple[str, ...]
    file: str
    sha256: str
    days: tuple[str, ...]
    has_others: bool
    rows: int


@dataclass(frozen=True)
class Manifest:
    """The parts of a store.

    Attributes:
        parts: Input path → its part.
        trouble: Why nothing of the store can be used, None if it can.
    """

    parts: Mapping[str, Entry]
    trouble: str | None = None


def fingerprint(file: str) -> Input:
    """Size, time and footer digest of a Parquet file.

    Raises:
        LogError: It is missing, or not a complete Parquet file.
    """
    path = Path(file)
    try:
        stat = path.stat()
        with path.open("rb") as opened:
            opened.seek(max(0, stat.st_size - 8))
            tail = opened.read()
            length = int.from_bytes(tail[:4], "little")
            opened.seek(max(0, stat.st_size - 8 - length))
            footer = opened.read(length)
    except OSError as error:
        raise LogError(f"{file} cannot be read: {error.strerror}") from error
    if tail[4:] != _MAGIC:
        raise LogError(f"{file} is not a complete Parquet file", "was it written completely?")
    return Input(stat.st_size, stat.st_mtime_ns, hashlib.sha256(footer).hexdigest())


def read_manifest(folder: Path, experiment: str) -> Manifest:
    """The manifest of a store; empty if it is damaged or of another format.

    Raises:
        ExperimentError: The folder holds something else, or the store of another experiment.
    """
    file = folder / MANIFEST
    if not file.exists():
        return _without_manifest(folder)
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        name, version = raw["experiment"], raw["format"]
        if name != experiment:
            raise ExperimentError(
                f"{folder} is the store of the experiment {name!r}, not of {experiment!r}",
                "name another folder: each experiment has a store of its own",
            )
        if version != FORMAT:
            return Manifest({}, f"it has format {version}, but this abeval uses {FORMAT}")
        return Manifest({path: _entry(part) for path, part in raw["parts"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Manifest({}, f"{MANIFEST} cannot be read")


def _without_manifest(folder: Path) -> Manifest:
    if folder.exists() and not folder.is_dir():
        raise ExperimentError(f"{folder} is a file, but a store is a folder")
    files = folder.iterdir() if folder.exists() else ()
    names = sorted(file.name for file in files if file.name != LOCK)
    foreign = [name for name in names if not name.startswith(_OWN)]
    if foreign:
        raise ExperimentError(
            f"{folder} is not a store: it contains {foreign[0]} but no {MANIFEST}",
            "name a new or an empty folder",
        )
    return Manifest({}, "the first run did not finish" if names else None)


def _entry(raw: Mapping[str, object]) -> Entry:
    source = raw["input"]
    if not isinstance(source, dict):
        raise TypeError("input")
    file = str(raw["file"])
    if Path(file).name != file or not file.startswith(PART):
        raise ValueError("file")
    return Entry(
        input=Input(**source),
        definition=str(raw["definition"]),
        components=tuple(map(str, _listed(raw["components"]))),
        file=file,
        sha256=str(raw["sha256"]),
        days=tuple(map(str, _listed(raw["days"]))),
        has_others=bool(raw["has_others"]),
        rows=int(str(raw["rows"])),
    )


def _listed(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("list")
    return value


def write_manifest(folder: Path, experiment: str, parts: Mapping[str, Entry]) -> None:
    """Replace the manifest in one step."""
    entries = {path: asdict(entry) for path, entry in sorted(parts.items())}
    manifest = {"format": FORMAT, "experiment": experiment, "parts": entries}
    write_text(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")


def has_twins(parts: Sequence[Entry]) -> bool:
    """Whether two files have the same part: parts are named by their content."""
    return len({part.file for part in parts}) < len(parts)


def is_whole(file: Path, sha256: str) -> bool:
    """Whether a file has the bytes that were written."""
    try:
        return sha256_of(file) == sha256
    except OSError:
        return False


def sha256_of(file: Path) -> str:
    """Digest of a file's bytes."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def sweep(folder: Path, parts: Mapping[str, Entry]) -> None:
    """Remove parts of vanished files, and drafts of killed runs."""
    named = {entry.file for entry in parts.values()}
    for path in folder.iterdir():
        if _SWEPT.fullmatch(path.name) and path.name not in named:
            path.unlink(missing_ok=True)
