"""Check that text files are whole, compressed as their names say, without zeros.

DuckDB leaves out what is missing at the end of zstd, and does not compare the check sums of gzip.
So gzip is read to its end once, and of zstd the sizes of all blocks are added up.
"""

import gzip
import re
import zlib
from collections.abc import Iterable
from functools import lru_cache, partial
from pathlib import Path
from typing import BinaryIO

from abeval.errors import LogError

ENDS = (".gz", ".zst")
"""How names of compressed files end."""
_ZSTD = b"\x28\xb5\x2f\xfd"
_STARTS = {
    ".gz": (b"\x1f\x8b",),
    # Also frames of zstd without data, which pzstd writes first.
    ".zst": (_ZSTD, *(bytes([low]) + b"\x2a\x4d\x18" for low in range(0x50, 0x60))),
}


def check_compressed(log: str, file: str) -> None:
    """Raise if a compressed file is cut, damaged, or no such file.

    Raises:
        LogError: It is one of these.
    """
    end = Path(file).suffix.lower()
    if end not in ENDS or not Path(file).is_file():
        return
    facts = Path(file).stat()
    if fault := _find_fault(file, end, facts.st_size, facts.st_mtime_ns):
        plain = (
            f"name it without {end}, if it is plain text; or " if fault.startswith("not ") else ""
        )
        raise LogError(f"{log}: {file} is {fault}", f"{plain}copy or write the file again")


@lru_cache(maxsize=1024)
def _find_fault(file: str, end: str, size: int, _written: int) -> str | None:
    """Find what is wrong with a compressed file; None if nothing is."""
    # Size and time of the file are arguments, so that the cache knows a file that changed.
    name = "gzip" if end == ".gz" else "zstd"
    with Path(file).open("rb") as content:
        if not content.read(4).startswith(_STARTS[end]):
            return f"not compressed with {name}, as its name says"
        content.seek(0)
        try:
            _read_gzip(content) if end == ".gz" else _skip_zstd(content, size)
        except EOFError:
            return f"cut: its {name} data end after {size:,} bytes"
        except (gzip.BadGzipFile, zlib.error):
            return f"damaged: its {name} data cannot be read to their end"
    return None


def _read_gzip(content: BinaryIO) -> None:
    """Read gzip to its end, which compares its check sums."""
    with gzip.GzipFile(fileobj=content) as text:
        # Nothing is kept: reading alone compares the check sums.
        while text.read(1 << 20):
            pass


def _skip_zstd(content: BinaryIO, size: int) -> None:
    """Skip from block to block of zstd to its end (RFC 8878, section 3.1)."""

    def take(count: int) -> int:
        taken = content.read(count)
        if len(taken) < count:
            raise EOFError
        return int.from_bytes(taken, "little")

    while content.tell() < size:
        magic = take(4)
        # A skippable frame: its length, then bytes without a meaning.
        if magic >> 4 == 0x184D2A5:
            content.seek(take(4), 1)
        elif magic != int.from_bytes(_ZSTD, "little"):
            raise zlib.error
        else:
            kind = take(1)
            is_single = kind >> 5 & 1
            # The header: window, dictionary and size of the content, each of some bytes or none.
            take((1 - is_single) + (0, 1, 2, 4)[kind & 3] + (is_single, 2, 4, 8)[kind >> 6])
            is_last = 0
            while not is_last:
                block = take(3)
                is_last = block & 1
                # A run-length block stores one byte, whatever its size.
                content.seek(1 if block >> 1 & 3 == 1 else block >> 3, 1)
            # The check sum, if the frame has one.
            take(4 * (kind >> 2 & 1))
    if content.tell() > size:
        raise EOFError


_LONGEST_NUMBER = 10_000
_NUMBERS = re.compile(rb"(?<![0-9])[0-9]{%d}" % _LONGEST_NUMBER)


def check_bytes(log: str, files: Iterable[str]) -> None:
    """Raise if a text has zeroed bytes, or numbers of thousands of digits."""
    for file in files:
        if "://" in file:
            continue
        with Path(file).open("rb") as content:
            # DuckDB thinks for minutes about the type of such a number.
            lines = content.readlines(4_000_000)
            if any(len(line) > _LONGEST_NUMBER and _NUMBERS.search(line) for line in lines):
                what = f"{log}: {file} has a number of more than {_LONGEST_NUMBER:,} digits"
                raise LogError(what, "does it lack delimiters or ends of lines?")
            content.seek(0)
            chunks = iter(partial(content.read, 1 << 20), b"")
            if not file.lower().endswith(ENDS) and any(b"\0" in chunk for chunk in chunks):
                what = f"{log}: {file} has bytes that are 0, which no text has"
                hint = "it is damaged: restore it, or write it again; of UTF-16, say `encoding`"
                raise LogError(what, hint)
