"""The files of a log with a planted cause.

`run.py` hands it the parts of the simulation; DuckDB writes Parquet.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from abeval.simulate.run import convert_to_timestamps, copy_frame
from abeval.simulate.world import FIRST_USER, VARIANTS, Floats, Ints
from tests.worlds.plants.part import Models, Part, probability
from tests.worlds.plants.traffic import SCENES, SURFACES

FILES = ("impressions", "training.parquet", "experiment.toml", "truth.json")
FALLBACK_SCORE = 0.1
"""What the server logs as the score of an item that no model could rank in time."""

_DIGITS = 8
_VARIANTS = {"variants": list(VARIANTS)}

_IMPRESSIONS = """
select
    impression_id, request_id,
    'u' || lpad(cast(user_code as varchar), 7, '0') as user_id,
    item_id,
    (['news', 'music', 'sport', 'film', 'games'])[(item_id - 1) // 80 + 1] as category,
    time,
    ($variants)[variant_code + 1] as variant,
    ($scenes)[scene_code + 1] as scene,
    ($surfaces)[surface_code + 1] as surface,
    cast(position as integer) as position,
    cast(click as integer) as click,
    score_baseline, score_candidate,
    case when not isnan(served_score) then served_score end as served_score,
    history, freshness, recent_clicks, features_written,
    cast(failed as integer) as timeout,
    cast(failed as integer) as fallback,
    round(latency, 1) as latency_ms,
    model_trained,
    case when model_trained is not null
        then ($variants)[variant_code + 1] || '-' || strftime(model_trained, '%m%d') end
        as model_version
from chunk
"""
_TRAINING = """
select
    'u' || lpad(cast(user_code as varchar), 7, '0') as user_id,
    item_id, time, cast(click as integer) as click, score_candidate,
    case when before then 'production' else ($variants)[variant_code + 1] end as policy
from chunk
order by time, user_id, item_id
"""


def write_impressions(path: Path, test: Part, models: Models) -> None:
    """Write the impressions of the test."""
    path.parent.mkdir()
    request, traffic, served = test.rows.request, test.traffic, test.served
    rows = _rows(test, models) | {
        "impression_id": np.arange(len(request)) + 1,
        "request_id": request + 1,
        "scene_code": traffic.scene[request],
        "surface_code": traffic.surface[request],
        "position": test.rows.position,
        "score_baseline": _scores(models.baseline.logit(test.baseline)),
        "served_score": _served_scores(test),
        "history": np.round(test.baseline, _DIGITS),
        "freshness": np.round(test.rows.of(test.known.second), _DIGITS),
        "recent_clicks": np.round(test.offline.feature, _DIGITS),
        "features_written": convert_to_timestamps(test.offline.known),
        "failed": served.failed[request],
        "latency": served.latency[request],
        "model_trained": _or_null(served.trained[request]),
    }
    names = _VARIANTS | {"scenes": list(SCENES), "surfaces": list(SURFACES)}
    copy_frame(_IMPRESSIONS, pd.DataFrame(rows), path, **names)


def write_training(path: Path, before: Part, test: Part, models: Models) -> None:
    """Write what the candidate learned from: the week before, and what it saw of the test."""
    parts = [pd.DataFrame(_rows(part, models))[part.learned] for part in (before, test)]
    copy_frame(_TRAINING, pd.concat(parts, ignore_index=True), path, **_VARIANTS)


def _rows(part: Part, models: Models) -> dict[str, np.ndarray]:
    request = part.rows.request
    return {
        "before": part.traffic.before[request],
        "variant_code": part.traffic.treated[request].astype(np.int64),
        "user_code": FIRST_USER + part.traffic.user[request],
        "item_id": part.known.item[request, part.rows.place],
        "time": convert_to_timestamps(part.traffic.at[request]),
        "click": part.rows.click,
        "score_candidate": _scores(part.candidate(models.candidate)),
    }


def _scores(logit: Floats) -> Floats:
    return np.round(probability(logit), _DIGITS)


def _served_scores(test: Part) -> Floats:
    """The score that ranked each row, NaN in home, which no model ranks."""
    own = _scores(test.rows.of(test.served.logit))
    return np.where(test.served.failed[test.rows.request], FALLBACK_SCORE, own)


def _or_null(trained: Ints) -> np.ndarray:
    return np.where(trained < 0, np.datetime64("NaT", "us"), convert_to_timestamps(trained))
