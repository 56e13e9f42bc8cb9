"""The impressions of an experiment as candidates: the items shown, their scores and relevance.

`offline/replay_run.py` calls it over the views of `logs/prepare.py`, reads `candidate_rows` as
arrays, and makes `replay_rows` of `analysed_rows` (`offline/candidates/shown.py`).
"""

from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted
from abeval.experiment.model import Experiment
from abeval.logs.mapping import own_name
from abeval.logs.shape import LogShape
from abeval.offline.candidates import UNIT_GROUPS, finite_sql, name_rows, write_traffic
from abeval.offline.impressions import Relevance, check_relevance, graded_impressions, score_columns
from abeval.offline.other_logs import with_truth


def name_impressions(
    experiment: Experiment,
    engine: Engine,
    shape: LogShape,
    relevance: Relevance,
    where: str = "in_period",
) -> None:
    """Make the views `candidate_rows`, `analysed_rows` and `traffic` of an experiment.

    `where` is a condition on the impressions that count, over the views of `prepare`.

    Raises:
        LogError: The log lacks a column that a replay needs.
    """
    check_relevance(shape, relevance.name)
    columns = _score_columns(experiment, shape)
    scores = [f"{finite_sql(column)} as m_{i}" for i, column in enumerate(columns)]
    item = "item_id" if "item_id" in shape.impressions else "position"
    request = "request_id" if "request_id" in shape.impressions else "unit_id"
    keys = ["unit_id", f"{request} as request_id", f"{item} as item_id", "position", "category"]
    shown = f"select {', '.join([*keys, *scores])}"
    if relevance.truth is None:
        grade, source = graded_impressions(experiment, engine, shape, relevance, where)
        rows = f"{shown}, {grade} as grade from {source} where {where}"
    else:
        engine.view("shown_rows", f"{shown} from impressions where {where}")
        rows = with_truth(engine, relevance.truth, [f"m_{i}" for i in range(len(columns))])
    name_rows(
        engine, rows, "select s.* from candidate_rows s join units u on s.unit_id = u.unit_id"
    )
    group = f"sub_bucket % {UNIT_GROUPS} as unit_group"
    write_traffic(engine, f"select unit_id, variant as traffic, {group} from units")


def _score_columns(experiment: Experiment, shape: LogShape) -> list[str]:
    """The columns of scores, by their names in the view of impressions."""
    by_lower = {column.lower(): column for column in shape.impressions.types}
    named = [quoted(own_name(by_lower[c.lower()])) for c in score_columns(experiment)]
    # Without models there is one score, the plain `score` column, first in the view.
    return named or [f"score_{i}" for i in range(1, len(shape.scores) + 1)]
