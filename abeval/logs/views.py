"""The canonical views, written once for the logs at hand; `queries/` reads nothing else."""

from abeval.engines.protocol import Engine
from abeval.engines.sql import literal, quoted
from abeval.experiment.model import (
    ROW_UNIT,
    ClickLog,
    Experiment,
    ImpressionLog,
    LogSource,
    Period,
)
from abeval.logs.mapping import LogColumns
from abeval.logs.shape import LogShape, component_name, event_name, own_name
from abeval.metrics.expressions import never_fails

CLICK_KEYS = ("key_1", "key_2", "key_3")
OUTSIDE, NO_TIME, BEFORE, IN_PERIOD = range(4)
"""Phases of an impression: neither period, no time, before the experiment, in it."""
_INTEGERS = ("INTEGER", "BIGINT")
"""Types whose values need no detour over doubles; narrower ones could not hold the bounds."""
_TO_MILLISECONDS = {"s": "* 1000", "ms": "* 1", "us": "// 1000", "ns": "// 1000000"}


def experiment_view(experiment: Experiment, item_groups: int) -> str:
    """One row: the settings that queries read."""
    clicks = experiment.logs.clicks
    hours = clicks.attribution_hours if clicks is not None else 24.0
    return f"""
    select
      cast({round(experiment.sessions.gap_minutes * 60_000)} as bigint) as session_gap_ms,
      cast({round(hours * 3_600_000)} as bigint) as attribution_ms,
      cast({item_groups} as bigint) as item_groups
    """


def seen_view(experiment: Experiment, shape: LogShape, engine: Engine, join: list[str]) -> str:
    """Every impression under canonical names, with the reason where it is set aside."""
    log, source = shape.impressions, experiment.logs.impressions
    columns = [
        f"{_unit(experiment, log)} as unit_id",
        f"{_time_ms(log, source, engine)} as time_ms",
        f"{_column(log, 'ts')} as own_ts",
        f"{_column(log, 'impression_id')} as impression_id",
        f"{_column(log, 'request_id')} as request_id",
        f"{_column(log, 'item_id')} as item_id",
        f"{_text(log, 'variant')} as variant",
        f"{_position(log, source)} as position",
        f"{_text(log, 'category')} as own_category",
        f"{_click(log)} as own_click",
        f"{_dwell_ms(log, source)} as own_dwell_ms",
        f"{_propensity(log)} as propensity",
        *(f"{_score(column)} as score_{i}" for i, column in enumerate(shape.scores, start=1)),
        *(f"{_own(log, column)} as {quoted(own_name(column))}" for column in shape.own_columns),
        *click_keys(log, join),
    ]
    return f"""
    with named as (select {", ".join(columns)} from kept_impressions),
    timed as (select *, {_local_time(experiment, log, source, engine)} as ts from named),
    dated as (select *, cast(ts as date) as day, {_phase(experiment)} as phase from timed)
    select *, phase = {IN_PERIOD} as in_period, {set_aside(experiment, shape)} as set_aside
    from dated
    """


def _local_time(
    experiment: Experiment, log: LogColumns, source: ImpressionLog, engine: Engine
) -> str:
    """The local timestamp; one that is in UTC already is taken as it is, which is much faster."""
    zone = _zone(experiment, log)
    if zone == "UTC" and source.time_unit is None and _is(log, "ts", "TIMESTAMP"):
        return "own_ts"
    return engine.local_time("time_ms", zone)


def _zone(experiment: Experiment, log: LogColumns) -> str:
    """Whose days they are: a DATE already is a day of the experiment's, and is not moved."""
    return "UTC" if _is(log, "ts", "DATE") else experiment.timezone


def _is(log: LogColumns, canonical: str, kind: str) -> bool:
    return canonical in log and log.type_of(canonical) == kind


def logged_view(experiment: Experiment, shape: LogShape) -> str:
    """Every impression with click, dwell, components `c_…`, segments `s_…`, and its set_aside.

    Components that could fail are computed for the impressions that count alone: what a row set
    aside holds stops no run.
    """
    keep = experiment.logs.impressions.dwell_without_click == "keep"
    dwell = "dwell_seen" if keep else "case when click = 1 then dwell_seen else 0 end"
    sums = [f"{_counted(sql)} as {component_name(i)}" for i, sql in enumerate(shape.components)]
    sums += [f"{_counted(sql)} as {event_name(i)}" for i, sql in enumerate(shape.events)]
    segments = [f"{sql} as {quoted(f's_{name}')}" for name, sql in shape.segments.items()]
    own = [quoted(own_name(column)) for column in shape.own_columns]
    item_join = _item_join(shape) if _reads_category(shape) else ""
    category = _category(shape) if item_join else "i.own_category"
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
    own = [quoted(own_name(column)) for column in shape.own_columns]
    sums = [component_name(i) for i in range(len(shape.components))]
    sums += event_columns(shape)
    segments = [quoted(f"s_{name}") for name in experiment.segments]
    item_join = "" if _reads_category(shape) else _item_join(shape)
    category = "coalesce(i.category, t.category)" if item_join else "i.category"
    return f"""
    select n.unit_id, {category} as category,
      {", ".join([*others, *score_columns(shape), *own, *segments, *sums])}
    from logged i join analysed_names n on i.unit_id = n.logged_id {item_join}
    where i.counts
    """


def score_columns(shape: LogShape) -> list[str]:
    """The columns of the models' scores."""
    return [f"score_{i}" for i in range(1, len(shape.scores) + 1)]


def event_columns(shape: LogShape) -> list[str]:
    """The columns of the values that are wanted impression by impression."""
    return [event_name(i) for i in range(len(shape.events))]


LOGGED = (
    "unit_id",
    "in_period",
    "day",
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
"""Columns of every impression, beside scores, components, segments and the log's own."""


def _counted(sql: str) -> str:
    # Rows set aside are cells of their own, of which nothing but their number is read.
    return sql if never_fails(sql) else f"case when counts then {sql} else 0 end"


def _reads_category(shape: LogShape) -> bool:
    """Whether an expression reads the category; else only impressions that are kept look it up."""
    return any(quoted("category") in sql for sql in (*shape.components, *shape.segments.values()))


def clicks_view(source: ClickLog, clicks: LogColumns, engine: Engine, join: list[str]) -> str:
    """Clicks under canonical names, exact duplicates once with how often they stand."""
    every = ", ".join(quoted(column) for column in clicks.types)
    copies = quoted(clicks.unused("copies"))
    return f"""
    with once as (select {every}, count(*) as {copies} from raw_clicks group by {every})
    select
      {copies} as copies, {_time_ms(clicks, source, engine)} as time_ms,
      {_dwell_ms(clicks, source)} as dwell_ms, {", ".join(click_keys(clicks, join))}
    from once
    """


def items_view(items: LogColumns) -> str:
    """One row an item of the catalogue, the first category where it is listed twice."""
    return f"""
    select {_column(items, "item_id")} as item_id, min({_text(items, "category")}) as category
    from raw_items where {_column(items, "item_id")} is not null group by 1
    """


def exposures_view(source: LogSource, exposures: LogColumns, engine: Engine) -> str:
    """Exposures under canonical names."""
    return f"""
    select {_column(exposures, "unit_id")} as unit_id,
      {_time_ms(exposures, source, engine)} as time_ms, {_text(exposures, "variant")} as variant
    from raw_exposures where {_column(exposures, "unit_id")} is not null
    """


def click_keys(log: LogColumns, join: list[str]) -> list[str]:
    """The columns that tie a click to its impression, always three; unused ones are zero."""
    named = [_column(log, column) for column in join]
    padded = named + ["0"] * (len(CLICK_KEYS) - len(named))
    return [f"{sql} as {key}" for sql, key in zip(padded, CLICK_KEYS, strict=True)]


def _column(log: LogColumns, canonical: str) -> str:
    return quoted(log.mapped[canonical]) if canonical in log else "cast(null as bigint)"


def _text(log: LogColumns, canonical: str) -> str:
    column = quoted(log.mapped[canonical]) if canonical in log else "null"
    return f"cast({column} as varchar)"


def _unit(experiment: Experiment, log: LogColumns) -> str:
    if experiment.unit != ROW_UNIT:
        return _column(log, "unit_id")
    return _column(log, "impression_id") if "impression_id" in log else "row_number() over ()"


def _time_ms(log: LogColumns, source: LogSource, engine: Engine) -> str:
    if "ts" not in log:
        return "cast(null as bigint)"
    column = quoted(log.mapped["ts"])
    if source.time_unit is not None:
        # A number too large to be a time is none; it must not stop the run.
        number = f"case when {column} between -9e15 and 9e15 then cast({column} as bigint) end"
        if source.time_unit in ("us", "ns"):
            number = f"cast({column} as bigint)"
        return f"{number} {_TO_MILLISECONDS[source.time_unit]}"
    return engine.epoch_ms(f"cast({column} as timestamp)")


def _own(log: LogColumns, column: str) -> str:
    """A fraction as a double: of decimals and 32-bit floats engines keep other digits."""
    kind = next((t for name, t in log.types.items() if name.lower() == column.lower()), "")
    is_fraction = kind == "FLOAT" or (kind.startswith("DECIMAL") and not kind.endswith(",0)"))
    return f"cast({quoted(column)} as double)" if is_fraction else quoted(column)


def _position(log: LogColumns, source: ImpressionLog) -> str:
    if "position" not in log:
        return "cast(null as bigint)"
    column = quoted(log.mapped["position"])
    whole = f"case when abs({column}) < 1e15 then cast({column} as bigint) end"
    return f"{whole} + {1 - source.first_position}"


def _click(log: LogColumns) -> str:
    if "click" not in log:
        return "0"
    if log.type_of("click") in _INTEGERS:
        return f"case when {quoted(log.mapped['click'])} > 0 then 1 else 0 end"
    # NaN, which some engines order above every number, is no click.
    value = f"cast({quoted(log.mapped['click'])} as double)"
    return f"case when {value} > 0 and {value} < 1e300 then 1 else 0 end"


def _dwell_ms(log: LogColumns, source: ImpressionLog | ClickLog) -> str:
    """Whole milliseconds; a negative dwell is unknown."""
    if "dwell" not in log:
        return "cast(null as bigint)"
    factor = 1000 if source.dwell_unit == "s" else 1
    column = quoted(log.mapped["dwell"])
    if log.type_of("dwell") in _INTEGERS:
        return (
            f"case when {column} between 0 and {10**15 // factor} "
            f"then cast({column} as bigint) * {factor} end"
        )
    value = f"cast({column} as double) * {factor}"
    return f"case when {value} between 0 and 1e15 then cast(round({value}) as bigint) end"


def _propensity(log: LogColumns) -> str:
    """As logged: what is no probability is refused where it is read, never mended."""
    column = quoted(log.mapped["propensity"]) if "propensity" in log else "null"
    return f"cast({column} as double)"


def _score(column: str) -> str:
    """A finite double, or null."""
    value = f"cast({quoted(column)} as double)"
    return f"case when abs({value}) < 1e300 then {value} end"


def _phase(experiment: Experiment) -> str:
    """In the period, before it, outside both, or at no known time; each a small number."""
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
    """The first reason that applies to unit_id, phase and variant, or null where they count."""
    reasons = [
        ("unit_id is null", "null_unit"),
        (f"phase = {NO_TIME}", "null_time"),
        (f"phase = {OUTSIDE}", "outside_period"),
    ]
    if shape.names_variant and experiment.assignment is None and shape.exposures is None:
        known = ", ".join(literal(name) for name in experiment.variants)
        reasons += [
            (f"phase = {IN_PERIOD} and variant is null", "null_variant"),
            (f"phase = {IN_PERIOD} and variant not in ({known})", "unknown_variant"),
        ]
    cases = " ".join(f"when {test} then {literal(reason)}" for test, reason in reasons)
    return f"case {cases} end"


def cells_view(
    experiment: Experiment,
    shape: LogShape,
    summed: str = "logged_sums",
    closed: str | None = None,
) -> str:
    """The cells of the log with the reason where their impressions are set aside.

    A cell of the relation `summed` is of one day and one variant. One of `closed`, where there are
    any, stands for all closed days of a unit: it has no day, the number and the first of its days,
    all its variants between `variant_low` and `variant_high`, and the variant and segments of its
    first impression.
    """
    sums = [component_name(i) for i in range(len(shape.components))]
    names = [quoted(f"s_{name}") for name in shape.segments]
    segments = [f"coalesce({name}, '') as {name}" for name in names]
    reason = set_aside(experiment, shape)
    of_days = f"""
    select unit_id, phase = {IN_PERIOD} as in_period, day, day as first_day, 0 as closed_days,
      variant, variant as variant_low, variant as variant_high, first_ms, last_ms,
      {", ".join([*segments, *sums])},
      coalesce({reason}, case when not is_exposed then 'not_exposed' end) as set_aside
    from {summed}
    """
    if closed is None:
        return of_days
    listed = ", ".join([*CELL, *names, *sums, "set_aside"])
    return f"{of_days} union all select {listed} from {closed}"


CELL = (
    "unit_id",
    "in_period",
    "day",
    "first_day",
    "closed_days",
    "variant",
    "variant_low",
    "variant_high",
    "first_ms",
    "last_ms",
)
"""Columns of a cell, beside segments, sums and set_aside."""


def _clicked(shape: LogShape) -> str:
    if shape.clicks is None:
        return "own_click as click, own_dwell_ms as dwell_seen"
    dwell = "a.dwell_ms" if "dwell" in shape.clicks else "own_dwell_ms"
    return f"case when a.clicks is null then 0 else 1 end as click, {dwell} as dwell_seen"


def _click_join(shape: LogShape) -> str:
    if shape.clicks is None:
        return ""
    return "left join attributed a on " + " and ".join(f"i.{k} = a.{k}" for k in CLICK_KEYS)


def _category(shape: LogShape) -> str:
    return "coalesce(i.own_category, t.category)" if shape.has_item_categories else "i.own_category"


def _item_join(shape: LogShape) -> str:
    return "left join items t on i.item_id = t.item_id" if shape.has_item_categories else ""


def _exposure_join(shape: LogShape) -> str:
    return "left join exposed e on i.unit_id = e.unit_id" if shape.exposures is not None else ""


def _is_exposed(shape: LogShape) -> str:
    """Whether the unit had been exposed, where a log says when units were."""
    if shape.exposures is None:
        return "true"
    before = "in_period and i.time_ms < e.first_ms"
    return f"e.unit_id is not null and not coalesce({before}, false)"
