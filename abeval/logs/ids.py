"""Find ids that stand for something else than they seem to.

One such as `anonymous` is that of nobody, and has the rows of many. One coarser than the unit,
which has one variant, was most likely what was randomised. And one of an order may have a row for
each state: created, paid, refunded. Columns are known by their names.
"""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from abeval.engines.sql import Engine, literal, query, quote, read_int
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.cells import LogCells
from abeval.logs.mapping import ORDER_IDS, LogColumns, name_raw_column
from abeval.logs.run import Run
from abeval.logs.shape import ComputedColumns, LogSchema
from abeval.logs.unit_arrays import find_rows

_NOBODY = re.compile(
    # Words that stand for nobody, also in brackets.
    r"[<(\[]?(|-|null|none|nan|na|n/a|nil|undefined|unknown|missing|empty|default|anon|anonymous|"
    r"guest|visitor|not[ _-]?set|no[ _-]?id|no[ _-]?user|user)[>)\]]?"
    # Numbers and UUIDs of one digit.
    r"|-1|[0-]+|9{5,}|f{8}(-f{4}){3}-f{12}"
    # MD5, SHA-1 and SHA-256 of an empty text.
    r"|d41d8cd98f00b204e9800998ecf8427e|da39a3ee5e6b4b0d3255bfef95601890afd80709"
    r"|e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

# An id of many units has many times the rows of one; of a short log, each unit has many.
_TIMES, _SHARE = 10, 0.005


def count_placeholder_rows(engine: Engine, cells: LogCells) -> dict[str, int]:
    """Count the period's impressions by ids that stand for no unit, most rows first.

    Only ids with half a per cent of the rows, and ten times as many as is usual, are looked at.
    """
    rows = find_rows(cells.counts & cells.in_period)
    counts = np.bincount(cells.unit[rows], cells.sums["c_1"][rows], len(cells.hashes))
    least = max(_SHARE * counts.sum(), _TIMES * counts[counts > 0].mean()) if counts.any() else 0
    heavy = np.flatnonzero(counts >= least) if least else np.zeros(0, dtype=np.intp)
    if not heavy.size:
        return {}
    hashes = cells.hashes[heavy].tolist()
    names = engine.rows(
        "select unit_hash, cast(logged_id as varchar) from logged_names "
        f"where unit_hash in ({', '.join(map(str, hashes))})"
    )
    by_hash = dict(zip(hashes, counts[heavy].astype(int).tolist(), strict=True))
    placeholders = {
        str(name): by_hash[read_int(unit_hash)]
        for unit_hash, name in names
        if _NOBODY.fullmatch(str(name).strip().lower())
    }
    return dict(sorted(placeholders.items(), key=lambda count: (-count[1], count[0])))


_LEVELS = (
    (
        *("user_id", "userid", "user", "uid", "customer_id", "visitor_id", "member_id"),
        *("account_id", "person_id"),
    ),
    ("device_id", "cookie_id", "anonymous_id", "client_id", "user_pseudo_id"),
    ("session_id", "visit_id"),
    ("request_id", "query_id", "search_id"),
)
"""Names of ids, the coarsest first."""

COARSER_NAMES = tuple(name for names in _LEVELS for name in names)


class CoarserIds(NamedTuple):
    """Count the ids of a column that have several units.

    `mixed` of the `several` have several variants; `expected` would by chance.
    """

    column: str
    several: int
    mixed: int
    expected: int


def find_coarser_ids(experiment: Experiment, log: LogColumns) -> list[str]:
    """List the id columns of the impressions that may be coarser than the unit."""
    # A design says what was randomised; without logged variants nothing can be seen.
    if experiment.design is not None or "variant" not in log:
        return []
    # A table of units names its unit, or each row is one.
    if experiment.is_unit_table and experiment.unit != ROW_UNIT:
        return []
    unit = experiment.unit.lower()
    level = next((i for i, names in enumerate(_LEVELS) if unit in names), len(_LEVELS) - 1)
    columns = {column.lower(): column for column in log.types}
    names = [name for level_names in _LEVELS[:level] for name in level_names if name != unit]
    return [columns[name] for name in names if name in columns]


def count_coarser_ids(run: Run, schema: LogSchema, units: Mapping[str, int]) -> list[CoarserIds]:
    """Count ids with several units, and those in several variants."""
    experiment, engine, found = run.experiment, run.engine, list[CoarserIds]()
    shares = [count / max(sum(units.values()), 1) for count in units.values()]
    variant_list = ", ".join(map(literal, experiment.variants))
    frame = engine.plain_frame(schema.impressions.raw)
    for column in find_coarser_ids(experiment, schema.impressions):
        # Most tables have each id once, which a frame tells without a database.
        if frame is not None and frame[column].is_unique:
            continue
        rows = f"select {quote(name_raw_column(column))} as id, unit_id, variant from seen"
        where = f"in_period and set_aside is null and variant in ({variant_list})"
        steps = {"identified_rows": f"{rows} where {where}"}
        several, mixed, expected = 0, 0, 0.0
        read = engine.rows(engine.write_steps(steps, query("audit/coarser_ids")))
        for number, variants, ids in read:
            several += read_int(ids)
            mixed += read_int(ids) * (read_int(variants) > 1)
            # If units were randomised, an id of n units has one variant with chance Σ share^n.
            expected += read_int(ids) * (1 - sum(share ** read_int(number) for share in shares))
        if several:
            found.append(CoarserIds(column, several, mixed, round(expected)))
    return found


_STATES = (
    *("status", "state", "stage", "order_status", "order_state", "payment_status"),
    *("event", "event_type", "event_name", "action"),
)
"""Names of columns that may tell the state of an order."""


class OrderStates(NamedTuple):
    """Count the rows of an outcome log that are of orders with several states.

    `state` names the column of the states, and `rows` counts the rows of all orders.
    """

    log: str
    state: str
    several: int
    rows: int


def count_states(
    engine: Engine, outcomes: Mapping[str, ComputedColumns], covered: Collection[str]
) -> list[OrderStates]:
    """Count rows of orders with several states, in each outcome log that was read."""
    found = list[OrderStates]()
    for name in (name for name in outcomes if name in covered):
        log = outcomes[name].log
        columns = {column.lower(): column for column in log.types}
        ids, states = (
            [columns[column] for column in names if column in columns]
            for names in (ORDER_IDS, _STATES)
        )
        for state in states if ids else ():
            rows = f"select {quote(ids[0])} as id, {quote(state)} as state from {log.raw}"
            steps = engine.write_steps({"order_rows": rows}, query("audit/order_states"))
            ((several, every),) = engine.rows(steps)
            if several:
                found.append(OrderStates(name, state, read_int(several), read_int(every)))
                break
    return found
