"""Hashes of a text: abeval's own, and those of other platforms.

`split.py` and `plan.py` use `md5_60`; `draws.py` names the others, which `platforms/` combines
into schemes.
"""

from __future__ import annotations

import hashlib
from array import array

import mmh3

SLOTS = 1_000_000
SUB_BUCKETS = 4096
HEX_DIGITS = 15


def md5_60(salt: str, unit: str) -> int:
    """The first 60 bits of md5 over ``salt:unit``, in utf-8.

    >>> md5_60("exp_42", "123")
    544213474231947086
    """
    return int(digest(salt, unit)[:HEX_DIGITS], 16)


def slot(h: int) -> int:
    """The slot, 0 to 999,999, that decides the variant.

    >>> slot(544213474231947086)
    947086
    """
    return h % SLOTS


def sub_bucket(h: int, count: int = SUB_BUCKETS) -> int:
    """The sub-bucket for resampling, from digits of the hash that the slot does not use.

    >>> sub_bucket(544213474231947086, 100)
    31
    """
    return (h // SLOTS) % count


def digest(salt: str, unit: str) -> str:
    """The md5 over ``salt:unit`` as 32 hex digits.

    >>> digest("exp_42", "123")
    '78d6f457d938f4e6ea5c8281ba8a2720'
    """
    return md5(f"{salt}:{unit}")


def md5(text: str) -> str:
    """The 32 hex digits of md5 over utf-8."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def sha1(text: str) -> str:
    """The 40 hex digits of sha1 over utf-8."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def sha256(text: str) -> str:
    """The 64 hex digits of sha256 over utf-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def fnv1a32(text: str) -> int:
    """FNV-1a of 32 bits over UTF-16 code units, as JavaScript's `charCodeAt` gives them.

    >>> fnv1a32("a") % 1000
    220
    """
    h = 0x811C9DC5
    for code in array("H", text.encode("utf-16-le")):
        h = (h ^ code) * 0x01000193 & 0xFFFFFFFF
    return h


def murmur3_32(text: str, seed: int = 0) -> int:
    """MurmurHash3 x86 of 32 bits over utf-8, without a sign.

    >>> murmur3_32("123", 0)
    2662625771
    """
    return mmh3.hash(text, seed & 0xFFFFFFFF, signed=False)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`, over UTF-16 code units, with its sign.

    >>> java_hash("ab")
    3105
    """
    h = 0
    for code in array("H", text.encode("utf-16-le")):
        h = (31 * h + code) & 0xFFFFFFFF
    return h - 0x100000000 if h >= 0x80000000 else h
