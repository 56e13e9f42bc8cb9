"""Match columns of two tables by values; find the keys that tie clicks to rows.

Names say little across files: `besucher` may be `uid`. Values do: the ids of clicks are among those
of the impressions, pairs of them in the same row. Where values leave two choices, the names decide.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from abeval.drafts import guess, words
from abeval.drafts.columns import FEW, Column, Table
from abeval.engines.sql import Engine, literal, quote, read_int

MIN_SHARE = 0.5
"""Least share of rows or values in the other table for two columns, or tables, to match."""

ALONE = 0.9
"""Least share where one column alone ties rows: small numbers are in many columns by chance."""

_MANY = 500_000
"""Rows above which a sample of the values is matched."""

_MOST_IDS = 12
_MOST_KEYS = _MOST_TIMES = 3
"""Most columns of ids of a table that are tried; most pairs of these, and of times, for a key."""

_KEYS: Sequence[Sequence[str]] = (
    *(("impression_id",), ("request_id", "item_id"), ("unit_id", "item_id")),
    *(("request_id",), ("unit_id",)),
)
"""Keys that tie a click to its impression, the clearest first; units need times, too."""

_NO_KEYS = ("time", "position", "dwell", "description", "before", "variant")
"""Words in the names of columns that tie nothing, whatever their values."""

_NESTED = 0.99
"""Share of values that lie in one unit above which they are requests, not items."""


Pair = tuple[Column, Column]
"""A column of a table, and one of the impressions."""


@dataclass(frozen=True)
class Match:
    """Two columns of which one has the values of the other.

    Attributes:
        share: Share of the different values of `column` that `seen` has.
        is_named_so: Whether their names agree.
    """

    column: Column
    seen: Column
    share: float
    is_named_so: bool


@dataclass(frozen=True)
class Key:
    """Columns that tie rows to impressions.

    `columns` has the columns of both tables by entry, such as `item_id`.

    Attributes:
        times: The column of the time in both tables, if both have one.
        matched: Share of rows that have the values of an impression.
        after: Share that have those of one before.
        soon: Share that have those of one of the last 24 hours.
    """

    columns: Mapping[str, Match]
    times: Pair | None
    matched: float
    after: float
    soon: float

    @property
    def join(self) -> tuple[str, ...]:
        """Return the entries that tie rows, such as `request_id` and `item_id`."""
        return tuple(self.columns)

    @property
    def names_no_item(self) -> bool:
        """Tell whether rows are tied to a unit or request, not to one of its impressions."""
        return self.join in (("unit_id",), ("request_id",))

    @property
    def needs_time(self) -> bool:
        """Tell whether only the time says which impression of several a row is of."""
        return self.names_no_item or "unit_id" in self.join


def write_id(column: Column) -> str:
    """Write SQL of an id as text."""
    name = quote(column.name)
    # Ids that pandas wrote as 7.0 become whole again.
    return f"cast({f'cast({name} as bigint)' if column.kind == 'real' else name} as varchar)"


def match_columns(engine: Engine, table: Table, main: Table) -> list[Match]:
    """Match columns of ids by their values, the surest first.

    Those of one name are listed whatever their values are.
    """
    every = max(1, max(table.rows, main.rows) // _MANY)
    kept = f" where hash(v) % {every} = 0" if every > 1 else ""

    def write_values(part: Table) -> tuple[list[Column], str]:
        ids = [
            c
            for c in part.columns
            if c.may_be_id and not c.is_time
            if c.distinct > 1 or c.has_role_name("item_id", "request_id", "impression_id")
        ]
        ids = sorted(ids, key=lambda c: -c.distinct)[:_MOST_IDS]
        selects = (
            f"select distinct {literal(c.name)} as name, v from "
            f"(select {write_id(c)} as v from {quote(part.relation)}){kept}"
            for c in ids
        )
        return ids, " union all ".join(selects)

    (ids, values), (seen_ids, seen_values) = write_values(table), write_values(main)
    if not ids or not seen_ids:
        return []
    rows = engine.rows(
        f"with l as ({values}), s as ({seen_values}), n as (select name, count(v) as n from l "
        "group by name) select l.name, s.name, count(*) / any_value(n.n) from l "
        "join s on l.v = s.v join n on n.name = l.name group by all"
    )
    shares = {(a, b): float(share or 0) for a, b, share in rows}
    pairs = [
        Match(c, s, shares.get((c.name, s.name), 0.0), _are_named_alike(c.name, s.name))
        for c, s in product(ids, seen_ids)
    ]
    matches = [m for m in pairs if m.share >= MIN_SHARE or m.is_named_so]
    # A name that agrees counts before a few values that do not.
    return sorted(matches, key=lambda m: (-m.is_named_so, -m.share, -m.column.distinct))


def _are_named_alike(first: str, second: str) -> bool:
    """Tell whether two names agree, however they are written."""
    roles = ("unit", "item_id", "request_id", "impression_id")
    return words.join_words(first) == words.join_words(second) or any(
        words.is_role_name(first, r) and words.is_role_name(second, r) for r in roles
    )


def find_keys(
    engine: Engine, table: Table, main: Table, matches: Sequence[Match], unit: Column | None
) -> Iterator[Key]:
    """Find the keys that tie rows to impressions.

    A key is an impression, a request and an item, a unit and an item, a request, or a unit.
    `matches` are columns of both whose values are the same; `unit` is that of the impressions.
    Yields the best key of each kind, the clearest kind first.
    """
    by_role: dict[str, list[Match]] = {}
    for match in matches:
        role = _find_role(engine, main, match.seen, unit)
        # Users 1 to 900 are among the impressions 1 to 9,000, too.
        is_unique = match.column.distinct >= 0.8 * match.column.rows or match.is_named_so
        if role and (role != "impression_id" or is_unique):
            by_role.setdefault(role, []).append(match)
    times, main_times = (guess.list_times(side)[:_MOST_TIMES] for side in (table, main))
    pairs: Sequence[Pair | None] = [*product(times, main_times)] or [None]
    for kind in _KEYS:
        choices = [by_role.get(entry, [])[:_MOST_KEYS] for entry in kind]
        keys = list[Key]()
        for chosen, pair in product(product(*choices), pairs):
            if len({m.column.name for m in chosen}) == len(kind):
                columns = [(m.column, m.seen) for m in chosen]
                shares = measure_join(engine, table, main, columns, pair)
                keys.append(Key(dict(zip(kind, chosen, strict=True)), pair, *shares))
        # The first of the best: names that agree come first.
        best = max(keys, key=lambda k: (round(k.matched, 2), round(k.soon, 2)), default=None)
        if best is not None:
            yield best


def _find_role(engine: Engine, main: Table, column: Column, unit: Column | None) -> str:
    """Find what ids of the impressions are: of units, rows, requests or items."""
    if unit is not None and column.name == unit.name:
        return "unit_id"
    if column.distinct == main.rows and column.distinct > FEW:
        return "impression_id"
    for role in ("item_id", "request_id", "impression_id"):
        if column.has_role_name(role):
            return role
    if unit is None or column.distinct <= FEW or column.mentions_role(*_NO_KEYS):
        return ""
    name, unit_name = quote(column.name), quote(unit.name)
    ((nested, constant),) = engine.rows(
        f"with pairs as (select {name} as k, {unit_name} as u, count(*) as n from "
        f"{quote(main.relation)} where {name} is not null and {unit_name} is not null group by all)"
        ", keys as (select count(*) = 1 as is_one from pairs group by k having sum(n) > 1), "
        "units as (select count(*) = 1 as is_one from pairs group by u having sum(n) > 1) "
        "select (select avg(is_one::int) from keys), (select avg(is_one::int) from units)"
    )
    # What a unit has one of describes it, such as its account.
    if constant is not None and float(constant) > _NESTED:
        return ""
    return "request_id" if nested is not None and float(nested) > _NESTED else "item_id"


def measure_join(
    engine: Engine, table: Table, main: Table, key: Sequence[Pair], times: Pair | None
) -> tuple[float, float, float]:
    """Measure the shares of rows that have an impression with the values of a key.

    Of any time, of before the row, and of at most a day before it.
    """
    sides = zip((table, main), zip(*key, strict=True), times or (None, None), strict=True)
    selects = [
        f"select {', '.join(f'{write_id(c)} as k_{i}' for i, c in enumerate(columns))}, "
        f"{time.moment if time else 'cast(null as timestamp)'} as t from {quote(side.relation)}"
        for side, columns, time in sides
    ]
    keys = " and ".join(f"c.k_{i} = s.k_{i}" for i in range(len(key)))
    (shares,) = engine.rows(
        f"with seen as ({selects[1]}), named as (select distinct * exclude t from seen), "
        f"tied as (select c.*, s.k_0 is not null as is_known from ({selects[0]}) c left join named "
        f"s on {keys}) select count_if(is_known) / count(*), count(s.t) / count(*), "
        "count_if(c.t - s.t <= interval 1 day) / count(*) from tied c "
        f"asof left join (select * from seen where t is not null) s on {keys} and c.t >= s.t"
    )
    matched, after, soon = (float(share or 0) for share in shares)
    return matched, after, soon


def has_clock(engine: Engine, table: Table, time: Column) -> bool:
    """Tell whether times say more than the day."""
    at = time.moment
    ((count,),) = engine.rows(
        f"select count_if({at} <> date_trunc('day', {at})) from {quote(table.relation)}"
    )
    return read_int(count or 0) > 0
