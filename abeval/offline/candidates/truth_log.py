"""The truth log: what is relevant, whether or not it was shown or clicked.

`offline/replay.py` opens it where relevance is `truth`; `offline/candidates/impressions.py` joins
it to the items shown.
"""

from collections.abc import Sequence

from abeval.engines.protocol import Engine, whole, whole_number
from abeval.engines.sql import query, quoted
from abeval.errors import LogError
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.mapping import LogColumns, map_columns
from abeval.logs.run import Run, open_log
from abeval.offline.candidates import finite_sql

TRUTH = "truth"
"""The name of relevance that the truth log defines."""


def open_truth(run: Run) -> str:
    """Make `truth_log` (`whose`, `item_id`, `grade`) of the truth log; without a grade it is 1.

    Returns:
        The key of the log: `request_id`, or `unit_id` where it holds for all requests of a unit.

    Raises:
        LogError: There is no truth log, or it lacks a column.
    """
    experiment, engine, source = run.experiment, run.engine, run.experiment.logs.truth
    if source is None:
        what = f"relevance = {TRUTH!r} needs a ground truth, but the experiment has no logs.truth"
        raise LogError(
            what, '[logs.truth] path = "...", of request_id (or the unit), item_id, grade'
        )
    open_log(run, "truth")
    types = engine.columns("raw_truth")
    by_name = experiment.unit != ROW_UNIT and experiment.unit in types
    unit = experiment.unit if by_name and "unit_id" not in source.columns else None
    log = map_columns("truth", source, types, unit)
    key = _key(log)
    item, whose = (quoted(log.mapped[name]) for name in ("item_id", key))
    grade = finite_sql(quoted(log.mapped["grade"])) if "grade" in log else "1.0e0"
    rows = f"select {whose} as whose, {item} as item_id, {grade} as grade from raw_truth"
    if key == "unit_id":
        rows = (
            f"select n.unit_id as whose, r.item_id, r.grade from ({rows}) as r "
            "left join unit_names n on r.whose = n.logged_id"
        )
    engine.table("truth_rows_read", rows)
    engine.view(
        "truth_log",
        "select whose, item_id, greatest(grade, 0.0e0) as grade from truth_rows_read "
        "where whose is not null and item_id is not null and grade is not null",
    )
    return key


def _key(log: LogColumns) -> str:
    if "item_id" not in log:
        raise LogError("logs.truth: no column item_id", f"map it; {log.listed}")
    key = next((name for name in ("request_id", "unit_id") if name in log), None)
    if key is None:
        what = "logs.truth: neither a column request_id nor a unit column"
        raise LogError(what, f'map one: columns = {{ request_id = "..." }}; {log.listed}')
    return key


def with_truth(engine: Engine, key: str, scores: Sequence[str]) -> str:
    """Make `true_items`; SQL of `shown_rows` with their grade, and of relevant items never shown.

    The columns of `scores` are null for items that were never shown.
    """
    engine.view(
        "truth_keys", f"select distinct unit_id, request_id, {key} as whose from shown_rows"
    )
    engine.table("true_items", query("offline/true_items"))
    keys = "s.unit_id = t.unit_id and s.request_id = t.request_id and s.item_id = t.item_id"
    columns = ", ".join(["position", "category", *scores])
    nothing = ["cast(null as bigint) as position", "cast(null as varchar) as category"]
    nothing += [f"cast(null as double) as {name}" for name in scores]
    return (
        f"select s.unit_id, s.request_id, s.item_id, {columns}, "
        f"coalesce(t.grade, 0.0e0) as grade from shown_rows s left join true_items t on {keys} "
        f"union all select t.unit_id, t.request_id, t.item_id, {', '.join(nothing)}, t.grade "
        f"from true_items t anti join shown_rows s on {keys} where t.grade > 0"
    )


def longest_shown(engine: Engine) -> int:
    """Items of the longest list that was shown for a request with a relevant item."""
    return whole_number(
        engine,
        "select max(n) from (select count(distinct s.item_id) as n from shown_rows s "
        "semi join (select * from true_items where grade > 0) t "
        "on s.unit_id = t.unit_id and s.request_id = t.request_id "
        "group by s.unit_id, s.request_id) as l",
    )


def truth_accounts(engine: Engine) -> list[tuple[str, int]]:
    """Rows of the truth log that were left out, merged, or about items never shown, counted."""
    ((read, unusable, usable, repeated, elsewhere, unseen),) = engine.rows(
        "select (select count(*) from truth_rows_read), "
        "(select count(*) from truth_rows_read where item_id is null or grade is null), "
        "(select count(*) from truth_log), "
        "(select count(*) from truth_log) - (select count(*) from "
        "(select distinct whose, item_id from truth_log) as d), "
        "(select count(*) from truth_log t anti join truth_keys a on t.whose = a.whose), "
        "(select count(*) from true_items t anti join shown_rows s on "
        "s.unit_id = t.unit_id and s.request_id = t.request_id and s.item_id = t.item_id "
        "where t.grade > 0)"
    )
    strangers = whole(read) - whole(unusable) - whole(usable)
    counts = {
        "truth_rows_without_usable_item_or_grade": whole(unusable),
        "truth_rows_repeated": whole(repeated),
        "truth_rows_of_unknown_requests_or_units": whole(elsewhere) + strangers,
        "relevant_items_never_shown": whole(unseen),
    }
    return list(counts.items())
