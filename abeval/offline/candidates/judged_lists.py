"""Each model's listed items joined with their relevance, by `queries/offline/judged.sql`.

`offline/candidates/score_log.py` joins a scores log with the relevance in the log's own rows,
`offline/evaluate.py` joins frames with a ground truth; `offline/sums/run.py` ranks what comes back.
"""

from abeval.engines.protocol import Engine
from abeval.engines.queries import query


def write_truth(engine: Engine, sql: str) -> None:
    """Make the view `truth_rows` of `unit_id, request_id, item_id, grade`."""
    engine.view("truth_rows", sql)


def write_judged(engine: Engine, number: int, listed: str, tie: str) -> str:
    """Make `listed_rows` and `judged_N` of model number N; SQL of its candidates.

    `listed` is SQL of `request_id, item_id, score, place` (the row's number in the list, or 0 if
    unknown); `tie` orders equal scores.
    """
    engine.table("listed_rows", listed)
    engine.table(f"judged_{number}", query("offline/judged"))
    return f"select *, {tie} as tie, null as category from judged_{number}"
