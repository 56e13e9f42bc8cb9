"""What the audits of a log read: the impressions of analysed units, narrow, each with its flags.

`aggregates/audits.py` creates these relations after `prepare.py`, and runs the queries of
`queries/audit/` on them.
"""

from typing import NamedTuple

from abeval.engines.sql import literal, quoted
from abeval.experiment.model import Experiment
from abeval.logs.cells import IN_PERIOD
from abeval.logs.mapping import SERVED_FLAGS
from abeval.logs.row_sql import own_name
from abeval.logs.shape import LogShape
from abeval.logs.views import set_aside

CLUSTERS = 64
"""Units are put into so many groups, which are the clusters of every test of an audit."""

PLACES = 62
"""Positions that fit a set of bits in a signed 64-bit number."""

_HOUR_MS = 3_600_000


class Flag(NamedTuple):
    """Something that is true or false of an impression.

    Attributes:
        audit: `null` for a missing value, `served` for one of `SERVED_FLAGS`.
        name: The column, by its canonical name or the log's own.
        sql: True where it is flagged.
        among: Of which impressions; all of them if empty.
    """

    audit: str
    name: str
    sql: str
    among: str = ""


def flags(experiment: Experiment, shape: LogShape) -> list[Flag]:
    """The flags of each impression that these columns can give."""
    log = shape.impressions
    columns = {
        "request_id": "i.request_id",
        "item_id": "i.item_id",
        "position": "i.position",
        "category": "i.own_category",
        "propensity": "i.propensity",
    }
    nulls = [Flag("null", name, f"{sql} is null") for name, sql in columns.items() if name in log]
    if "dwell" in log and "click" in log:
        clicked = "i.own_click = 1"
        nulls.append(Flag("null", "dwell", f"{clicked} and i.own_dwell_ms is null", clicked))
    served = _served_score(experiment, shape)
    if served:
        nulls.append(Flag("null", "score", f"({served}) is null"))
    mapped = {column.lower() for column in log.mapped.values()}
    nulls += [
        Flag("null", name, f"i.{quoted(own_name(name))} is null")
        for name in shape.own_columns
        if name.lower() not in mapped
    ]
    return nulls + [
        Flag("served", name, f"coalesce(i.{name} > 0, false)")
        for name in SERVED_FLAGS
        if name in log
    ]


def _served_score(experiment: Experiment, shape: LogShape) -> str:
    """The score of the model that the unit's variant serves; empty without one."""
    columns = [shape.score_of.get(name) for name in experiment.variants]
    if None in columns:
        return ""
    if len(set(columns)) == 1:
        return f"i.{columns[0]}"
    cases = " ".join(
        f"when {literal(name)} then i.{score}" for name, score in shape.score_of.items()
    )
    return f"case u.variant {cases} end"


def audited_units(shape: LogShape, buckets: int) -> str:
    """The analysed units of the first sub-buckets, each with cluster, stretch and segments."""
    segments = "".join(f", {quoted(f's_{name}')}" for name in shape.segments)
    return (
        f"select unit_id, variant, stretch, sub_bucket % {CLUSTERS} as cluster{segments} "
        f"from units where sub_bucket < {buckets}"
    )


AUDITED_NAMES = """
select n.logged_id, u.unit_id, u.variant, u.cluster
from audited_units u join unit_names n on u.unit_id = n.unit_id
"""


def logged_cells(experiment: Experiment, shape: LogShape) -> str:
    """The cells of the log, each with the reason if its impressions are set aside."""
    reason = set_aside(experiment, shape)
    return (
        f"select *, phase = {IN_PERIOD} as in_period, hour // 24 as day, "
        f"coalesce({reason}, case when not is_exposed then 'not_exposed' end) as set_aside "
        "from logged_sums"
    )


def audited_view(chosen: list[Flag], has_lists: bool) -> str:
    """One row per impression in the period of a unit of `audited_names`."""
    listed = [
        f"case when {flag.sql} then 1 else 0 end as f_{number}"
        for number, flag in enumerate(chosen)
    ]
    listed += [
        f"case when {flag.among} then 1 else 0 end as f_{len(chosen) + number}"
        for number, flag in enumerate(flag for flag in chosen if flag.among)
    ]
    lists = ["u.unit_id", "i.request_id", "i.position"] if has_lists else []
    hour = f"cast(floor(i.time_ms / {_HOUR_MS}) as bigint) as hour"
    return f"""
    select {", ".join(["u.variant", "u.cluster", hour, *lists, *listed])}
    from seen i join audited_names u on i.unit_id = u.logged_id
    where i.in_period and i.set_aside is null
    """


def places() -> str:
    """One row per position that fits the bits."""
    listed = ", ".join(f"({place})" for place in range(1, PLACES + 1))
    return f"select * from (values {listed}) as v (place)"
