"""SQL of the canonical views of an experiment's logs; `queries/` reads nothing else.

`prepare.py` calls it with the shape of the logs, and gives the SQL to the engine.
"""

from collections.abc import Sequence

from abeval.engines.protocol import Engine
from abeval.engines.sql import literal, quoted
from abeval.experiment.design import Period
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ClickLog
from abeval.logs import canonical
from abeval.logs.cells import BEFORE, IN_PERIOD, NO_TIME, OUTSIDE
from abeval.logs.mapping import SERVED_FLAGS, LogColumns
from abeval.logs.row_sql import component_name, cut_name, event_name, own_name
from abeval.logs.shape import LogShape
from abeval.metrics.row_text import never_fails

ITEM_GROUPS = 64
"""Catalogue metrics need a row per item and group of units: sub-buckets form this many groups."""


def experiment_view(experiment: Experiment) -> str:
    """One row: the settings that queries read."""
    clicks = experiment.logs.clicks
    attribution = "null" if clicks is None else round(clicks.attribution_hours * 3_600_000)
    return f"""
    select
      cast({round(experiment.sessions.gap_minutes * 60_000)} as bigint) as session_gap_ms,
      cast({attribution} as bigint) as attribution_ms,
      cast({ITEM_GROUPS} as bigint) as item_groups,
      {str(experiment.cleaning.crossover == "exclude").lower()} as excludes
    """


def variants_view(experiment: Experiment) -> str:
    """One row per variant of the experiment."""
    listed = ", ".join(f"({literal(name)})" for name in experiment.variants)
    return f"select * from (values {listed}) as v (variant)"


def seen_view(experiment: Experiment, shape: LogShape, engine: Engine, join: Sequence[str]) -> str:
    """Every impression under canonical names, with its phase and why it is set aside, if it is."""
    log, source = shape.impressions, experiment.logs.rows
    time = canonical.time_of_impression(experiment, log)
    time_ms = canonical.time_ms(log, source, engine, time)
    columns = [
        f"{canonical.unit(experiment, log)} as unit_id",
        f"{time_ms} as time_ms",
        f"{time} as own_ts",
        f"{canonical.column(log, 'impression_id')} as impression_id",
        f"{canonical.column(log, 'request_id')} as request_id",
        f"{canonical.column(log, 'item_id')} as item_id",
        f"{canonical.variant(experiment, log)} as variant",
        f"{canonical.position(log, source)} as position",
        f"{canonical.cast(log, 'category', 'varchar')} as own_category",
        f"{canonical.click(log)} as own_click",
        f"{canonical.dwell_ms(log, source)} as own_dwell_ms",
        f"{canonical.cast(log, 'propensity', 'double')} as propensity",
        *(f"{canonical.cast(log, n, 'double')} as {n}" for n in SERVED_FLAGS if n in log),
        *(f"{canonical.score(name)} as score_{i}" for i, name in enumerate(shape.scores, start=1)),
        *(f"{canonical.own_column(log, c)} as {quoted(own_name(c))}" for c in shape.kept_columns),
        *canonical.click_keys(log, join, time_ms if "unit_id" in join else "0"),
    ]
    local_time = canonical.local_time(experiment, log, source, engine)
    return f"""
    with named as (select {", ".join(columns)} from kept_impressions),
    timed as (select *, {local_time} as ts from named),
    dated as (
      select *, cast(ts as date) as day, {local_hour(experiment, engine)} as hour,
        {phase(experiment)} as phase
      from timed
    )
    select *, phase = {IN_PERIOD} as in_period, {set_aside(experiment, shape)} as set_aside
    from dated
    """


def logged_view(experiment: Experiment, shape: LogShape) -> str:
    """Every impression with click, dwell, components `c_…`, segments `s_…` and cuts `k_…`.

    Components that could fail are computed only for impressions that count, so that a row that is
    set aside cannot stop the run.
    """
    keep = experiment.logs.rows.dwell_without_click == "keep"
    dwell = "dwell_seen" if keep else "case when click = 1 then dwell_seen else 0 end"
    sums = [f"{_counted(sql)} as {component_name(i)}" for i, sql in enumerate(shape.components)]
    sums += [
        f"case when counts then {sql} end as {event_name(i)}" for i, sql in enumerate(shape.events)
    ]
    segments = [f"{sql} as {quoted(f's_{name}')}" for name, sql in shape.segments.items()]
    segments += [f"{sql} as {quoted(cut_name(name))}" for name, sql in shape.cuts.items()]
    own = [quoted(own_name(column)) for column in shape.kept_columns]
    item_join = _item_join(shape) if _reads_category(shape) else ""
    category = "coalesce(i.own_category, t.category)" if item_join else "i.own_category"
    return f"""
    with joined as (
      select i.*, {category} as category, {_clicked(shape)}, {_is_exposed(shape)} as is_exposed
      from seen i {_click_join(shape)} {item_join} {_exposure_join(shape)}
    ),
    clicked as (select *, {dwell} as dwell_ms from joined),
    dwelt as (
      select *, dwell_ms / 1000.0e0 as dwell, set_aside is null and is_exposed as counts
      from clicked
    )
    select phase, is_exposed, counts,
      {", ".join([*LOGGED, *score_columns(shape), *own, *segments, *sums])}
    from dwelt
    """


def impressions_view(experiment: Experiment, shape: LogShape) -> str:
    """The impressions of analysed units, whose `unit_id` is the number in `unit_names`."""
    others = [f"i.{column}" for column in LOGGED if column not in ("unit_id", "category")]
    own = [quoted(own_name(column)) for column in shape.kept_columns]
    sums = [component_name(i) for i in range(len(shape.components))]
    sums += event_columns(shape)
    segments = [quoted(f"s_{name}") for name in experiment.segments]
    segments += [quoted(cut_name(name)) for name in shape.cuts]
    item_join = "" if _reads_category(shape) else _item_join(shape)
    category = "coalesce(i.category, t.category)" if item_join else "i.category"
    return f"""
    select n.unit_id, {category} as category,
      {", ".join([*others, *score_columns(shape), *own, *segments, *sums])}
    from logged i join unit_names n on i.unit_id = n.logged_id {item_join}
    where i.counts
    """


def score_columns(shape: LogShape) -> list[str]:
    """The columns of the models' scores."""
    return [f"score_{i}" for i in range(1, len(shape.scores) + 1)]


def event_columns(shape: LogShape) -> list[str]:
    """The columns of the values that quantiles rank."""
    return [event_name(i) for i in range(len(shape.events))]


def plain_columns(shape: LogShape) -> list[str]:
    """The columns of the impressions, with the log's own, but for times and sums."""
    plain = [column for column in LOGGED if column not in ("unit_id", "hour", "ts", "variant")]
    return [*plain, *score_columns(shape), *(quoted(own_name(c)) for c in shape.kept_columns)]


def cut_columns(shape: LogShape, cuts: Sequence[str]) -> list[str]:
    """The columns that sums by cut are made of."""
    sums = [component_name(i) for i in range(len(shape.components))]
    return ["in_period", *(quoted(cut_name(name)) for name in cuts), *sums]


LOGGED = (
    "unit_id",
    "in_period",
    "day",
    "hour",
    "ts",
    "time_ms",
    "variant",
    "request_id",
    "item_id",
    "position",
    "category",
    "click",
    "dwell_ms",
    "propensity",
)
"""Columns of every impression, besides scores, components, segments and the log's own."""


def _counted(sql: str) -> str:
    # Rows that are set aside form cells of their own, of which only the number of rows is read.
    return sql if never_fails(sql) else f"case when counts then {sql} else 0 end"


def _reads_category(shape: LogShape) -> bool:
    """Whether an expression reads the category; if not, `impressions_view` looks it up later."""
    texts = (*shape.components, *shape.segments.values(), *shape.cuts.values())
    return any(quoted("category") in sql for sql in texts)


def clicks_view(source: ClickLog, log: LogColumns, engine: Engine, join: Sequence[str]) -> str:
    """Clicks under canonical names; exact duplicates once, with the number of copies."""
    return f"""
    with once as ({canonical.distinct_rows(log, "raw_clicks")})
    select
      {canonical.copies(log)} as copies, {canonical.time_ms(log, source, engine)} as time_ms,
      {canonical.dwell_ms(log, source)} as dwell_ms, {", ".join(canonical.click_keys(log, join))}
    from once
    """


def items_view(log: LogColumns) -> str:
    """One row per item of the catalogue; the first category of an item that is listed twice."""
    item, category = canonical.column(log, "item_id"), canonical.cast(log, "category", "varchar")
    return f"""
    select {item} as item_id, min({category}) as category
    from raw_items where {item} is not null group by 1
    """


def local_hour(experiment: Experiment, engine: Engine) -> str:
    """Write the local hour `ts` counted from 1970."""
    # In UTC the milliseconds are known: this spares a tenth of the pass over the log.
    local_ms = "time_ms" if experiment.timezone == "UTC" else engine.epoch_ms("ts")
    # Doubles are exact here, and divide in half the time that whole numbers take.
    return f"cast(floor({local_ms} / 3600000.0e0) as bigint)"


def phase(experiment: Experiment) -> str:
    """The phase of an impression, as a number."""
    if experiment.period is None:
        return str(IN_PERIOD)
    before = experiment.pre_period
    earlier = f"when {_within(before)} then {BEFORE}" if before else ""
    return (
        f"case when {_within(experiment.period)} then {IN_PERIOD} {earlier} "
        f"when time_ms is null then {NO_TIME} else {OUTSIDE} end"
    )


def _within(period: Period) -> str:
    start, end = (f"timestamp {literal(str(bound))}" for bound in period.bounds)
    return f"ts >= {start} and ts < {end}"


def set_aside(experiment: Experiment, shape: LogShape) -> str:
    """Why an impression is set aside by its unit_id, phase and variant; null where it is not."""
    reasons = [
        ("unit_id is null", "null_unit"),
        (f"phase = {NO_TIME}", "null_time"),
        (f"phase = {OUTSIDE}", "outside_period"),
    ]
    if shape.names_variant and not experiment.assigns and shape.exposures is None:
        known = ", ".join(literal(name) for name in experiment.variants)
        reasons += [
            (f"phase = {IN_PERIOD} and variant is null", "null_variant"),
            (f"phase = {IN_PERIOD} and variant not in ({known})", "not_compared"),
        ]
    cases = " ".join(f"when {test} then {literal(reason)}" for test, reason in reasons)
    return f"case {cases} end"


def logged_cells(experiment: Experiment, shape: LogShape) -> str:
    """The cells of the log, each with the reason if its impressions are set aside."""
    reason = set_aside(experiment, shape)
    return (
        f"select *, phase = {IN_PERIOD} as in_period, hour // 24 as day, "
        f"coalesce({reason}, case when not is_exposed then 'not_exposed' end) as set_aside "
        "from logged_sums"
    )


def _clicked(shape: LogShape) -> str:
    if shape.clicks is None:
        return "own_click as click, own_dwell_ms as dwell_seen"
    dwell = "a.dwell_ms" if "dwell" in shape.clicks else "own_dwell_ms"
    return f"case when a.clicks is null then 0 else 1 end as click, {dwell} as dwell_seen"


def _click_join(shape: LogShape) -> str:
    if shape.clicks is None:
        return ""
    return "left join attributed a on " + " and ".join(
        f"i.{k} = a.{k}" for k in canonical.CLICK_KEYS
    )


def _item_join(shape: LogShape) -> str:
    return "left join items t on i.item_id = t.item_id" if shape.has_item_categories else ""


def _exposure_join(shape: LogShape) -> str:
    return "left join exposed e on i.unit_id = e.unit_id" if shape.exposures is not None else ""


def _is_exposed(shape: LogShape) -> str:
    """Whether the unit had been exposed by then; true without a log of exposures."""
    if shape.exposures is None:
        return "true"
    before = "in_period and i.time_ms < e.first_ms"
    return f"e.unit_id is not null and not coalesce({before}, false)"


def show_scored(engine: Engine, sql: str) -> None:
    """Show impressions or candidates (variant, unit_id, score, click) as `scored`."""
    engine.view("scored", sql)
