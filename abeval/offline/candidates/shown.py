"""What was shown, as rows to be replayed: each item once a request, what is set aside counted."""

from collections.abc import Mapping, Sequence

from abeval.engines.protocol import Engine, whole_number
from abeval.offline.candidates.rows import Fetched, Rows, read_rows
from abeval.offline.kernels.choice import covers
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.metrics.presets import Ties

TIE: Mapping[Ties, str] = {
    "item": "item_id",
    "text": "cast(item_id as varchar)",
    "position": "-position",
}


def read_shown(
    engine: Engine, scores: Mapping[str, str], ties: Ties, has_requests: bool
) -> Fetched | None:
    """The rows of `candidate_rows` as arrays, where they need no mending.

    Args:
        engine: Has `candidate_rows`.
        scores: Model → the SQL of its score.
        ties: What stands first of equal scores.
        has_requests: Whether requests are other than units.
    """
    request = "request_id" if has_requests else "unit_id"
    return read_rows(engine, "candidate_rows", TIE[ties], request, scores)


def write_rows(
    engine: Engine, rows: Rows | None, metrics: Sequence[OfflineMetric]
) -> list[tuple[str, int]]:
    """Make `replay_rows` of `analysed_rows`: each item once a request.

    Args:
        engine: Has `analysed_rows`.
        rows: The same as arrays, where it needs no mending.
        metrics: What will be computed.

    Returns:
        What was set aside or merged, counted.
    """
    if rows is None:
        engine.table("replay_log", "select * from analysed_rows")
        accounts = _accounts(engine)
        engine.view("replay_rows", _usable(engine, accounts))
        return list(accounts.items())
    source = "analysed_rows"
    if not all(covers(m, rows) for m in metrics):
        # What queries will read time and again is kept; kernels have their own copy.
        source = "kept_rows"
        engine.table(source, "select * from analysed_rows")
    engine.view("replay_rows", f"select * from {source}")
    return [(what, 0) for what in _ACCOUNTS]


_ACCOUNTS = (
    "rows_without_request_or_item",
    "requests_shared_by_units",
    "items_repeated_in_a_request",
)


def _accounts(engine: Engine) -> dict[str, int]:
    """Rows without an id, requests shared by units, and items that stand twice in a request."""
    unkeyed = whole_number(
        engine, "select count(*) from replay_log where request_id is null or item_id is null"
    )
    shared = whole_number(
        engine,
        "select count(*) from (select request_id from replay_log where request_id is not null "
        "group by request_id having min(unit_id) <> max(unit_id)) as r",
    )
    repeated = whole_number(
        engine,
        "select coalesce(sum(n - 1), 0) from (select count(*) as n from replay_log where "
        "request_id is not null and item_id is not null "
        "group by unit_id, request_id, item_id having count(*) > 1) as d",
    )
    return dict(zip(_ACCOUNTS, (unkeyed, shared, repeated), strict=True))


def _usable(engine: Engine, accounts: Mapping[str, int]) -> str:
    """The rows of `replay_log` that count; more work only where the log needs it."""
    rows = "select * from replay_log"
    scores = [name for name in engine.columns("replay_log") if name.startswith("m_")]
    if accounts["rows_without_request_or_item"]:
        rows += " where request_id is not null and item_id is not null"
    if accounts["requests_shared_by_units"]:
        key = "cast(unit_id as varchar) || ':' || cast(request_id as varchar)"
        columns = [f"{key} as request_id", "unit_id", "item_id", "position", "category", "grade"]
        rows = f"select {', '.join([*columns, *scores])} from ({rows}) as r"
    if not accounts["items_repeated_in_a_request"]:
        return rows
    best = [f"max({name}) as {name}" for name in scores]
    kept = ["min(position) as position", "min(category) as category", "max(grade) as grade", *best]
    engine.table(
        "replay_once",
        f"select unit_id, request_id, item_id, {', '.join(kept)} from ({rows}) as r "
        "group by unit_id, request_id, item_id",
    )
    return "select * from replay_once"


def candidates(scores: Mapping[str, str], ties: Ties) -> dict[str, str]:
    """Model → the SQL of its candidates, from the SQL of its score over `replay_rows`."""
    return {
        name: f"select unit_id, request_id, item_id, {score} as score, {TIE[ties]} as tie, grade, "
        "category from replay_rows"
        for name, score in scores.items()
    }


def finite(value: str, otherwise: int | None = None) -> str:
    """SQL: a finite double, or another value, null unless told."""
    end = "end" if otherwise is None else f"else {otherwise} end"
    return f"case when abs(cast({value} as double)) < 1e300 then cast({value} as double) {end}"
