"""Whether what is shown are numbers of a result: its records, and what they say in words."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

NUMBER = re.compile(r"(?<![\w.])[+-]?\d[\d,]*(?:\.\d+)?(?![\w.]*\d)")

DATE = re.compile(r"\d{4}-\d\d-\d\d")
COUNT = re.compile(r"\d[\d,]*")
OF_COUNT = re.compile(r"[\d.]+% of (\d[\d,]*)")


@dataclass(frozen=True)
class Record:
    """The words and numbers of one record, with the words of those that it is in."""

    words: frozenset[str]
    numbers: tuple[float, ...]


def records(value: Any, words: frozenset[str] = frozenset()) -> Iterator[Record]:
    """Every record of a result's JSON."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from records(one, words)
    elif isinstance(value, dict):
        listed = [one for v in value.values() if isinstance(v, list | tuple) for one in v]
        own = words | {v for v in (*value.values(), *listed) if isinstance(v, str) and v}
        yield Record(own, tuple(plain(value)))
        for one in value.values():
            yield from records(one, own)


def plain(value: Any) -> Iterator[float]:
    """The numbers of a value, of whatever is in it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from plain(one)


class Known:
    """Numbers that may be shown: those given, and the same as per cent."""

    def __init__(self, numbers: Iterable[float]) -> None:
        self.numbers = sorted({shown for one in numbers for shown in (one, 100 * one)})

    def has(self, number: float, half: float = 0.0) -> bool:
        """Whether there is such a number, to so much rounding."""
        room = half + 1e-9 * max(1.0, abs(number))
        at = bisect_left(self.numbers, number - room)
        return at < len(self.numbers) and self.numbers[at] <= number + room


class Result:
    """The records of a result, by the words in them."""

    def __init__(self, value: Any) -> None:
        self.records = tuple(records(value))
        self.having: dict[str, set[int]] = {}
        for i, record in enumerate(self.records):
            for word in record.words:
                self.having.setdefault(word, set()).add(i)
        self.known: dict[frozenset[str], Known] = {}

    def named(self, cell: str) -> bool:
        """Whether a cell is a name in the result, not a number."""
        return cell in self.having and NUMBER.search(cell) is None

    def of(self, names: frozenset[str]) -> Known:
        """The numbers of the records with all of these names."""
        if names not in self.known:
            found = set(range(len(self.records)))
            for name in names:
                found &= self.having[name]
            self.known[names] = Known(n for i in found for n in self.records[i].numbers)
        return self.known[names]


def printed(text: str) -> Iterator[tuple[float, float]]:
    """The numbers of a text without its dates, and half of the last digit of each."""
    bare = DATE.sub("", text).replace("\u2212", "-").replace("\u202f", "").replace("\\", "")
    for match in NUMBER.finditer(bare):
        digits = match[0].replace(",", "")
        half = 0.5 * 10.0 ** -len(digits.partition(".")[2])
        # A bound stands for a number from 0 to it.
        is_bound = bare[: match.start()].endswith("<")
        yield (float(digits) / 2, float(digits) / 2) if is_bound else (float(digits), half)


def shares(rows: Sequence[Sequence[str]], row: Sequence[str]) -> Known:
    """Counts of a row over each other, and over the sums of their columns in rows of its name.

    Of a share of a count, `99.95% of 134,020`, also what is left without a count of the row.
    """
    counts = {i: int(c.replace(",", "")) for i, c in enumerate(row) if COUNT.fullmatch(c)}
    own = [other for other in rows if other[0] == row[0]]
    sums = [
        sum(int(other[i].replace(",", "")) for other in own if COUNT.fullmatch(other[i]))
        for i in counts
    ]
    wholes = [*counts.values(), *sums]
    parts = [n / whole for n in counts.values() for whole in wholes if whole]
    of = [int(match[1].replace(",", "")) for c in row if (match := OF_COUNT.fullmatch(c))]
    return Known([*parts, *(1 - n / whole for n in counts.values() for whole in of)])
