"""What the audits count in the logs, by variant: sums over groups of units, exact and small.

`collect.py` keeps them in the aggregates; `inference/trust/` compares the variants with them. Rows
of one unit come together, so units are the clusters: they are put into 64 groups by their hash, and
the variance of a share comes from the sums of the groups. A long log is audited on some of its
units, so that audits never cost more than a few million rows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from abeval.aggregates.rows import AuditSums, SeenUnits
from abeval.assignment import SUB_BUCKETS
from abeval.engines.protocol import Cell, Engine, whole, whole_number
from abeval.engines.queries import query
from abeval.engines.sql import quoted
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.audited import (
    AUDITED_NAMES,
    CLUSTERS,
    audited_units,
    audited_view,
    flags,
    places,
)
from abeval.logs.prepare import Prepared
from abeval.logs.run import Run
from abeval.logs.shape import LogShape

MOST_ROWS = 4_000_000
"""Impressions that are audited, about; of a longer log those of some of the units."""

Counts = Mapping[tuple[str, str, int], int]
"""Cell, variant and cluster → how often something was counted there."""

Totals = Mapping[tuple[str, int], int]
"""Variant and cluster → what the counts are shares of."""


def seen_in(experiment: Experiment, engine: Engine) -> list[SeenUnits]:
    """Where units were seen first and at all, and where their rule places them."""
    ruled = experiment.assignment_rule is not None
    engine.view(
        "expected_variant",
        "select unit_id, expected from expected_units"
        if ruled
        else "select unit_id, cast(null as varchar) as expected from hashed_units where false",
    )
    return [
        SeenUnits(_name(low), _name(high), _name(first), _name(expected), whole(units))
        for low, high, first, expected, units in engine.rows(query("audit/seen_in"))
    ]


def _name(cell: Cell) -> str | None:
    return None if cell is None else str(cell)


def audit_sums(run: Run, prepared: Prepared) -> list[AuditSums]:
    """Every audit that these logs allow.

    Args:
        run: The experiment, on the engine where `prepare` created its relations.
        prepared: What is known of its logs.
    """
    experiment, engine, shape = run.experiment, run.engine, prepared.shape
    if experiment.unit == ROW_UNIT or not prepared.summed.has_rows:
        return []
    run.step("audits")
    return list(_audits(experiment, engine, prepared, shape))


def _audits(
    experiment: Experiment, engine: Engine, prepared: Prepared, shape: LogShape
) -> Iterator[AuditSums]:
    chosen = flags(experiment, shape)
    has_lists = "request_id" in shape.impressions and "position" in shape.impressions
    engine.table("audited_units", audited_units(shape, _buckets(engine)))
    engine.table("audited_names", AUDITED_NAMES)
    engine.table("audited", audited_view(chosen, has_lists))
    flagged = engine.rows(query("audit/flags")) if chosen else ()
    hours, rhythm, totals = Counter[_Place](), Counter[_Place](), Counter[tuple[str, int]]()
    for variant, cluster, hour, impressions in engine.rows(query("audit/hours")):
        place, rows = (str(variant), whole(cluster)), whole(impressions)
        totals[place] += rows
        hours[str(hour), *place] += rows
        rhythm[str(whole(hour) % 24), *place] += rows
    yield from _sums("impressions", (("", name, n, 1) for (name, _), n in totals.items()))
    among = 3 + len(chosen)
    for number, flag in enumerate(chosen, start=3):
        of = 2
        if flag.among:
            of, among = among, among + 1
        yield from _sums(flag.audit, [(flag.name, row[0], row[number], row[of]) for row in flagged])
    if shape.has_time:
        yield from _shares("hour", hours, totals)
        yield from _shares("rhythm", rhythm, totals)
    if has_lists:
        yield from _of_lists(engine, shape)
    if shape.clicks is not None:
        delays = _counts(engine.rows(query("audit/click_delays")))
        yield from _shares("click_delay", delays, _totals(delays))
    if prepared.duplicates:
        yield from _of_duplicates(engine, shape, totals)
    if shape.exposures is not None:
        # Units that entered late had less time, so they are compared with those of their stretch.
        silent = engine.rows(query("audit/silent_units"))
        yield from _sums("silent", ((at, name, y, x) for name, at, _, x, y in silent))
    yield from _set_aside(experiment, engine, shape)


_Place = tuple[str, str, int]


def _buckets(engine: Engine) -> int:
    """How many of the sub-buckets of units are audited."""
    sql = "select sum(c_1) from unit_day where in_period"
    share = MOST_ROWS / max(whole_number(engine, sql), 1)
    return SUB_BUCKETS if share >= 1 else max(CLUSTERS, int(SUB_BUCKETS * share))


def _of_lists(engine: Engine, shape: LogShape) -> Iterator[AuditSums]:
    """Positions that lists lack between their first and their last: whole, by place, by segment."""
    engine.table("audited_lists", query("audit/lists"))
    engine.view("list_places", places())
    spans = [
        (str(row[0]), whole(row[1]), whole(row[2]), whole(row[3]), whole(row[4]), whole(row[5]))
        for row in engine.rows(query("audit/list_spans"))
    ]
    holes, spanned, lists = (Counter[tuple[str, int]]() for _ in range(3))
    for variant, cluster, first, last, count, lacking in spans:
        holes[variant, cluster] += lacking
        spanned[variant, cluster] += (last - first + 1) * count
        lists[variant, cluster] += count
    yield from _sums("holes", (("", key[0], holes[key], spanned[key]) for key in spanned))
    yield from _sums("list_length", (("", key[0], spanned[key], lists[key]) for key in lists))
    if not holes.total():
        return
    # Of the lists that begin before a place and go on behind it, those that lack it.
    at = {
        (whole(place), str(variant), whole(cluster)): whole(count)
        for variant, cluster, place, count in engine.rows(query("audit/list_holes"))
    }
    reaching = Counter[tuple[int, str, int]]()
    for place in {place for place, _, _ in at}:
        for variant, cluster, first, last, count, _ in spans:
            if first < place < last:
                reaching[place, variant, cluster] += count
    rows = (
        (place, name, at.get((place, name, c), 0), n) for (place, name, c), n in reaching.items()
    )
    yield from _sums("holes_at", rows)
    for name in shape.segments:
        cell = quoted(f"s_{name}")
        engine.view(
            "audited_cells", f"select unit_id, variant, cluster, {cell} as cell from audited_units"
        )
        cells = engine.rows(query("audit/list_cells"))
        yield from _sums(f"holes:{name}", ((at, v, lacking, n) for at, v, _, n, lacking in cells))


def _of_duplicates(engine: Engine, shape: LogShape, totals: Totals) -> Iterator[AuditSums]:
    unit = quoted(shape.impressions.mapped["unit_id"])
    copies = " union all ".join(
        f"select {unit} as logged_id, {sign} as copies from {relation}"
        for sign, relation in ((1, "repeated_rows"), (-1, "restored_rows"))
    )
    engine.view("repeated_copies", copies)
    rows = engine.rows(query("audit/duplicates"))
    yield from _shares("duplicate", _counts((*row[:2], "", row[2]) for row in rows), totals)


def _set_aside(experiment: Experiment, engine: Engine, shape: LogShape) -> Iterator[AuditSums]:
    """Reasons for which rows of a logged variant are set aside; days are their clusters."""
    if shape.names_variant and not experiment.assigns:
        rows = engine.rows(query("audit/set_aside"))
        days = {str(day): place for place, day in enumerate(sorted({str(row[1]) for row in rows}))}
        counts = _counts(
            (variant, days[str(day)], reason, n)
            for variant, day, reason, n in rows
            if variant in experiment.variants
        )
        reasons = {at: n for at, n in counts.items() if at[0] in ("null_unit", "not_exposed")}
        yield from _shares("set_aside", reasons, _totals(counts))
    if shape.has_time and engine.rows(_UNTIMED):
        untimed = engine.rows(query("audit/untimed"))
        yield from _sums("set_aside", (("null_time", name, y, x) for name, _, x, y in untimed))


_UNTIMED = "select 1 from logged_cells where set_aside = 'null_time' limit 1"


def _counts(rows: Iterable[tuple[Cell, ...]]) -> Counts:
    """Rows of variant, cluster, cell and a count."""
    return {(str(cell), str(name), whole(cluster)): whole(n) for name, cluster, cell, n in rows}


def _totals(counts: Counts) -> Totals:
    totals = Counter[tuple[str, int]]()
    for (_, variant, cluster), count in counts.items():
        totals[variant, cluster] += count
    return totals


def _shares(audit: str, counts: Counts, totals: Totals) -> list[AuditSums]:
    """Counts by cell as shares of the totals of their cluster."""
    cells = dict.fromkeys(cell for cell, _, _ in counts)
    return _sums(
        audit,
        (
            (cell, variant, counts.get((cell, variant, cluster), 0), total)
            for cell in cells
            for (variant, cluster), total in totals.items()
        ),
    )


def _sums(audit: str, rows: Iterable[tuple[Cell, Cell, Cell, Cell]]) -> list[AuditSums]:
    """Exact sums over clusters by cell and variant, from cell, variant, y and x of each cluster."""
    sums: dict[tuple[str, str], tuple[int, ...]] = {}
    for cell, variant, counted, total in rows:
        key, y, x = (str(cell), str(variant)), whole(counted), whole(total)
        n, active, *s = sums.get(key, (0,) * 7)
        sums[key] = (
            *(n + 1, active + (y > 0), s[0] + y, s[1] + x),
            *(s[2] + y * y, s[3] + y * x, s[4] + x * x),
        )
    return [AuditSums(audit, *key, *sums[key]) for key in sorted(sums)]
