"""Measure the columns of a table: types, ranges, values and their counts."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import partial
from typing import Literal

from abeval.drafts import words
from abeval.engines.sql import Engine, count_rows, literal, measure_columns, quote
from abeval.engines.text_files import DAY_AND_MONTH, ISO_PARTS

_Kind = Literal["boolean", "integer", "real", "time", "text", "other"]

ALWAYS = 0.99
"""Share of repeated ids with one variant above which the variant is theirs."""

FEW = 20
"""Most values of a column that are listed."""

_KINDS: Mapping[_Kind, tuple[str, ...]] = {
    "boolean": ("BOOLEAN",),
    "time": ("TIMESTAMP", "DATE"),
    "text": ("VARCHAR", "UUID", "ENUM"),
    "real": ("DOUBLE", "FLOAT", "DECIMAL"),
}
"""Kind → prefixes of the names of its types."""

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

_FEW_YEARS = 5 * 366 * 86_400
"""Seconds of the longest log; ids of ten digits are further apart."""

DAY_FORMAT = "%Y%m%d"
_DAY_NUMBER = r"20\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])"
_FEW_YEARS_OF_DAYS = 5 * 10_000
"""Days written as whole numbers, and the difference of those of the longest log."""

LOG_COLUMNS = (
    *("click", "item_id", "position", "score", "propensity", "request_id", "impression_id"),
    *("dwell", "category"),
)
"""Roles of columns of logs, besides unit, time and variant."""

_LONGEST = 200
"""Most letters of a text that is shown."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        distinct: Number of different values; approximate for many values that are not ids.
        low: The smallest number; None unless it holds numbers or booleans.
        values: Each value as text with its rows, most frequent first, where there are few.
        is_whole: Whether it holds numbers without a fraction, whatever its type.
        looks: What most of its values are, if they are text: times, numbers, or JSON with entries.
        order: Of times such as 9/24/2026: which part comes first, or that both may.
        odd: A text that is no number, where most look like numbers.
    """

    name: str
    type: str
    kind: _Kind
    rows: int
    distinct: int
    low: float | None
    high: float | None
    values: Mapping[str, int]
    is_whole: bool = False
    looks: Literal["time", "number", "json", ""] = ""
    odd: str = ""
    order: Literal["day", "month", "either", ""] = ""

    def has_role_name(self, *roles: str) -> bool:
        """Tell whether the column's name is in the list of a role."""
        return words.is_role_name(self.name, *roles)

    def mentions_role(self, *roles: str) -> bool:
        """Tell whether a word of the column's name is in the list of a role."""
        return words.mentions_role(self.name, *roles)

    @property
    def is_number(self) -> bool:
        """Tell whether sums of the column mean something."""
        return self.kind in ("boolean", "integer", "real")

    @property
    def may_be_id(self) -> bool:
        """Tell whether the column can hold ids."""
        # pandas stores whole numbers beside nulls as 7.0.
        return self.kind in ("text", "integer") or (self.kind == "real" and self.is_whole)

    @property
    def names_id(self) -> bool:
        """Tell whether the column has ids of people or places."""
        is_id = words.split(self.name)[-1:] == ("id",) or self.mentions_role("place")
        is_id = is_id or self.has_role_name("unit")
        return self.may_be_id and is_id and not self.has_role_name(*LOG_COLUMNS)

    @property
    def answers(self) -> tuple[list[str], list[str]] | None:
        """Return the spellings of yes and of no, if the text has no other values."""
        is_text = self.kind == "text" and 2 <= self.distinct == len(self.values)
        return words.split_yes_no([*self.values]) if is_text else None

    @property
    def number(self) -> str:
        """Write SQL of the column's number; a null stays null."""
        value = quote(self.name)
        if self.answers is not None:
            yes, no = (", ".join(map(literal, spelled)) for spelled in self.answers)
            return f"case when {value} in ({yes}) then 1 when {value} in ({no}) then 0 end"
        is_flag = self.kind == "boolean"
        return f"case when {value} then 1 when not {value} then 0 end" if is_flag else value

    @property
    def is_share(self) -> bool:
        """Tell whether the column holds only 0 and 1, or yes and no."""
        return self.answers is not None or (
            self.is_number and self.distinct == 2 and (self.low, self.high) == (0.0, 1.0)
        )

    @property
    def is_count(self) -> bool:
        """Tell whether the column holds counts: whole numbers from 0, some above 1."""
        return self.is_number and self.is_whole and (self.low or 0) >= 0 and (self.high or 0) > 1

    @property
    def time_unit(self) -> str | None:
        """Guess the time unit of whole numbers since 1970."""
        if self.kind != "integer" or self.low is None or self.high is None:
            return None
        # All values lie between the years 2000 and 2100 in one unit only.
        ends = self.low / 946_684_800, self.high / 4_102_444_800
        return next((u for u, n in _PER_SECOND.items() if ends[0] >= n >= ends[1]), None)

    @property
    def is_time(self) -> bool:
        """Tell whether the column holds times, by its type or by its values and name."""
        is_named = self.time_unit is not None and self.has_role_name("time")
        is_epoch = self.is_epoch and not self.names_id
        return "time" in (self.kind, self.looks) or is_named or is_epoch or self.is_day_number

    @property
    def is_epoch(self) -> bool:
        """Tell whether whole numbers are times since 1970, within a few years.

        The name of the column does not count.
        """
        per_second = _PER_SECOND.get(self.time_unit or "", 0)
        return bool(per_second) and (self.high or 0) - (self.low or 0) < per_second * _FEW_YEARS

    @property
    def is_day_number(self) -> bool:
        """Tell whether whole numbers are days of a few years, written as 20260701."""
        if self.kind != "integer" or self.low is None or self.high is None:
            return False
        is_named = self.has_role_name("time") or "date" in words.split(self.name)
        days = [f"{self.low:.0f}", f"{self.high:.0f}", *self.values]
        is_few = self.high - self.low < _FEW_YEARS_OF_DAYS and (is_named or bool(self.values))
        return is_few and all(re.fullmatch(_DAY_NUMBER, day) for day in days)

    @property
    def moment(self) -> str:
        """Write SQL of the column's times as timestamps in UTC."""
        name = quote(self.name)
        if self.is_day_number:
            return f"try_strptime(cast({name} as varchar), '{DAY_FORMAT}')"
        if self.kind == "integer":
            per_second = _PER_SECOND[self.time_unit or "s"]
            return f"make_timestamp(cast({name} * {1e6 / per_second} as bigint))"
        if self.type == "TIMESTAMP WITH TIME ZONE":
            return f"{name} at time zone 'UTC'"
        if self.order:
            iso = ISO_PARTS.get(self.order, ISO_PARTS["month"])
            return f"try_cast(regexp_replace({name}, '{_DATE}', '{iso}') as timestamp)"
        return f"try_cast({name} as timestamp)"


@dataclass(frozen=True)
class Origin:
    """The files and the filter that the rows of a table come from.

    Attributes:
        name: The file's, or the type of the rows.
        paths: Variant → paths as the experiment file names them; under the empty name where files
            say no variant. Empty for a frame.
        where: SQL that chooses the rows among those of the files; empty for all.
        read: How the files are read, as entries of the log.
        reasons: Entry of `read` that nobody named → how sure it is, and why.
        questions: What a person has to say of the files, and of their rows.
        named: `unit` and `variant` → the column that the caller names.
        formats: Column → the format of its times, where they do not say it themselves.
        query: SQL over `log` that makes the rows, where they need another shape; `why` says it.
    """

    name: str = ""
    paths: Mapping[str, list[str]] = field(default_factory=dict)
    where: str = ""
    read: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    questions: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    why: str = ""

    @property
    def files(self) -> list[str]:
        """List the paths of all variants."""
        return [path for paths in self.paths.values() for path in paths]


@dataclass(frozen=True)
class Period:
    """The period in which a column has variants, and the time before it.

    Attributes:
        variant: The column of variants.
        rows: SQL that chooses the rows since the start.
        before: The first day of the log.
        start: When the variants begin.
        end: The day after the last.
        reason: Why this is taken for the period.
    """

    variant: str
    rows: str
    before: date
    start: date | datetime
    end: date
    reason: str


@dataclass(frozen=True)
class Table:
    """The columns of a table and its number of rows.

    Attributes:
        rows: Its rows, but those in which every column is empty.
        constancy: Ids whose values come again → the share of these values that have one variant.
        shared_unit: The column whose values make it the unit: those of another table.
        period: When its column of variants has them, if some rows are from before.
    """

    relation: str
    rows: int
    columns: tuple[Column, ...]
    constancy: Mapping[str, float] = field(default_factory=dict)
    origin: Origin = Origin()
    shared_unit: str = ""
    period: Period | None = None

    @property
    def since(self) -> str:
        """Return SQL that chooses the rows since the start of the period."""
        return "true" if self.period is None else self.period.rows

    def find_named(self, entry: str) -> Column | None:
        """Find the column that the caller names for an entry; None if there is none."""
        name = self.origin.named.get(entry, "").lower()
        return next((column for column in self.columns if column.name.lower() == name), None)

    @property
    def clusters(self) -> list[Column]:
        """List the ids whose values have one variant each, the coarsest first."""
        clusters = [c for c in self.columns if self.constancy.get(c.name, 0) > ALWAYS]
        return sorted(clusters, key=lambda c: (c.distinct, not c.names_id))


_AT_ONCE = 50
"""Most columns in one query of exact counts; its time grows with their square."""

_NEARLY = 0.8
"""Share of the rows above which a count of different values is made exact."""

_FIRST = 10_000
"""Number of rows whose text is read."""

_DATE = rf"^\s*{DAY_AND_MONTH}"

_IS_NUMBER = r"^[-+]?[$€£¥₽₹]?\s?\d[\d\s.,'']*\s?[%$€£¥₽₹]?$"


def measure_table(engine: Engine, relation: str) -> Table:
    """Measure the columns of a relation."""
    source = quote(relation)
    types = engine.columns(relation)
    kinds = {name: _find_kind(type) for name, type in types.items()}
    # A sheet may end in empty rows.
    filled = " or ".join(f"{quote(name)} is not null" for name in kinds)
    rows = count_rows(engine, f"{source} where {filled}")

    texts = [name for name, kind in kinds.items() if kind == "text"]
    numbers = [name for name, kind in kinds.items() if kind in ("boolean", "integer", "real")]
    measure = partial(measure_columns, engine.rows, source)
    counts = measure(kinds, lambda c: f"[count({c}), approx_count_distinct({c})]")
    whole = "bool_and({0}::double = floor({0}::double))::double"
    ends = measure(numbers, lambda c: f"[min({c}::double), max({c}::double), {whole.format(c)}]")
    are_whole = {name for name in numbers if ends[name][2]}
    ids = [n for n in kinds if counts[n][1] > FEW / 2 and (n in texts or n in are_whole)]
    if len(ids) > _AT_ONCE:
        ids = [name for name in ids if counts[name][1] >= _NEARLY * rows]
    exact = measure(ids, lambda c: f"count(distinct {c})", at_once=_AT_ONCE)
    distinct = {name: exact.get(name, about) for name, (_, about) in counts.items()}
    # Ids have too many values to list; variants and types of rows have few.
    few = [name for name in kinds if 0 < distinct[name] <= FEW]
    values = measure(few, lambda c: f"to_json(histogram(cast({c} as varchar)))", at_once=_AT_ONCE)
    first_rows = f"(select * from {source} limit {_FIRST})"
    looks = measure_columns(engine.rows, first_rows, texts, _write_looks, at_once=_AT_ONCE)
    odd = measure(
        [name for name in texts if looks[name] == "number"],
        lambda c: f"min(left({c}, {_LONGEST})) filter (where try_cast({c} as double) is null)",
    )
    orders = measure([name for name in texts if looks[name] == "time"], _write_order)
    columns = []
    for name, type in types.items():
        tally = dict(Counter(json.loads(values.get(name, "{}"))).most_common())
        low, high, _ = ends.get(name, (None, None, False))
        different = len(tally) or distinct[name]
        column = Column(name, type, kinds[name], counts[name][0], different, low, high, tally)
        column = replace(column, is_whole=name in are_whole, looks=looks.get(name) or "")
        columns.append(replace(column, odd=odd.get(name) or "", order=orders.get(name) or ""))
    return Table(relation, rows, tuple(columns))


def _find_kind(type: str) -> _Kind:
    for kind, starts in _KINDS.items():
        if type.startswith(starts):
            return "other" if type.endswith("]") else kind
    return "integer" if type.endswith(("INT", "INTEGER")) else "other"


def _write_looks(column: str) -> str:
    """Write SQL of what a column's texts look like: times, numbers or JSON.

    Most of the texts decide. JSON is an object or a list.
    """
    # An id of type UUID is text too.
    column = f"cast({column} as varchar)"
    tests = {
        "time": f"(try_cast({column} as timestamp) is not null or regexp_matches({column}, "
        f"'{_DATE}')) and {column} not similar to '\\d+'",
        "number": f"regexp_matches(trim({column}), '{_IS_NUMBER}')",
        "json": f"regexp_matches({column}, '^\\s*[\\[{{]') and json_valid({column})",
    }
    cases = " ".join(
        f"when avg(cast({test} as int)) filter (where {column} is not null) >= {_NEARLY} "
        f"then '{name}'"
        for name, test in tests.items()
    )
    return f"case {cases} else '' end"


def _write_order(column: str) -> str:
    """Write SQL of the order of day and month in texts; null of ISO 8601."""
    first, second = (f"try_cast(regexp_extract({column}, '{_DATE}', {i}) as int)" for i in (1, 2))
    cases = f"when max({second}) > 12 then 'month' when max({first}) > 12 then 'day'"
    return f"case {cases} when max({first}) is not null then 'either' end"
