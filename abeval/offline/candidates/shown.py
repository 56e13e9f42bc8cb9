"""The rows to rank, with each item once per request, and counts of rows left out or merged.

`offline/replay_run.py` and `offline/evaluate_log.py` try to read `candidate_rows` as arrays (which
proves that no item repeats), then call `write_rows`; `offline/sums/run.py` ranks `Candidates`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from abeval.engines.protocol import Engine, whole_number
from abeval.engines.sql import query
from abeval.offline.metrics import Ties
from abeval.offline.rows import Rows

TIE: Mapping[Ties, str] = {
    "item": "item_id",
    "text": "cast(item_id as varchar)",
    "position": "-position",
}
"""SQL that orders equal scores, the larger first."""


@dataclass(frozen=True)
class Candidates:
    """The candidates of every model, as SQL over relations of the engine.

    Attributes:
        sql: Model → SQL of `unit_id, request_id, item_id, score, tie, grade, category`.
        same_lists: Whether all models order the same items of a request.
        history: SQL of `unit_id, item_id`, one row per item clicked before the period;
            None where unknown.
        catalogue: SQL of `item_id`, items that could be listed besides those that were.
        rows: The same candidates as arrays, for kernels; None where they cannot be used.
        points: Model → SQL of `unit_id, request_id, item_id, score, grade`, a row for each
            impression, which metrics of the scores themselves read; empty where they read `sql`.
    """

    sql: Mapping[str, str]
    same_lists: bool
    history: str | None = None
    catalogue: str | None = None
    rows: Rows | None = None
    points: Mapping[str, str] = field(default_factory=dict)


def name_rows(engine: Engine, candidates: str, analysed: str) -> None:
    """Make the views `candidate_rows` and `analysed_rows` (those of units that are analysed).

    Columns are `unit_id, request_id, item_id, position, category, grade` and the scores `m_N`.
    """
    engine.view("candidate_rows", candidates)
    engine.view("analysed_rows", analysed)


def write_truth(engine: Engine, sql: str) -> None:
    """Make the view `truth_rows` of `unit_id, request_id, item_id, grade`."""
    engine.view("truth_rows", sql)


def listed_candidates(engine: Engine, number: int, listed: str, tie: str) -> str:
    """Make `judged_N` of the lists of model number N; SQL of its candidates.

    `listed` is SQL of `request_id, item_id, score, place` (the row's number in the list, or 0 if
    unknown), kept as `listed_rows`; `tie` orders equal scores. `truth_rows` says what is relevant.
    """
    engine.table("listed_rows", listed)
    engine.table(f"judged_{number}", query("offline/judged"))
    return f"select *, {tie} as tie, null as category from judged_{number}"


def write_rows(engine: Engine, *, unique: bool, queried: bool) -> list[tuple[str, int]]:
    """Make `every_row` of `analysed_rows`, and `replay_rows`, with each item once per request.

    Args:
        engine: Where the rows are.
        unique: Whether they have each item once per request already.
        queried: Whether several queries will read them; they are kept as a table then.

    Returns:
        Rows and requests that were left out or merged, counted.
    """
    rows, accounts = "select * from analysed_rows", dict.fromkeys(_ACCOUNTS, 0)
    if queried or not unique:
        engine.table("kept_rows", rows)
        rows = "select * from kept_rows"
    if not unique:
        accounts = _accounts(engine)
        rows = _with_requests(engine, accounts)
    engine.view("every_row", rows)
    engine.view("replay_rows", "select * from every_row" if unique else _once(engine, accounts))
    return list(accounts.items())


_ACCOUNTS = (
    "rows_without_request_or_item",
    "requests_shared_by_units",
    "items_repeated_in_a_request",
)


def _accounts(engine: Engine) -> dict[str, int]:
    unkeyed = whole_number(
        engine, "select count(*) from kept_rows where request_id is null or item_id is null"
    )
    shared = whole_number(
        engine,
        "select count(*) from (select request_id from kept_rows where request_id is not null "
        "group by request_id having min(unit_id) <> max(unit_id)) as r",
    )
    repeated = whole_number(
        engine,
        "select coalesce(sum(n - 1), 0) from (select count(*) as n from kept_rows where "
        "request_id is not null and item_id is not null "
        "group by unit_id, request_id, item_id having count(*) > 1) as d",
    )
    return dict(zip(_ACCOUNTS, (unkeyed, shared, repeated), strict=True))


def _with_requests(engine: Engine, accounts: Mapping[str, int]) -> str:
    """SQL of the rows of `kept_rows` with a request, each request of one unit."""
    rows = "select * from kept_rows"
    if accounts["rows_without_request_or_item"]:
        rows += " where request_id is not null"
    if not accounts["requests_shared_by_units"]:
        return rows
    key = "cast(unit_id as varchar) || ':' || cast(request_id as varchar)"
    columns = [f"{key} as request_id", "unit_id", "item_id", "position", "category", "grade"]
    return f"select {', '.join([*columns, *_scores(engine)])} from ({rows}) as r"


def _once(engine: Engine, accounts: Mapping[str, int]) -> str:
    """SQL of the rows of `every_row` with an item, each item once per request."""
    rows = "select * from every_row"
    if accounts["rows_without_request_or_item"]:
        rows += " where item_id is not null"
    if not accounts["items_repeated_in_a_request"]:
        return rows
    best = [f"max({name}) as {name}" for name in _scores(engine)]
    kept = ["min(position) as position", "min(category) as category", "max(grade) as grade", *best]
    engine.table(
        "replay_once",
        f"select unit_id, request_id, item_id, {', '.join(kept)} from ({rows}) as r "
        "group by unit_id, request_id, item_id",
    )
    return "select * from replay_once"


def _scores(engine: Engine) -> list[str]:
    return [name for name in engine.columns("kept_rows") if name.startswith("m_")]


def shown_candidates(scores: Mapping[str, str], ties: Ties) -> dict[str, str]:
    """Model → SQL of its candidates, from the SQL of its score over `replay_rows`."""
    return {
        name: f"select unit_id, request_id, item_id, {score} as score, {TIE[ties]} as tie, grade, "
        "category from replay_rows"
        for name, score in scores.items()
    }


def shown_points(scores: Mapping[str, str]) -> dict[str, str]:
    """Model → SQL of every row that it scores or not, from the SQL of its score."""
    return {
        name: f"select unit_id, request_id, item_id, {score} as score, grade from every_row"
        for name, score in scores.items()
    }


def finite_sql(value: str, otherwise: int | None = None) -> str:
    """SQL: a value as a double; `otherwise`, or null, where it is not finite."""
    end = "end" if otherwise is None else f"else {otherwise} end"
    return f"case when abs(cast({value} as double)) < 1e300 then cast({value} as double) {end}"
