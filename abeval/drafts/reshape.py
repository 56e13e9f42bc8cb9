"""Write the `query` that makes a plain log of nests, slates and numbers in texts.

Every step is a SELECT over the rows of the step before: the fields of nests become columns, the
entries of lists become rows, texts such as $1,234.50 or 12.5% become numbers.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from abeval.drafts import words
from abeval.drafts.columns import FEW, Column, Origin, Table, measure_table
from abeval.engines.sql import MONEY, Engine, literal, measure_columns, quote, read_int

_SAMPLE = 500
"""Rows whose nests are walked."""

_MOST_FIELDS = 60
"""Most fields of nests that become columns."""

_TAGS = (("key", "value"), ("name", "value"), ("schema", "data"))
"""Fields of an entry that name it and hold its value: GA4's parameters, Snowplow's contexts."""

_TYPED_ENDS = ("string_value", "int_value", "float_value", "double_value", "bool_value")
"""Fields of a value of GA4, of which one is filled."""

_PAIRS = r"\S+-[01]( \S+-[01])*"
"""Slates as MIND writes them: N12-1 N7-0."""

_TYPE_NAME = (
    r"((Nullable|LowCardinality)\()*((U?Int|Float)\d+|String|FixedString\(\d+\)|Date(32|Time|Time64"
    r"\(\d\))?|Decimal.*|Bool|UUID|Enum.*|Array\(.*)\)*"
)
_ROWS = "{{ rows of the step before }}"
_ISO = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")


@dataclass(frozen=True)
class _Field:
    """A value in a nest: its names from the outside in, and its SQL."""

    names: tuple[str, ...]
    sql: str


def reshape_table(engine: Engine, relation: str, origin: Origin, gone: Sequence[str] = ()) -> Table:
    """Measure a relation, and reshape it first where it needs that.

    The origin of the table has the query and the reasons. `gone` are columns that only some of the
    files have.
    """
    query, reasons, table = "", list[str](), measure_table(engine, relation)

    def drop_columns(_engine: Engine, _table: Table) -> tuple[str, str]:
        reason = f"not all files have {', '.join(gone)}"
        return (_select([], gone), reason) if gone else ("", "")

    steps: tuple[Callable[[Engine, Table], tuple[str, str]], ...]
    steps = (drop_columns, _drop_row_of_types, _open_nests, _unnest_slates, _read_numbers)
    for step in steps:
        select, reason = step(engine, table)
        if not select:
            continue
        query = select.replace(_ROWS, f"(\n{query}\n)" if query else "log")
        reasons.append(reason)
        name = f"{relation}_{step.__name__.strip('_')}"
        engine.view(name, select.replace(_ROWS, quote(table.relation)))
        table = measure_table(engine, name)
    return replace(table, origin=replace(origin, query=query, why="; ".join(reasons)))


def _select(changes: Sequence[str], gone: Sequence[str], replaced: Sequence[str] = ()) -> str:
    """Write a SELECT of all columns of `_ROWS` with changes."""
    every = f"* exclude ({', '.join(map(quote, gone))})" if gone else "*"
    lines = ",\n  ".join(replaced)
    every += f" replace (\n  {lines}\n)" if replaced else ""
    return "select " + ",\n  ".join([every, *changes]) + f"\nfrom {_ROWS}"


def _drop_row_of_types(engine: Engine, table: Table) -> tuple[str, str]:
    """Leave out ClickHouse's second header, and give columns the types in it."""
    if any(column.kind != "text" for column in table.columns) or len(table.columns) < 2:
        return "", ""
    source = quote(table.relation)
    is_type = " and ".join(
        f"regexp_full_match({quote(c.name)}, {literal(_TYPE_NAME)})" for c in table.columns
    )
    rows = engine.rows(f"select * from {source} where {is_type} limit 2")
    if len(rows) != 1:
        return "", ""
    replaced = []
    for column, cell in zip(table.columns, rows[0], strict=True):
        kinds = {"UInt": "ubigint", "Int": "bigint", "Float": "double", "Decimal": "double"}
        kinds |= {"DateTime": "timestamp", "Date": "date", "Bool": "boolean"}
        bare = str(cell).removeprefix("LowCardinality(").removeprefix("Nullable(")
        kind = next((kind for start, kind in kinds.items() if bare.startswith(start)), "varchar")
        # \N is how ClickHouse writes a null.
        value = f"nullif(cast({quote(column.name)} as varchar), '\\N')"
        replaced.append(f"try_cast({value} as {kind}) as {quote(column.name)}")
    first = quote(table.columns[0].name)
    where = f"\nwhere {first} is distinct from {literal(str(rows[0][0]))}"
    return _select([], [], replaced) + where, "the second row has the types of the columns"


def _open_nests(engine: Engine, table: Table) -> tuple[str, str]:
    """Make columns of the fields of JSON, structs in lists, and maps."""
    fields, gone = list[_Field](), list[str]()
    for column in filter(_is_nest, table.columns):
        name = quote(column.name)
        value = f"to_json({name})"
        if column.kind == "text":
            value = f"(case when json_valid({name}) then cast({name} as json) end)"
        sample = engine.rows(
            f"select cast({value} as varchar) from {quote(table.relation)} "
            f"where {name} is not null limit {_SAMPLE}"
        )
        values = [json.loads(str(cell)) for (cell,) in sample if cell is not None]
        inside = [*_walk(values, value, "$", ())]
        inside = [_Field((column.name, *field.names), field.sql) for field in inside]
        if inside:
            fields += inside
            gone.append(column.name)
    pairs = _find_pairs(engine, table)
    for name in pairs:
        entries = f"string_split({quote(name)}, ' ')"
        item, click = "regexp_replace(x, '-[01]$', '')", "cast(right(x, 1) as integer)"
        fields += [
            _Field((name, "item_id"), f"list_transform({entries}, lambda x: {item})"),
            _Field((name, "click"), f"list_transform({entries}, lambda x: {click})"),
        ]
    gone += pairs
    taken = {column.name.lower() for column in table.columns if column.name not in gone}
    changes = []
    for field in fields[:_MOST_FIELDS]:
        name = words.choose_name(taken, field.names[-1].lower(), "_".join(field.names[-2:]).lower())
        changes.append(f"{field.sql} as {quote(name)}")
    return (_select(changes, gone), f"{', '.join(gone)} has nested values") if changes else ("", "")


def _is_nest(column: Column) -> bool:
    """Tell whether a column has entries with fields, a map or JSON."""
    is_list_of_fields = column.type.endswith("[]") and "STRUCT(" in column.type
    return column.type.startswith(("MAP(", "JSON")) or is_list_of_fields or column.looks == "json"


def _find_pairs(engine: Engine, table: Table) -> list[str]:
    """Find texts that are lists of items with their clicks."""
    facts = measure_columns(
        engine.rows,
        quote(table.relation),
        [c.name for c in table.columns if c.kind == "text" and c.distinct > FEW],
        lambda c: f"bool_and(regexp_full_match({c}, '{_PAIRS}')) and bool_or(contains({c}, ' '))",
    )
    return [name for name, are_pairs in facts.items() if are_pairs]


def _walk(values: list[object], base: str, path: str, names: tuple[str, ...]) -> Iterator[_Field]:
    """Yield the plain values in nests, by a sample of their JSON."""
    values = [value for value in values if value is not None]
    dicts = [value for value in values if isinstance(value, dict)]
    lists = [value for value in values if isinstance(value, list)]
    if not values:
        return
    if dicts:
        keys = [*dict.fromkeys(key for value in dicts for key in value)]
        filled = [key for key in keys if any(value.get(key) is not None for value in dicts)]
        if {*keys} <= {*_TYPED_ENDS} and len(filled) > 1:
            inner = ", ".join(_write_json_text(base, f"{path}.{key}") for key in filled)
            yield _Field(names, f"coalesce({inner})")
            return
        for key in keys:
            # Of a value in one of several types the field's name says nothing.
            inside = names if {*keys} <= {*_TYPED_ENDS} else (*names, key)
            field = f'{path}."{key}"' if not key.isidentifier() else f"{path}.{key}"
            yield from _walk([value.get(key) for value in dicts], base, field, inside)
        return
    if lists:
        yield from _walk_list(lists, base, path, names)
        return
    yield _Field(names, _write_value(base, path, values))


def _walk_list(
    lists: list[list[object]], base: str, path: str, names: tuple[str, ...]
) -> Iterator[_Field]:
    entries = [entry for entry in (e for value in lists for e in value) if entry is not None]
    dicts = [entry for entry in entries if isinstance(entry, dict)]
    if not dicts:
        if entries and not any(isinstance(entry, list) for entry in entries):
            yield _Field(names, _write_value(base, f"{path}[*]", entries, "[]"))
        return
    array = base if path == "$" else f"json_extract({base}, '{path}')"
    array = f"cast({array} as json[])"
    for tag, held in _TAGS:
        if all({tag, held} <= entry.keys() for entry in dicts):
            by_tag: dict[str, list[object]] = {}
            for entry in dicts:
                by_tag.setdefault(str(entry[tag]), []).append(entry[held])
            if len(by_tag) > _MOST_FIELDS:
                return
            for name, inner in by_tag.items():
                test = f"{_write_json_text('x', f'$.{tag}')} = {literal(name)}"
                first = f"list_filter({array}, lambda x: {test})[1]"
                yield from _walk(inner, first, f"$.{held}", (*names, name))
            return
    for key in dict.fromkeys(key for entry in dicts for key in entry):
        plain = [e[key] for e in dicts if not isinstance(e.get(key), dict | list | None)]
        if plain:
            value = _write_value("x", f"$.{key}", plain)
            yield _Field((*names, key), f"list_transform({array}, lambda x: {value})")


def _write_json_text(base: str, path: str) -> str:
    """Write SQL of a JSON value as text."""
    return f"json_extract_string({base}, {literal(path)})"


def _write_value(base: str, path: str, values: Sequence[object], ends: str = "") -> str:
    """Write SQL of plain JSON values in the type that they have.

    `ends` is "[]" for lists.
    """
    text, kind = _write_json_text(base, path), _find_kind(values)
    return text if kind == "varchar" else f"cast({text} as {kind}{ends})"


def _find_kind(values: Sequence[object]) -> str:
    """Find the type of plain JSON values."""
    kinds = {type(value) for value in values}
    if kinds == {str} and all(_ISO.match(str(value)) for value in values):
        return "timestamp"
    if kinds == {bool}:
        return "boolean"
    if kinds == {int} and all(abs(read_int(v)) < 2**63 for v in values if isinstance(v, int)):
        return "bigint"
    return "double" if kinds <= {int, float} else "varchar"


def _unnest_slates(engine: Engine, table: Table) -> tuple[str, str]:
    """Make a row of each entry of lists that belong together: items, their clicks."""
    lists = [*_measure_entries(engine, table)]
    anchors = [c for c in lists if c.may_be_id and not c.is_share]
    for anchor in sorted(anchors, key=lambda c: not c.has_role_name("item_id")):
        others = [c for c in lists if c is not anchor]
        equal, within = _compare_lists(engine, table, anchor, others)
        clicked = [name for name in within if name not in equal][:1]
        if not equal and not clicked:
            continue
        gone = [c.name for c in lists]
        together = [anchor, *(c for c in others if c.name in equal)]
        taken = {c.name.lower() for c in table.columns if c.name not in gone}
        has_item = any(c in anchors and c.has_role_name("item_id") for c in together)
        changes = []
        for entry in together:
            name = entry.name
            if entry.is_share and not entry.has_role_name("click"):
                name = "click" if "click" not in taken else name
            elif entry is anchor and not has_item:
                name = "item_id"
            name = quote(words.choose_name(taken, name))
            changes.append(f"unnest({quote(entry.name)}) as {name}")
        if not any(words.is_role_name(name, "position") for name in taken):
            end = f"greatest(coalesce(len({quote(anchor.name)}), 0), 1)"
            changes.append(f"unnest(range(1, {end} + 1)) as position")
        for name in clicked:
            is_clicked = f"lambda x: list_contains({quote(name)}, x)"
            flags = f"list_transform({quote(anchor.name)}, {is_clicked})"
            changes.append(f"unnest(cast({flags} as integer[])) as click")
        return _select(changes, gone), f"each entry of {anchor.name} is a row"
    return "", ""


def _measure_entries(engine: Engine, table: Table) -> Iterator[Column]:
    """Measure the entries of each column of plain lists that has some."""
    for column in table.columns:
        if column.type.endswith("[]") and "(" not in column.type:
            name, relation = quote(column.name), f"{table.relation} {column.name}"
            engine.view(relation, f"select unnest({name}) as {name} from {quote(table.relation)}")
            (entries,) = measure_table(engine, relation).columns
            if entries.rows:
                yield entries


def _compare_lists(
    engine: Engine, table: Table, anchor: Column, others: Sequence[Column]
) -> tuple[list[str], list[str]]:
    """Find the lists as long as another one, and those whose entries are all in it."""
    lists = f"{quote(anchor.name)}::varchar[]"
    facts = measure_columns(
        engine.rows,
        quote(table.relation),
        [c.name for c in others],
        lambda c: (
            f"[bool_and(len({c}) = len({lists})), bool_and(list_has_all({lists}, {c}::varchar[]))]"
        ),
    )
    equal, within = ([name for name, fact in facts.items() if fact[i]] for i in (0, 1))
    return equal, within


def _read_numbers(engine: Engine, table: Table) -> tuple[str, str]:
    """Make numbers of texts such as $1,234.50, and nulls of words such as NULL.

    Texts such as 12.5% become numbers, too.
    """
    replaced, examples = [], []
    for column in (c for c in table.columns if c.looks == "number" and c.odd):
        name, is_number = quote(column.name), f"regexp_full_match(v, {literal(MONEY.pattern)})"
        ((odd, marked, percents),) = engine.rows(
            f"select (list(distinct v) filter (not {is_number}))[:{FEW}], count_if({is_number}), "
            f"count_if({is_number} and contains(v, '%')) from (select trim({name}) as v from "
            f"{quote(table.relation)} where try_cast({name} as double) is null)"
        )
        nulls: list[str] = sorted(odd) if isinstance(odd, list) else []
        if any(value.lower() not in words.LISTS["null"] for value in nulls):
            continue
        value = f"trim({name})"
        for null in nulls:
            value = f"nullif({value}, {literal(null)})"
        if marked:
            value = f"regexp_replace({value}, '[^-+.0-9]', '', 'g')"
        number = f"cast({value} as double)" + (" / 100" if percents else "")
        replaced.append(f"{number} as {name}")
        examples.append(f"{column.name} has texts such as {column.odd}")
    return (_select([], [], replaced), "; ".join(examples)) if replaced else ("", "")
