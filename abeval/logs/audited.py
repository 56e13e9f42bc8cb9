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

HEAVY = CLUSTERS
"""The cluster of units that are read because they are heavy, and are not in the sample."""

HOUR_MS = 3_600_000
NO_HOUR = -(10**9)
"""The hour of rows without a time."""


class Flag(NamedTuple):
    """Something that is true or false of an impression.

    Attributes:
        audit: `null` for a missing value, `served` for one of `SERVED_FLAGS`, `click` for a click
            of a log without one of clicks.
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
    clicks = (
        [Flag("click", "", "i.own_click = 1")] if shape.clicks is None and "click" in log else []
    )
    return [*nulls, *clicks] + [
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


AUDITED_NAMES = """
select n.logged_id, u.unit_id, v.variant
from audited_units u
join unit_names n on u.unit_id = n.unit_id
join units v on u.unit_id = v.unit_id
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
    listed = listed or ["0 as f_0"]
    lists = ["i.request_id", "i.position", "i.item_id"] if has_lists else []
    hour = f"coalesce(cast(floor(i.time_ms / {HOUR_MS}) as bigint), {NO_HOUR}) as hour"
    return f"""
    select {", ".join(["u.unit_id", "i.time_ms", hour, *lists, *listed])}
    from seen i join audited_names u on i.unit_id = u.logged_id
    where i.in_period and i.set_aside is null
    """
