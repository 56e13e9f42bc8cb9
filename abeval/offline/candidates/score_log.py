"""The scores log as candidates to be replayed: models whose scores or ranks lie in a table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from abeval.engines.protocol import Engine, whole_number
from abeval.engines.queries import query
from abeval.engines.sql import literal, quoted
from abeval.errors import ExperimentError, LogError
from abeval.experiment.model import Experiment, LogSource
from abeval.logs.mapping import LogColumns, map_columns
from abeval.offline.candidates.shown import TIE, finite
from abeval.offline.metrics.presets import Ties

SERVED = "served"
"""The order of the items as they were shown, set beside the stages that led to it."""


class ScoreLog(NamedTuple):
    """The models of a scores log.

    Attributes:
        candidates: Model → the SQL of its candidates.
        stages: Model → its stage, where the log names stages.
    """

    candidates: dict[str, str]
    stages: dict[str, str]


def add_score_log(
    experiment: Experiment,
    engine: Engine,
    frames: Mapping[str, object],
    ties: Ties,
    accounts: list[tuple[str, int]],
    taken: Sequence[str],
    has_positions: bool,
) -> ScoreLog:
    """The models of the scores log as candidates; items that a model leaves out rank last.

    Where the log names stages, a model is `STAGE/MODEL`, and what was served in the end, by
    position, is one more.
    """
    source = experiment.logs.scores
    if source is None:
        return ScoreLog({}, {})
    log = _open(engine, source, frames)
    stages = _models(engine)
    both = [name for name in stages if name in taken]
    if both:
        what = f"model {both[0]!r} has scores in the impressions and in logs.scores"
        raise ExperimentError(what, "rename one of them")
    engine.view("truth_rows", "select unit_id, request_id, item_id, grade from replay_rows")
    found: dict[str, str] = {}
    for i, name in enumerate(stages):
        found[name] = _judged(engine, i, name, ties)
        accounts += [(f"{name}: {what}", count) for what, count in _fate(engine, i)]
    if "stage" in log and has_positions:
        found[SERVED] = (
            "select unit_id, request_id, item_id, cast(-position as double) as score, "
            "item_id as tie, grade, category from replay_rows"
        )
        stages[SERVED] = SERVED
    named = {name: stage for name, stage in stages.items() if stage is not None}
    return ScoreLog(found, named)


def _open(engine: Engine, source: LogSource, frames: Mapping[str, object]) -> LogColumns:
    """Make `scores` (`model, stage, request_id, item_id, score`)."""
    if "scores" in frames:
        engine.add_frame("raw_scores", frames["scores"])
    else:
        engine.add_log("raw_scores", source)
    log = map_columns("scores", source, engine.columns("raw_scores"), None)
    engine.view("scores", _scores_view(log))
    return log


def _judged(engine: Engine, i: int, model: str, ties: Ties) -> str:
    """Make `listed_N`, the scores of a model against `truth_rows`; SQL of its candidates."""
    kept = "select request_id, item_id, score, 0 as place from scores"
    engine.view("listed_rows", f"{kept} where model = {literal(model)}")
    engine.table(f"listed_{i}", query("offline/judged"))
    tie = TIE["text"] if ties == "text" else "item_id"
    return f"select *, {tie} as tie, null as category from listed_{i}"


def _models(engine: Engine) -> dict[str, str | None]:
    """Model → its stage; a stage that scores more items stands before one that scores fewer."""
    known = engine.rows("select model, stage, count(*) from scores group by model, stage")
    rows: Counter[str] = Counter()
    for _, stage, count in known:
        rows[str(stage or "")] += int(count or 0)
    models = {str(model): None if stage is None else str(stage) for model, stage, _ in known}
    order = sorted((-rows[stage or ""], stage or "", model) for model, stage in models.items())
    return {model: models[model] for _, _, model in order}


def _scores_view(log: LogColumns) -> str:
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
        f"{finite(value)} as score from raw_scores"
    )


def _fate(engine: Engine, i: int) -> list[tuple[str, int]]:
    """What became of the rows of a model in the scores log."""
    ((rows, keys, unusable, elsewhere),) = engine.rows(
        "select count(*), count(distinct (l.request_id, l.item_id)), "
        "count(*) - count(l.score), count(*) - count(r.request_id) from listed_rows l "
        "left join (select distinct request_id from replay_rows) r on l.request_id = r.request_id"
    )
    unseen = whole_number(
        engine,
        f"select count(*) from listed_{i} l left join replay_rows r on l.request_id = r.request_id "
        "and l.item_id = r.item_id where r.item_id is null",
    )
    counts = {
        "repeated_scores": int(rows or 0) - int(keys or 0),
        "unusable_scores": int(unusable or 0),
        "scores_of_unknown_requests": int(elsewhere or 0),
        "scored_items_never_shown": unseen,
    }
    return list(counts.items())
