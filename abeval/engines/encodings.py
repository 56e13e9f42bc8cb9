"""Text files that are not UTF-8: which encodings make words of their bytes."""

import gzip
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from abeval.engines.sources import entry
from abeval.errors import LogError


def _of_pairs(encoding: str, *leads: int) -> str:
    """Write the pattern of words of characters that have these first bytes of two."""
    pairs = (bytes((lead, second)) for lead in leads for second in range(0x40, 0x100))
    decoded = {pair.decode(encoding, "ignore") for pair in pairs}
    return f"[A-Za-z{''.join(sorted(c for c in decoded if len(c) == 1 and c.isalpha()))}]+"


_CYRILLIC = "(?=..)[А-ЯЁЄІЇҐ]?[а-яёєіїґ]+|[А-ЯЁЄІЇҐ]+"
_WESTERN = "(?=.*[A-Za-z])([A-ZÀ-ÖØ-ÞŠŽ]?[a-zß-öø-ÿœšž]+|[A-ZÀ-ÖØ-ÞŒŠŽ]+)"
_WORDS: Mapping[str, Callable[[], str]] = {
    "cp1251": lambda: _CYRILLIC,
    "cp1252": lambda: _WESTERN,
    # Kana and the commoner half of the characters, which come first in both.
    "shift_jis": partial(_of_pairs, "shift_jis", 0x82, 0x83, *range(0x88, 0x98)),
    "gb18030": partial(_of_pairs, "gb2312", *range(0xB0, 0xD8)),
}
"""Encoding → what words with other letters than a to z are like in it."""

_LIKELY, _POSSIBLE = 0.8, 0.3
"""Share of the words that are like it where an encoding is likely, or possible."""

_LOOKED_AT = 1_000_000
"""Bytes of lines with such words."""


def likely_encodings(file: str) -> dict[str, str]:
    r"""Find encodings that fit a text file which is not UTF-8, each with a word that it has in it.

    There is one where one alone is likely; none of a file of UTF-8, or without such words.

    Example:
        >>> from tempfile import NamedTemporaryFile
        >>> with NamedTemporaryFile() as log:
        ...     written = log.write("user;группа\n1;контрольная\n2;новая\n".encode("cp1251"))
        ...     log.flush()
        ...     likely_encodings(log.name)
        {'cp1251': 'контрольная'}
    """
    text = _other_lines(file)
    shares, shown = dict[str, float](), dict[str, str]()
    for encoding, pattern in _WORDS.items():
        try:
            words = [w for w in re.findall(r"[^\W\d_]+", text.decode(encoding)) if not w.isascii()]
        except UnicodeError:
            continue
        is_like = re.compile(pattern()).fullmatch
        like = [word for word in words if is_like(word)]
        if like:
            shares[encoding], shown[encoding] = len(like) / len(words), max(like, key=len)
    likely = [encoding for encoding, share in shares.items() if share >= _LIKELY]
    possible = [encoding for encoding, share in shares.items() if share >= _POSSIBLE]
    return {encoding: shown[encoding] for encoding in likely or possible}


def _other_lines(file: str) -> bytes:
    """Return lines that are not ASCII; none of a file that is UTF-8, or no text."""
    lines, size, is_utf8 = list[bytes](), 0, file.lower().endswith(".zst")
    opened = gzip.open if file.lower().endswith(".gz") else open
    with opened(file, "rb") as content:
        for line in content:
            if line.isascii():
                continue
            try:
                line.decode("utf-8")
            except UnicodeError:
                is_utf8 = False
            if size < _LOOKED_AT:
                lines.append(line)
                size += len(line)
            if not is_utf8 and size >= _LOOKED_AT:
                break
    text = b"\n".join(lines)
    return b"" if is_utf8 or b"\0" in text else text


def check_utf8(log: str, files: Iterable[str]) -> None:
    """Refuse text files that are not UTF-8, with what they probably are."""
    for file in files:
        if "://" not in file and _other_lines(file):
            raise encoding_error(log, file)


def encoding_error(log: str, file: str, read_as: str = "UTF-8") -> LogError:
    """Return the error of a file that is not in the encoding in which it is read."""
    likely = likely_encodings(file)
    shown = " or ".join(f"{encoding}, with words such as {w!r}" for encoding, w in likely.items())
    named = entry(log, "encoding", next(iter(likely), "cp1252"))
    known = "cp1252 is of Western Europe, cp1251 of Cyrillic, shift_jis of Japan, gb18030 of China"
    hint = f"it is {'likely ' if len(likely) == 1 else ''}{shown}" if shown else known
    return LogError(f"{file} is not {read_as}", f"{hint}: say {named}")
