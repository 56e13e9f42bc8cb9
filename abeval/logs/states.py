"""Find outcome logs that have a row for each state of one order: created, paid, refunded."""

from collections.abc import Mapping

from abeval.engines.sql import Engine, query, quote, read_int
from abeval.logs.mapping import ORDER_IDS
from abeval.logs.prepare import Prepared

_STATES = (
    *("status", "state", "stage", "order_status", "order_state", "payment_status"),
    *("event", "event_type", "event_name", "action"),
)
_FACT = "states:"


def count_states(engine: Engine, prepared: Prepared) -> dict[str, int]:
    """Count rows of orders that are in several states, as facts, by log and column."""
    facts = dict[str, int]()
    for name, outcome in prepared.schema.outcomes.items():
        columns = {column.lower(): column for column in outcome.log.types}
        ids, states = (
            [columns[column] for column in names if column in columns]
            for names in (ORDER_IDS, _STATES)
        )
        if name not in prepared.covered or not ids:
            continue
        for state in states:
            rows = f"select {quote(ids[0])} as id, {quote(state)} as state from {outcome.log.raw}"
            engine.view("order_rows", rows)
            ((several, every),) = engine.rows(query("audit/order_states"))
            if several:
                facts[f"{_FACT}{name}:{state}:several"] = read_int(several)
                facts[f"{_FACT}{name}:{state}:rows"] = read_int(every)
                break
    return facts


def parse_states(facts: Mapping[str, int]) -> dict[str, tuple[str, int, int]]:
    """Read the counts of `count_states`: log → column of the state, rows of several, all rows."""
    counts = dict[str, tuple[str, int, int]]()
    for fact, several in facts.items():
        if fact.startswith(_FACT) and fact.endswith(":several"):
            _, log, state, _ = fact.split(":")
            counts[log] = state, several, facts[f"{_FACT}{log}:{state}:rows"]
    return counts
