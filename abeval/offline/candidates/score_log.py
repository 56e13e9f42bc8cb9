"""The scores log: models whose scores or ranks are in a table of their own.

`offline/replay.py` opens it (`logs.scores`); `offline/replay_run.py` adds its models, each with SQL
of its candidates, to those scored in the impressions.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from abeval.engines.protocol import Engine, whole, whole_number
from abeval.engines.sql import literal, quoted
from abeval.errors import ExperimentError, LogError
from abeval.logs.mapping import LogColumns, map_columns
from abeval.logs.run import Run, open_log
from abeval.offline.candidates import TIE, finite_sql, listed_candidates, write_truth
from abeval.offline.metrics import Ties

SERVED = "served"
"""The order in which items were shown, compared with the stages before it."""


class ScoreLog(NamedTuple):
    """The models of a scores log.

    Attributes:
        sql: Model → SQL of its candidates.
        stages: Model → its stage, where the log names stages.
        accounts: Scores that were left out or merged, counted.
    """

    sql: dict[str, str]
    stages: dict[str, str]
    accounts: list[tuple[str, int]]


def open_scores(run: Run) -> LogColumns | None:
    """Make `scores` (`model, stage, request_id, item_id, score`); None without a scores log."""
    source, engine = run.experiment.logs.scores, run.engine
    if source is None:
        return None
    open_log(run, "scores")
    log = map_columns("scores", source, engine.columns("raw_scores"), None)
    engine.view("scores", _scores_sql(log))
    return log


def judge_scores(
    engine: Engine, log: LogColumns | None, ties: Ties, own: Mapping[str, str], has_positions: bool
) -> ScoreLog:
    """The models of the scores log as candidates; items that a model leaves out rank last.

    Where the log names stages, a model is `STAGE/MODEL`, and the order in which items were shown
    is one more model. `own` has the models with scores in the impressions.

    Raises:
        ExperimentError: A model has scores in both logs.
    """
    if log is None:
        return ScoreLog({}, {}, [])
    stages = _models(engine)
    both = [name for name in stages if name in own]
    if both:
        what = f"model {both[0]!r} has scores in the impressions and in logs.scores"
        raise ExperimentError(what, "rename one of them")
    write_truth(engine, "select unit_id, request_id, item_id, grade from replay_rows")
    sql, accounts = {}, []
    tie = TIE["text"] if ties == "text" else "item_id"
    for i, name in enumerate(stages):
        listed = "select request_id, item_id, score, 0 as place from scores"
        sql[name] = listed_candidates(engine, i, f"{listed} where model = {literal(name)}", tie)
        accounts += [(f"{name}: {what}", count) for what, count in _accounts(engine, i)]
    if "stage" in log and has_positions:
        sql[SERVED] = (
            "select unit_id, request_id, item_id, cast(-position as double) as score, "
            "item_id as tie, grade, category from replay_rows"
        )
        stages[SERVED] = SERVED
    named = {name: stage for name, stage in stages.items() if stage is not None}
    return ScoreLog(sql, named, accounts)


def _models(engine: Engine) -> dict[str, str | None]:
    """Model → its stage, stages with more items first."""
    known = engine.rows("select model, stage, count(*) from scores group by model, stage")
    rows: Counter[str] = Counter()
    for _, stage, count in known:
        rows[str(stage or "")] += whole(count)
    models = {str(model): None if stage is None else str(stage) for model, stage, _ in known}
    order = sorted((-rows[stage or ""], stage or "", model) for model, stage in models.items())
    return {model: models[model] for _, _, model in order}


def _scores_sql(log: LogColumns) -> str:
    missing = [name for name in ("request_id", "item_id") if name not in log]
    if missing or ("score" not in log and "rank" not in log):
        lacks = missing[0] if missing else "score or rank"
        hint = f'map it: columns = {{ {lacks.split()[0]} = "..." }}; the log has: '
        raise LogError(f"logs.scores: no column {lacks}", hint + ", ".join(log.types))
    value = quoted(log.mapped["score"]) if "score" in log else f"-{quoted(log.mapped['rank'])}"
    model = "'scores'"
    if "model" in log:
        model = f"coalesce(cast({quoted(log.mapped['model'])} as varchar), {model})"
    stage = "cast(null as varchar)"
    if "stage" in log:
        stage = f"cast({quoted(log.mapped['stage'])} as varchar)"
        model = f"coalesce({stage} || '/', '') || {model}"
    request, item = (quoted(log.mapped[name]) for name in ("request_id", "item_id"))
    return (
        f"select {model} as model, {stage} as stage, {request} as request_id, {item} as item_id, "
        f"{finite_sql(value)} as score from raw_scores"
    )


def _accounts(engine: Engine, number: int) -> list[tuple[str, int]]:
    ((rows, keys, unusable, unknown),) = engine.rows(
        "select count(*), count(distinct (l.request_id, l.item_id)), "
        "count(*) - count(l.score), count(*) - count(r.request_id) from listed_rows l "
        "left join (select distinct request_id from replay_rows) r on l.request_id = r.request_id"
    )
    unseen = whole_number(
        engine,
        f"select count(*) from judged_{number} l left join replay_rows r "
        "on l.request_id = r.request_id and l.item_id = r.item_id where r.item_id is null",
    )
    counts = {
        "repeated_scores": whole(rows) - whole(keys),
        "unusable_scores": whole(unusable),
        "scores_of_unknown_requests": whole(unknown),
        "scored_items_never_shown": unseen,
    }
    return list(counts.items())
