"""Write SQL of the canonical views of an experiment's logs.

`queries/` reads nothing else.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from abeval.engines.builders import has_whole_hours
from abeval.engines.sources import name_relation
from abeval.engines.sql import Engine, literal, query, quote
from abeval.experiment.model import Experiment
from abeval.experiment.sources import OUTCOME, ROW_UNIT, ClickLog
from abeval.logs.cells import BEFORE
from abeval.logs.columns import (
    name_copies_column,
    write_cast,
    write_click,
    write_click_keys,
    write_column,
    write_distinct_rows,
    write_dwell_ms,
    write_own_columns,
    write_position,
    write_score,
    write_time_ms,
    write_timestamp,
    write_valid_time,
    write_variant,
)
from abeval.logs.mapping import (
    CLICK_KEYS,
    SERVED_FLAGS,
    LogColumns,
    name_raw_column,
    tells_events_apart,
)
from abeval.logs.shape import (
    SCORE_COLUMNS,
    UNIT_COLUMNS,
    ComputedColumns,
    LogSchema,
    list_own_columns,
    write_texts,
    write_view_expression,
)
from abeval.metrics.row_text import never_fails

ITEM_GROUPS = 64
"""Number of groups of sub-buckets for catalogue metrics, with a row per item and group."""


def write_experiment_view(experiment: Experiment) -> str:
    """Write one row of the settings that queries read."""
    clicks, turns = experiment.logs.clicks, experiment.switchback
    attribution = "null" if clicks is None else round(clicks.attribution_hours * 3_600_000)
    return f"""
    select
      cast({round(experiment.sessions.gap_minutes * 60_000)} as bigint) as session_gap_ms,
      cast({attribution} as bigint) as attribution_ms,
      cast({ITEM_GROUPS} as bigint) as item_groups,
      cast({"null" if turns is None else turns.slot_ms} as bigint) as slot_ms,
      cast({"null" if turns is None else turns.burn_in_ms} as bigint) as burn_in_ms
    """


def write_periods_view(experiment: Experiment) -> str:
    """Write one row of the local bounds of period and pre-period, or null."""
    columns = list[str]()
    for name, period in (("period", experiment.period), ("before", experiment.pre_period)):
        for edge, bound in zip(
            ("start", "end"), period.bounds if period else (None, None), strict=True
        ):
            text = "null" if bound is None else literal(str(bound).removesuffix(" 00:00:00"))
            columns.append(f"cast({text} as timestamp) as {name}_{edge}")
    return f"select {', '.join(columns)}"


def write_impressions_view(
    experiment: Experiment, schema: LogSchema, engine: Engine, join: Sequence[str]
) -> str:
    """Write every impression under canonical names, with local time and hour.

    In a switchback also with cluster and slot, of which `1_log/switched` makes units.
    """
    log, source, zone = schema.impressions, experiment.logs.rows, experiment.timezone
    unit, time = write_column(log, "unit_id"), write_valid_time(experiment, log)
    if experiment.unit == ROW_UNIT:
        has_id = "impression_id" in log
        unit = write_column(log, "impression_id") if has_id else "row_number() over ()"
    ms, turns = write_time_ms(log, engine, time), experiment.switchback
    columns = [
        f"{unit if turns is None else literal('')} as unit_id",
        f"{ms} as time_ms",
        f"{time} as own_ts",
        *(f"{write_column(log, n)} as {n}" for n in ("impression_id", "request_id", "item_id")),
        f"{write_variant(experiment, write_cast(log, 'variant', 'varchar'))} as variant",
        f"{write_position(log, source)} as position",
        f"{write_cast(log, 'category', 'varchar')} as own_category",
        f"{write_click(log)} as own_click",
        f"{write_dwell_ms(log, source)} as own_dwell_ms",
        f"{write_cast(log, 'propensity', 'double')} as propensity",
        *(f"{write_cast(log, n, 'double')} as {n}" for n in SERVED_FLAGS if n in log),
        *(
            f"{write_score(quote(text))} as {name}"
            for text, name in schema.scores.items()
            if text not in schema.blends
        ),
        *write_own_columns(log, schema.kept_columns),
        *write_click_keys(log, join, ms if "unit_id" in join else "0"),
    ]
    # What is local already needs no conversion, which is much faster.
    is_local = log.find_type("ts") == "TIMESTAMP" and (source.ts_zone or "UTC") == zone
    timed, rows = "", "named"
    if is_local:
        columns.append(f"{time} as ts")
    else:
        # A DATE is a local day already; converting it could move it.
        ts = engine.local_time("time_ms", "UTC" if log.find_type("ts") == "DATE" else zone)
        timed, rows = f", timed as (select *, {ts} as ts from named)", "timed"
    slots = list[str]()
    if turns is not None:
        start = 0 if experiment.period is None else experiment.period.bounds[0]
        first = start and engine.epoch_ms(f"timestamp {literal(str(start))}")
        at = f"({engine.epoch_ms('ts')} - {first})"
        number = f"cast(floor({at} / {turns.slot_ms}.0e0) as bigint)"
        since = f"{at} - {turns.slot_ms} * {number} as since_ms"
        slots = [f"{schema.segments['design.cluster']} as cluster", f"{number} as slot", since]
    derived = [
        f"{_write_hour(experiment, log, engine)} as hour_ts",
        *slots,
        *_write_blended_scores(schema),
        write_not_compared(experiment, schema),
    ]
    return f"""
    with named as (select {", ".join(columns)} from kept_impressions){timed}
    select *, {", ".join(derived)}
    from {rows}
    """


def _write_blended_scores(schema: LogSchema) -> list[str]:
    """Write the scores that are expressions, over canonical columns."""
    # The category of an item log comes later.
    as_named = {"category": "own_category"}
    sql = {t: write_view_expression(t, None, SCORE_COLUMNS, as_named) for t in schema.blends}
    return [f"{write_score(f'({sql[text]})')} as {name}" for text, name in schema.blends.items()]


def _is_counted_in_utc(experiment: Experiment, log: LogColumns) -> bool:
    """Tell whether hours are first counted in UTC, and then become local."""
    # Converting each hour of a unit, not each impression, takes a third off the pass over the log.
    bounds = _list_period_bounds(experiment)
    is_converted = log.find_type("ts") != "DATE" and log.source.ts_zone in (None, "UTC")
    return bool(bounds) and is_converted and has_whole_hours(experiment.timezone, *bounds)


def _list_period_bounds(experiment: Experiment) -> list[datetime]:
    """List the local times at which periods begin or end."""
    periods = (experiment.period, experiment.pre_period)
    return sorted({bound for period in periods if period is not None for bound in period.bounds})


def _write_hour(experiment: Experiment, log: LogColumns, engine: Engine) -> str:
    """Write the hour of an impression, in UTC or local."""
    if _is_counted_in_utc(experiment, log):
        utc = engine.local_time("time_ms", "UTC")
        is_number = log.source.time_unit is not None
        return f"date_trunc('hour', {utc if is_number else write_timestamp(log, 'own_ts')})"
    hour = "date_trunc('hour', ts)"
    for bound in _list_period_bounds(experiment):
        if bound.minute or bound.second or bound.microsecond:
            time = f"timestamp {literal(str(bound))}"
            # A bound of the period within an hour divides it, so that no cell is in two phases.
            hour = f"case when ts >= {time} then greatest({hour}, {time}) else {hour} end"
    return hour


def write_sums_view(experiment: Experiment, schema: LogSchema, engine: Engine) -> str:
    """Write the sums of the log with their local hour."""
    log, ts = schema.impressions, "hour_ts"
    if _is_counted_in_utc(experiment, log):
        ts = engine.local_time(engine.epoch_ms("hour_ts"), experiment.timezone)
    first, last = (write_time_ms(log, engine, name) for name in ("first_ts", "last_ts"))
    segments = [quote(f"s_{name}") for name in schema.segments]
    exposed = "true" if schema.exposures is None else "is_exposed"
    slot = quote(f"s_{_PART}")
    aside = "null"
    if experiment.switchback is not None:
        aside = f"case when {slot} in ('no_cluster', 'mixed_slot', 'burn_in') then {slot} end"
    columns = [
        *("unit_id", "variant", *segments, *schema.components.values()),
        f"{exposed} as is_exposed",
        f"{ts} as ts",
        f"{first} as first_ms",
        f"{last} as last_ms",
        write_not_compared(experiment, schema),
        f"cast({aside} as varchar) as slot_aside",
    ]
    hour = engine.epoch_ms("date_trunc('hour', ts)")
    return f"""
    with timed as (
      select {", ".join(columns)} from logged_sums
    )
    select *, {hour} // 3600000 as hour from timed
    """


def write_not_compared(experiment: Experiment, schema: LogSchema) -> str:
    """Write why the variant of a row is not compared, null if it is."""
    if not schema.names_variant or experiment.assigns or schema.exposures is not None:
        return "cast(null as varchar) as not_compared"
    variant_list = ", ".join(literal(name) for name in experiment.variants)
    return (
        "case when variant is null then 'null_variant' "
        f"when variant not in ({variant_list}) then 'not_compared' end as not_compared"
    )


_LOGGED = (
    *("unit_id", "in_period", "day", "ts", "time_ms", "variant", "request_id", "item_id"),
    *("position", "category", "click", "dwell_ms", "propensity"),
)
"""Columns of every impression, besides scores, components, segments and the log's own."""


def score_columns(schema: LogSchema) -> list[str]:
    """List the columns of the scores that variants serve."""
    return list(dict.fromkeys(schema.score_of.values()))


def _list_kept_columns(schema: LogSchema) -> list[str]:
    """List the columns of scores, and the log's own."""
    return [
        *schema.scores.values(),
        *(quote(name_raw_column(name)) for name in schema.kept_columns),
    ]


def _part_columns(schema: LogSchema) -> list[str]:
    """List the columns of segments and cuts."""
    segments = [quote(f"s_{name}") for name in schema.segments]
    return [*segments, *(quote(cut_name(name)) for name in schema.cuts)]


def cut_name(name: str) -> str:
    """Name the column of the views with the value of a cut."""
    return f"k_{name}"


def list_plain_columns(schema: LogSchema) -> list[str]:
    """List the columns of the impressions except times and sums."""
    plain = [name for name in _LOGGED if name not in ("unit_id", "ts", "variant")]
    return [*plain, *_list_kept_columns(schema)]


def write_logged_view(experiment: Experiment, schema: LogSchema) -> str:
    """Write every impression with click, dwell, components, segments and cuts.

    Components are `c_…`, segments `s_…`, cuts `k_…`. Components that could fail are computed only
    for impressions that count, and for those of units that were not exposed.
    """
    keep = experiment.logs.rows.dwell_without_click == "keep"
    dwell = "dwell_seen" if keep else "case when click = 1 then dwell_seen else 0 end"
    valid = "set_aside is null"
    segments_and_cuts = zip(
        _part_columns(schema), (*schema.segments.values(), *schema.cuts.values()), strict=True
    )
    columns = [
        *([] if schema.exposures is None else ["is_exposed"]),
        *_list_kept_columns(schema),
        *(f"{sql} as {name}" for name, sql in segments_and_cuts),
        # Rows that are set aside form cells of their own, whose number of rows alone is read.
        *(
            f"{sql if never_fails(sql) else f'case when {valid} then {sql} else 0 end'} as {name}"
            for sql, name in schema.components.items()
        ),
        *(f"case when counts then {sql} end as {name}" for sql, name in schema.events.items()),
    ]
    clicked, dwelt, click_join = "own_click", "own_dwell_ms", ""
    if schema.clicks is not None:
        clicked = "case when a.clicks is null then 0 else 1 end"
        dwelt = "a.dwell_ms" if "dwell" in schema.clicks else "own_dwell_ms"
        same = " and ".join(f"i.{key} = a.{key}" for key in CLICK_KEYS)
        click_join = f"left join attributed a on {same}"
    exposed, exposure_join, counts = [], "", "set_aside is null"
    if schema.exposures is not None:
        exposure_join = "left join exposed e on i.unit_id = e.unit_id"
        before = "in_period and i.time_ms < e.first_ms"
        exposed = [f"e.unit_id is not null and not coalesce({before}, false) as is_exposed"]
        counts += " and is_exposed"
    category, item_join = _write_category(schema, _reads_category(schema))
    return f"""
    with joined as (
      select i.*, {category.format("own_category")} as category, {clicked} as click,
        {", ".join([f"{dwelt} as dwell_seen", *exposed])}
      from seen i {click_join} {item_join} {exposure_join}
    ),
    clicked as (select *, {dwell} as dwell_ms from joined),
    dwelt as (
      select *, dwell_ms / 1000.0e0 as dwell, {counts} as counts
      from clicked
    )
    select phase, counts, hour_ts, own_ts, {", ".join([*_LOGGED, *columns])}
    from dwelt
    """


def write_analysed_view(schema: LogSchema) -> str:
    """Write the impressions of analysed units, by their number in `unit_names`."""
    logged_columns = [f"i.{name}" for name in _LOGGED if name not in ("unit_id", "category")]
    computed = [*_part_columns(schema), *schema.components.values(), *schema.events.values()]
    category, item_join = _write_category(schema, not _reads_category(schema))
    return f"""
    select n.unit_id, {category.format("category")} as category,
      {", ".join([*logged_columns, *_list_kept_columns(schema), *computed])}
    from logged i join unit_names n on i.unit_id = n.logged_id {item_join}
    where i.counts
    """


def _reads_category(schema: LogSchema) -> bool:
    """Tell whether an expression reads the category."""
    # If none does, the item log is joined only to rows of analysed units.
    texts = (*schema.components, *schema.segments.values(), *schema.cuts.values())
    return any(quote("category") in sql for sql in texts)


def _write_category(schema: LogSchema, is_joined: bool) -> tuple[str, str]:
    """Write the category, and the join of the item log where it is needed."""
    if not (is_joined and schema.has_item_categories):
        return "i.{}", ""
    return "coalesce(i.{}, t.category)", "left join items t on i.item_id = t.item_id"


_PART = "design.part"
"""Segment of the part of a slot: a quarter, or why it is set aside."""


def write_clicks_view(
    source: ClickLog, log: LogColumns, engine: Engine, join: Sequence[str]
) -> str:
    """Write clicks under canonical names, exact duplicates once."""
    columns = [
        f"{name_copies_column(log)} as copies",
        f"{write_time_ms(log, engine)} as time_ms",
        f"{write_dwell_ms(log, source)} as dwell_ms",
        *write_click_keys(log, join),
    ]
    return f"""
    with once as ({write_distinct_rows(log, "raw_clicks")})
    select {", ".join(columns)} from once
    """


def write_items_view(log: LogColumns) -> str:
    """Write one row per item, with its first category by name."""
    item = write_column(log, "item_id")
    return f"""
    select {item} as item_id, min({write_cast(log, "category", "varchar")}) as category
    from raw_items where {item} is not null group by 1
    """


def write_exposures_view(experiment: Experiment, log: LogColumns, engine: Engine) -> str:
    """Write exposures under canonical names, with the segments that they tell."""
    unit, values = write_column(log, "unit_id"), experiment.known_from("exposure")
    canonical_columns = [
        f"{unit} as unit_id",
        f"{write_time_ms(log, engine)} as time_ms",
        f"{write_variant(experiment, write_cast(log, 'variant', 'varchar'))} as variant",
        *write_own_columns(log, list_own_columns([*values.values()], log, UNIT_COLUMNS)),
    ]
    segments = write_texts(values, UNIT_COLUMNS).items()
    segment_columns = [f"{sql} as {quote(f's_{name}')}" for name, sql in segments]
    return f"""
    with named as (
      select {", ".join(canonical_columns)} from raw_exposures where {unit} is not null
    )
    select {", ".join(["unit_id", "time_ms", "variant", *segment_columns])} from named
    """


def write_unit_log_view(experiment: Experiment, table: ComputedColumns) -> str:
    """Write the rows of the units' table, with one column of each kind."""
    log = table.log
    canonical_columns = [
        f"{write_column(log, 'unit_id')} as unit_id",
        f"{name_copies_column(log)} as copies",
        *write_own_columns(log, table.own_columns),
    ]
    columns = [
        # Queries read columns by prefix, which must match at least one.
        *("cast('' as varchar) as s_", "0 as u_0", "0 as v_0"),
        *(f"{sql} as {quote(f's_{name}')}" for name, sql in table.segments.items()),
        *(f"{sql} as {name}" for sql, name in (*table.covariates.items(), *table.values.items())),
    ]
    drops_duplicates = experiment.cleaning.duplicates == "drop"
    return f"""
    with once as ({write_distinct_rows(log, "raw_units", drops_duplicates)}),
    named as (select {", ".join(canonical_columns)} from once)
    select unit_id as logged_id, copies, {", ".join(columns)} from named
    """


def write_outcome_view(
    experiment: Experiment, name: str, outcome: ComputedColumns, engine: Engine
) -> str:
    """Write the rows of an outcome log under canonical names, with their worth."""
    log, raw = outcome.log, name_relation("raw", OUTCOME + name)
    time = write_valid_time(experiment, log)
    ms, ts = write_time_ms(log, engine, time), engine.local_time("time_ms", experiment.timezone)
    own_ts = []
    # A day is at its last moment, so that it is not before the exposure of that day; on the day
    # that it names, also where that moment is not 24 hours after its first.
    end = engine.utc_time(f"cast({time} as timestamp) + interval 1 day", experiment.timezone)
    end_ms = f"{engine.epoch_ms(end)} - 1"
    if log.find_type("ts") == "DATE":
        ms, ts = end_ms, "own_ts"
        own_ts = [f"cast({time} as timestamp) as own_ts"]
    elif log.may_have_days and experiment.timezone == "UTC":
        # Of several sources, some may write days; elsewhere a midnight may be an hour of UTC.
        ms = f"case when date_trunc('day', {time}) = {time} then {end_ms} else {ms} end"
    columns = [
        f"{write_column(log, 'unit_id')} as logged_id",
        f"{name_copies_column(log)} as copies",
        f"{ms} as time_ms",
        *own_ts,
        *write_own_columns(log, outcome.own_columns),
    ]
    values = [f"{sql} as {name}" for sql, name in outcome.values.items()]
    drops_duplicates = experiment.cleaning.duplicates == "drop" and tells_events_apart(log)
    return f"""
    with once as ({write_distinct_rows(log, raw, drops_duplicates)}),
    named as (select {", ".join(columns)} from once),
    timed as (
      select *, logged_id as unit_id, {ts} as ts from named
    )
    select logged_id, copies, time_ms, ts, {", ".join(values)}
    from timed
    """


def write_entry_view(experiment: Experiment, schema: LogSchema, engine: Engine) -> str:
    """Write when each analysed unit was exposed: logged, UTC and local day."""
    log = schema.impressions if schema.exposures is None else schema.exposures
    zone, exposed = experiment.timezone, "first_ms"
    if log.find_type("ts") == "DATE":
        # The day of a DATE is local already, and begins when the local day does.
        zone = "UTC"
        start = engine.utc_time(engine.local_time("first_ms", zone), experiment.timezone)
        exposed = engine.epoch_ms(start)
    return f"""
    select unit_id, first_ms, {exposed} as exposed_ms,
      cast({engine.local_time("first_ms", zone)} as date) as entry_day
    from units
    """


_ROW_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("unit_id", "time_ms"), "bigint"),
    **dict.fromkeys(("variant", "request_id", "category", "unit_group", "item"), "varchar"),
    "in_period": "boolean",
    "score": "double",
    **dict.fromkeys(("day", "position", "click", "value"), "integer"),
}
"""Columns of `analysed_rows`, with the types of those that are not asked for."""


def write_row_steps(name: str, columns: Mapping[str, str], rows: str) -> dict[str, str]:
    """Write `analysed_rows`, and a query of `3_rows/` over them.

    `columns` is SQL of the columns that are asked for; `rows` is what follows `from`.
    """
    selected = (
        f"{columns.get(c, f'cast(null as {kind})')} as {c}" for c, kind in _ROW_COLUMNS.items()
    )
    analysed = f"select {', '.join(selected)} from {rows}"
    return {"analysed_rows": analysed, name: query(f"3_rows/{name}")}


def show_rows(engine: Engine, name: str, columns: Mapping[str, str], rows: str) -> None:
    """Create the views of `write_row_steps`."""
    for view, sql in write_row_steps(name, columns, rows).items():
        engine.view(view, sql)


def write_popularity(engine: Engine, item: str) -> None:
    """Create `item_popularity`: how often each item was shown before the period.

    `item` is SQL of an item of a row `l`.
    """
    # Units that are not analysed count too: popularity does not depend on who is compared.
    has_ids = "l.unit_id is not null and l.item_id is not null"
    sql = f"select {item} as item_id from seen l where l.phase = {BEFORE} and {has_ids}"
    popularity = engine.write_steps({"earlier_items": sql}, query("4_metrics/item_popularity"))
    engine.table("item_popularity", popularity)
