"""Compressed text files: whether each is what its name says, and whole.

DuckDB leaves out what is missing at the end of one, and does not compare check sums. So gzip is
read to its end once, and of zstd the sizes of all blocks are added up.
"""

import gzip
import zlib
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from abeval.errors import LogError

ENDS = (".gz", ".zst")
"""How names of compressed files end."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_AGAIN = "copy or write the file again"


def check_compressed(log: str, file: str) -> None:
    """Refuse a compressed file that is cut, damaged, or no such file; others pass.

    Raises:
        LogError: It is one of these.
    """
    end = Path(file).suffix.lower()
    if end in ENDS and Path(file).is_file():
        facts = Path(file).stat()
        _check(log, file, end, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=1024)
def _check(log: str, file: str, end: str, size: int, _written: int) -> None:
    """Check a file of this name, size and time once in a process."""
    name, magic = ("gzip", _GZIP) if end == ".gz" else ("zstd", _ZSTD)
    with Path(file).open("rb") as content:
        # A frame of zstd that holds no data may come first.
        if content.read(len(magic)) != magic and not (end == ".zst" and _is_skippable(content)):
            what = f"{log}: {file} is not compressed with {name}, as its name says"
            raise LogError(what, f"name it without {end}, if it is plain text; or {_AGAIN}")
        content.seek(0)
        try:
            _read_gzip(content) if end == ".gz" else _skip_zstd(content, size)
        except EOFError as error:
            what = f"{log}: {file} is cut: its {name} data end after {size:,} bytes"
            raise LogError(what, _AGAIN) from error
        except (gzip.BadGzipFile, zlib.error) as error:
            what = f"{log}: {file} is damaged: its {name} data cannot be read to their end"
            raise LogError(what, _AGAIN) from error


def _read_gzip(content: BinaryIO) -> None:
    """Read gzip to its end, which compares its check sums."""
    with gzip.GzipFile(fileobj=content) as text:
        while text.read(1 << 20):
            pass


def _is_skippable(content: BinaryIO) -> bool:
    content.seek(0)
    magic = content.read(4)
    return magic[1:] == b"\x2a\x4d\x18" and magic[0] >> 4 == 5


def _skip_zstd(content: BinaryIO, size: int) -> None:
    """Go from block to block of zstd to its end (RFC 8878, section 3.1)."""

    def take(count: int) -> int:
        taken = content.read(count)
        if len(taken) < count:
            raise EOFError
        return int.from_bytes(taken, "little")

    while content.tell() < size:
        magic = take(4)
        if magic >> 4 == 0x184D2A5:
            content.seek(take(4), 1)
        elif magic != int.from_bytes(_ZSTD, "little"):
            raise zlib.error
        else:
            kind = take(1)
            is_single = kind >> 5 & 1
            take((1 - is_single) + (0, 1, 2, 4)[kind & 3] + (is_single, 2, 4, 8)[kind >> 6])
            is_last = 0
            while not is_last:
                block = take(3)
                is_last = block & 1
                content.seek(1 if block >> 1 & 3 == 1 else block >> 3, 1)
            take(4 * (kind >> 2 & 1))
    if content.tell() > size:
        raise EOFError
