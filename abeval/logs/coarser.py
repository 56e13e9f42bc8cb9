"""Find ids coarser than the unit that each have one variant.

Most likely such an id was randomised. Only columns of the impressions that are called like ids of
people, devices or visits are looked at.
"""

from collections.abc import Mapping

from abeval.engines.sql import literal, query, quote, read_int
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.mapping import LogColumns, name_raw_column
from abeval.logs.run import Run
from abeval.logs.shape import LogSchema

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

NAMES = tuple(name for names in _LEVELS for name in names)

_FACT = "coarser:"


def find_coarser_ids(experiment: Experiment, log: LogColumns) -> list[str]:
    """List the id columns that may be coarser than the unit."""
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


def count_coarser_ids(run: Run, schema: LogSchema, units: Mapping[str, int]) -> dict[str, int]:
    """Count ids with several units, and those in several variants."""
    experiment, engine, facts = run.experiment, run.engine, dict[str, int]()
    shares = [count / max(sum(units.values()), 1) for count in units.values()]
    variant_list = ", ".join(map(literal, experiment.variants))
    frame = engine.plain_frame(schema.impressions.raw)
    for column in find_coarser_ids(experiment, schema.impressions):
        # Most tables have each id once, which a frame tells without a database.
        if frame is not None and frame[column].is_unique:
            continue
        rows = f"select {quote(name_raw_column(column))} as id, unit_id, variant from seen"
        where = f"in_period and set_aside is null and variant in ({variant_list})"
        engine.view("identified_rows", f"{rows} where {where}")
        several, mixed, expected = 0, 0, 0.0
        for number, variants, ids in engine.rows(query("audit/coarser_ids")):
            several += read_int(ids)
            mixed += read_int(ids) * (read_int(variants) > 1)
            # If units were randomised, an id of n units has one variant with chance Σ share^n.
            expected += read_int(ids) * (1 - sum(share ** read_int(number) for share in shares))
        if several:
            counts = {"several": several, "mixed": mixed, "expected": round(expected)}
            facts |= {f"{_FACT}{column}:{name}": n for name, n in counts.items()}
    return facts


def parse_coarser_counts(facts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Read the counts of `count_coarser_ids` from facts, by column.

    `several` ids have several units; `mixed` of them have several variants, `expected` would by
    chance.
    """
    counts: dict[str, dict[str, int]] = {}
    for name, number in facts.items():
        if name.startswith(_FACT):
            _, column, what = name.split(":")
            counts.setdefault(column, {})[what] = number
    return counts
