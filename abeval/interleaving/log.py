"""Read a log of interleaved lists: each unit's credit to each ranker.

Clicks, dwell, duplicates, the period and the rows that count are defined as in any analysis
(`logs/prepare.py`). The rankers stand for variants, but all units see all of them. The counts of
rows are by variant, so each unit is given to one ranker there, by a hash.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.audits import audit_sums
from abeval.aggregates.collect import count_units_by_variant
from abeval.engines.sql import Engine, fetch_int, literal, query, quote, read_int, write_case
from abeval.errors import ExperimentError, LogError
from abeval.experiment.metrics import IMPRESSIONS, find_metrics_by_name, list_available_metrics
from abeval.experiment.model import AssignmentRule, Experiment
from abeval.experiment.sections import Interleaving
from abeval.logs import accounting
from abeval.logs.mapping import name_raw_column
from abeval.logs.prepare import Prepared, name_outcome_relation, prepare
from abeval.logs.run import Run
from abeval.logs.shape import LogSchema
from abeval.metrics.definition import UNIT_DAY, Metric, RowTerm, RowValue, list_scales
from abeval.stats.interleaving import Wins, weigh_positions
from abeval.stats.records import Floats

_CLICKS, _DWELL = "clicks_per_user", "dwell_per_user"

_DRAFTS = ("team_draft", "balanced")
"""Methods that balance places; the others balance credit."""

_SAMPLE = 20_000
"""Lists that are drafted again, chosen by their hash."""

# Weighted credit is rounded to 1 / `_STEPS`, so that sums are exact.
_STEPS = 1_000_000

_FOREVER = 10**15


@dataclass(frozen=True)
class InterleavedLog:
    """The lists of a log; arrays have the shape (units, rankers).

    Attributes:
        metrics: Metrics whose actions can be credited, including clicks.
        credit: Metric → credit of each unit's actions for each ranker.
        actions: Metric → sum of each unit's actions, whatever ranker the items are credited to.
        drafted: Per unit and team: its number of `slots`, how many of them are `first`, the sum of
            their positions as `places`, and as `length` the sum of the lengths of lists that the
            team begins.
        list_wins: Metric, base and ranker → number of lists won. Metrics of events after the list
            have no entry.
        counts: Numbers of `lists`; of `repeats`, lists that show an item twice; of `holes`, lists
            without positions 1, 2, …; of lists drafted `again` to check them, and of those that
            came out `wrong`; of impressions `shown`, `alike` for all rankers (credited to none),
            `teamless` and `requestless`.
        aggregates: Counts of rows, days and audits, for the checks of the log.
        refused: Metric → what the log lacks to compute it.
    """

    rankers: Sequence[str]
    metrics: Sequence[Metric]
    credit: Mapping[str, Floats]
    actions: Mapping[str, Floats]
    drafted: Mapping[str, Floats]
    list_wins: Mapping[tuple[str, str, str], Wins]
    counts: Mapping[str, int]
    aggregates: Aggregates
    refused: Mapping[str, Sequence[str]]


def deal_units(experiment: Experiment) -> Experiment:
    """Deal units to the rankers by hash, so that the logs can be read."""
    rule = AssignmentRule(salt=experiment.salt)
    trust = experiment.trust.model_copy(update={"aa_runs": 0})
    changes = {"interleaving": None, "assignment": rule, "trust": trust}
    return experiment.model_copy(update=changes)


def read_lists(run: Run, settings: Interleaving) -> InterleavedLog:
    """Read the credit of each ranker from the lists of a dealt experiment.

    Raises:
        LogError: The impressions have no request or position, or have a variant column.
        ExperimentError: A metric has nothing that can be credited.
    """
    engine, rankers = run.engine, [run.experiment.control, *run.experiment.treatments]
    metrics = [*_select_credited(run.experiment)]
    named = settings.team, settings.credit, *settings.ranks.values()
    columns = [column for column in named if column is not None]
    prepared = prepare(run, metrics, columns)
    accounting.check_some_left(run.experiment, prepared, engine)
    schema = prepared.schema
    _check(schema, settings)
    has = schema.needs_met(run.experiment.unit)
    refused = {m.name: sorted(m.needs - has) for m in metrics if not m.needs <= has}
    metrics = [metric for metric in metrics if metric.name not in refused]
    if not metrics:
        raise LogError("the impressions have no clicks to credit", schema.impressions.columns_hint)
    # Of a file without metrics nobody asked for dwell.
    refused = refused if run.experiment.metrics else {}
    run.step("credit")
    of_rows = [metric for metric in metrics if metric.per_unit is None]
    # Rows are numbered for events only: it takes a sort.
    numbered = of_rows != metrics
    engine.table("interleaved", _write_list_impressions(run, settings, schema, of_rows, numbered))
    weight, per_step = _weight(engine, settings)
    sums = _sum_credit(
        engine, rankers, prepared, _write_impression_credit(of_rows, settings, weight)
    )
    credit = {m.name: sums[f"v_{i}"] * list_scales(m)[0] * per_step for i, m in enumerate(of_rows)}
    actions = {m.name: sums[f"v_all_{i}"] * list_scales(m)[0] for i, m in enumerate(of_rows)}
    list_wins = _list_wins(engine, rankers, of_rows)
    for metric in (metric for metric in metrics if metric.per_unit is not None):
        events = _sum_credit(
            engine, rankers, prepared, _write_event_credit(engine, metric, schema, weight)
        )
        credit[metric.name] = events["v_0"] * list_scales(metric)[0] * per_step
        actions[metric.name] = events["v_all_0"] * list_scales(metric)[0]
    (row,) = engine.rows(query("interleaving/lists"))
    names = ("lists", "shown", "repeats", "holes", "alike", "teamless")
    counts = dict(zip(names, map(read_int, row), strict=True))
    requestless = "select count(*) from impressions where in_period and request_id is null"
    counts["requestless"] = fetch_int(engine, requestless)
    counts["again"], counts["wrong"] = _count_redrafted(engine, settings, rankers, counts["lists"])
    drafted = {name: sums[f"v_{name}"] for name in ("slots", "first", "places", "length")}
    return InterleavedLog(
        rankers=rankers,
        metrics=metrics,
        credit=credit,
        actions=actions,
        drafted=drafted,
        list_wins=list_wins,
        counts=counts,
        aggregates=_collect_aggregates(run, prepared),
        refused=refused,
    )


def _select_credited(experiment: Experiment) -> Iterator[Metric]:
    """Yield the metrics to credit: the file's metrics, and clicks."""
    by_name, chosen = list_available_metrics(experiment), find_metrics_by_name(experiment)
    if not experiment.metrics:
        chosen = [by_name[name] for name in (_CLICKS, _DWELL)]
    if not any(metric.role == "goal" for metric in chosen):
        chosen = [replace(m, role="goal") if m.name == _CLICKS else m for m in chosen]
        by_name[_CLICKS] = replace(by_name[_CLICKS], role="goal")
    names = [metric.name for metric in chosen]
    yield from [] if _CLICKS in names else [by_name[_CLICKS]]
    for metric in chosen:
        per_unit, is_sum = metric.per_unit, metric.kind == "mean" and metric.presence_terms is None
        if per_unit is not None and is_sum and len(per_unit.values) == 1 and per_unit.day is None:
            (value,) = per_unit.values
            if value.log != IMPRESSIONS and value.combine in ("any", "sum"):
                # By its item an event belongs to an impression.
                item = RowValue(value.log, "item_id", "count_distinct")
                yield replace(metric, per_unit=replace(per_unit, values=(value, item)))
                continue
        if not (is_sum and metric.source is UNIT_DAY and isinstance(metric.value, RowTerm)):
            raise ExperimentError(
                f"metric {metric.name!r} has nothing to credit a ranker with: {metric.formula}",
                "name sums over impressions, such as clicks_per_user, dwell_per_user or your own "
                '`value`; or events of a log with an item_id, such as log = "orders"',
            )
        yield metric


def _check(schema: LogSchema, settings: Interleaving) -> None:
    log = schema.impressions
    for name in (name for name in ("request_id", "position") if name not in log):
        what = f"interleaved lists need each impression's {name}, which the log does not have"
        raise LogError(what, f'map it: columns = {{ {name} = "..." }}; {log.columns_hint}')
    if schema.names_variant:
        raise LogError(
            "the impressions have a variant, but in interleaved lists units see all rankers",
            'the ranker of an item is [interleaving] team; leave the column out: query = "select * '
            f'exclude ({log.mapped["variant"]}) from log"',
        )


def _write_list_impressions(
    run: Run, settings: Interleaving, schema: LogSchema, metrics: Sequence[Metric], numbered: bool
) -> str:
    """Return the SQL of listed impressions with team, credit and agreement."""
    rankers = [run.experiment.control, *run.experiment.treatments]
    row_id = "row_number() over (order by unit_id, request_id, position, item)" if numbered else "0"
    first = 1 - run.experiment.logs.rows.first_position
    columns = [settings.ranks[name] for name in rankers if settings.ranks]
    ranks = [f"cast({quote(name_raw_column(name))} as bigint) + {first}" for name in columns]
    logged, credit = (c and quote(name_raw_column(c)) for c in (settings.team, settings.credit))
    columns = [
        *([] if logged is None else [f"cast({logged} as varchar) as own_team"]),
        *(f"{sql} as r_{i}" for i, sql in enumerate(ranks)),
        *(f"{schema.component(m.value, '')} as v_{i}" for i, m in enumerate(metrics) if m.value),
        f"{'1.0e0' if credit is None else credit} as credit",
    ]
    team = write_case(
        f"({_write_team(run.engine, settings, rankers)})", {n: literal(n) for n in rankers}
    )
    same = " and ".join(f"r_{i} = position" for i in range(len(ranks))) or "false"
    # Only items that all agree on from the top: further below, which of two items comes first
    # depends on the draft, and leaving one of them out would favour a ranker.
    return f"""
    with shown as (
      select unit_id, request_id, item_id, cast(item_id as varchar) as item, position, time_ms,
        click, {", ".join(columns)}
      from impressions
      where in_period and request_id is not null
    ),
    drafted as (
      select *, {team} as team, case when {same} then 1 else 0 end as same,
        count(*) over (partition by unit_id, request_id) as length,
        {row_id} as row_id
      from shown
    )
    select *,
      min(same) over (
        partition by unit_id, request_id order by position
        rows between unbounded preceding and current row
      ) = 1 as alike
    from drafted
    """


def _write_team(engine: Engine, settings: Interleaving, rankers: Sequence[str]) -> str:
    """Return the SQL of an item's ranker: as logged, else by the rule."""
    if settings.team is not None:
        return "own_team"
    if settings.method == "balanced":
        less, more = (f"coalesce(r_{i}, {_FOREVER})" for i in range(2))
        first, second = map(literal, rankers)
        return f"case when {less} < {more} then {first} when {more} < {less} then {second} end"
    return _turn(engine, settings, rankers)


def _turn(engine: Engine, settings: Interleaving, rankers: Sequence[str]) -> str:
    """Return the SQL of whose turn a position of a team draft is."""
    size = len(rankers)
    number = f"cast((position - 1) // {size} + 1 as varchar)"
    request = f"cast(request_id as varchar) || ':' || {number}"
    salt = settings.salt or ""
    draws = [engine.hash60(salt, f"{request} || {literal(':' + n)}") for n in rankers]
    turn = ""
    for name, draw in zip(rankers, draws, strict=True):
        before = " + ".join(f"case when {o} < {draw} then 1 else 0 end" for o in draws if o != draw)
        turn += f"when {before} = (position - 1) % {size} then {literal(name)} "
    return f"case {turn} end"


def _weight(engine: Engine, settings: Interleaving) -> tuple[str, float]:
    """Return the SQL of one action's weight, and the value of a step."""
    factors = [] if settings.credit is None else ["coalesce(credit, 0)"]
    if settings.debias:
        table = engine.arrays(query("interleaving/places"))
        clicks, shown = np.ma.filled(table["clicks"], 0), np.asarray(table["shown"])
        weights = weigh_positions(clicks, shown).tolist()
        bias = zip(np.asarray(table["position"]).tolist(), weights, strict=True)
        cases = " ".join(f"when {position} then {weight!r}" for position, weight in bias)
        factors.append(f"case position {cases} else 0 end" if cases else "0")
    return " * ".join(factors), (1 / _STEPS if factors else 1.0)


def _write_impression_credit(metrics: Sequence[Metric], settings: Interleaving, weight: str) -> str:
    """Return the SQL of each impression's credit and of the draft."""
    worth = [f"v_{i}" for i in range(len(metrics))]
    # A draft balances places; what other methods balance is credit.
    slot = "1"
    if settings.method not in _DRAFTS:
        slot = f"cast(round(coalesce(credit, 0) * {_STEPS}) as bigint)"
    columns = [
        *(f"case when alike then 0 else {_round_credit(v, weight)} end as {v}" for v in worth),
        *(f"{column} as v_all_{i}" for i, column in enumerate(worth)),
        f"{slot} as v_slots",
        f"case when position = 1 then {slot} else 0 end as v_first",
        f"coalesce(position, 0) * {slot} as v_places",
        "case when position = 1 then length else 0 end as v_length",
    ]
    return f"select unit_id, request_id, team, {', '.join(columns)} from interleaved"


def _round_credit(value: str, weight: str) -> str:
    return f"cast(round({value} * {_STEPS} * {weight}) as bigint)" if weight else value


def _sum_credit(
    engine: Engine, rankers: Sequence[str], prepared: Prepared, credited: str
) -> dict[str, Floats]:
    """Sum credit by unit and ranker; columns v_all_ by unit."""
    engine.view("credited", credited)
    table = engine.arrays(query("interleaving/unit_credits"))
    unit = np.asarray(table["unit_id"], dtype=np.int64)
    # Column 0 collects the credit of items without a team.
    index = {name: i for i, name in enumerate(("", *rankers))}
    team = np.array([index[str(name)] for name in table["team"]], dtype=np.int64)
    shape = len(prepared.assignment.units.hash), len(index)
    sums = {}
    for name, column in table.items():
        if name.startswith("v_"):
            values = np.zeros(shape)
            values[unit, team] = np.ma.filled(column, 0)
            sums[name] = values.sum(axis=1) if name.startswith("v_all_") else values[:, 1:]
    return sums


def _list_wins(
    engine: Engine, rankers: Sequence[str], metrics: Sequence[Metric]
) -> dict[tuple[str, str, str], Wins]:
    """Count lists by the ranker with more credit, by metric and pair."""
    pairs = [*product(enumerate(metrics), combinations(rankers, 2))]
    nets, counts = [], []
    for number, ((i, _), (base, ranker)) in enumerate(pairs):
        sides = f"when {literal(ranker)} then v_{i} when {literal(base)} then -v_{i}"
        nets.append(f"sum(case team {sides} else 0 end) as net_{number}")
        counts += [f"count(case when net_{number} {side} 0 then 1 end)" for side in "<>="]
    lists = f"select {', '.join(nets)} from credited group by unit_id, request_id"
    (row,) = engine.rows(f"select {', '.join(counts)} from ({lists}) as lists") if pairs else ((),)
    triples = zip(*[map(read_int, row)] * 3, strict=True)
    return {(m.name, *pair): Wins(*won) for ((_, m), pair), won in zip(pairs, triples, strict=True)}


def _write_event_credit(engine: Engine, metric: Metric, schema: LogSchema, weight: str) -> str:
    """Credit events to the unit's last impression of the item before them."""
    per_unit = metric.per_unit
    values = () if per_unit is None else per_unit.values
    value, item = (schema.row_value(row_value) for row_value in values)
    within = _FOREVER if per_unit is None or per_unit.within_ms is None else per_unit.within_ms
    engine.view("span", f"select cast({within} as bigint) as ms")
    engine.table(
        "interleaved_events",
        "select row_number() over (order by unit_id, time_ms, item, v_0) as event_id, * "
        f"from (select unit_id, cast({item} as varchar) as item, time_ms, "
        f"cast({value} as bigint) as v_0 from {name_outcome_relation(values[0].log)} "
        f"where set_aside is null and in_period and {value} is not null and {item} is not null"
        ") as events",
    )
    engine.table("interleaved_touched", query("interleaving/touched"))
    return (
        "select i.unit_id, i.team, e.v_0 as v_all_0, "
        f"case when alike then 0 else {_round_credit('e.v_0', weight)} end as v_0 "
        "from interleaved_touched t join interleaved_events e on t.event_id = e.event_id "
        "join interleaved i on t.row_id = i.row_id"
    )


def _count_redrafted(
    engine: Engine, settings: Interleaving, rankers: Sequence[str], lists: int
) -> tuple[int, int]:
    """Redraft a sample of lists: return how many, and how many differ.

    In each place, the team whose turn it is drafts its best item that is left.
    """
    if settings.method != "team_draft" or settings.salt is None or settings.team is None:
        return 0, 0
    wrong = f"coalesce(team, '') <> {_turn(engine, settings, rankers)}"
    for i, name in enumerate(rankers if settings.ranks else ()):
        left = f"min(r_{i}) over (partition by unit_id, request_id order by position desc)"
        wrong += f" or (team = {literal(name)} and coalesce(r_{i}, 0) <> coalesce({left}, 0))"
    number = engine.hash60("sample", "cast(request_id as varchar)")
    positions = (
        f"select unit_id, request_id, case when {wrong} then 1 else 0 end as wrong "
        f"from interleaved where position is not null and {number} % {max(lists, 1)} < {_SAMPLE}"
    )
    by_list = f"select max(wrong) as wrong from ({positions}) as p group by unit_id, request_id"
    (row,) = engine.rows(f"select count(*), coalesce(sum(wrong), 0) from ({by_list}) as lists")
    return read_int(row[0]), read_int(row[1])


def _collect_aggregates(run: Run, prepared: Prepared) -> Aggregates:
    counted = accounting.count_log_rows(prepared, run.engine)
    accounting.check_all_counted(prepared, counted)
    return Aggregates(
        units=count_units_by_variant(run.experiment, prepared.assignment.units),
        row_counts=counted,
        days=accounting.list_days(prepared),
        facts=accounting.count_facts(prepared),
        notes=prepared.notes,
        **audit_sums(run, prepared)._asdict(),
    )
