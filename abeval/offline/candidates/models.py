"""The models of a replay, and the SQL of their scores and candidates.

`offline/replay_run.py` calls it with the experiment and the options of the replay;
`offline/sums/run.py` ranks the `Candidates`.
"""

from collections.abc import Iterable, Mapping, Sequence

from abeval.errors import ExperimentError, LogError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggestion
from abeval.logs.shape import LogShape
from abeval.offline.candidates import Candidates
from abeval.offline.rows import Rows
from abeval.results.replay import Blend, ReplayModel

PLAIN_MODEL = "score"
"""The name of the model of a log with one plain `score` column."""


def experiment_candidates(
    experiment: Experiment,
    shape: LogShape,
    sql: Mapping[str, str],
    points: Mapping[str, str],
    rows: Rows | None,
) -> Candidates:
    """The candidates of an experiment's models; clicks of the pre-period are the history.

    All models order the same lists if they have `points`: all are scored in the impressions.

    Raises:
        LogError: There is no model.
    """
    if not sql:
        raise LogError(
            "there is no model to replay",
            'give [models.NAME] score = "COLUMN", map score in logs.impressions, or [logs.scores]',
        )
    history = None
    if experiment.pre_period is not None and "item_id" in shape.impressions:
        clicked = "not in_period and click = 1 and item_id is not null"
        history = f"select unit_id, item_id from impressions where {clicked}"
    catalogue = None if shape.items is None else "select item_id from items"
    return Candidates(sql, bool(points), history, catalogue, rows, points)


def score_columns(experiment: Experiment) -> list[str]:
    """The columns of the impressions that hold the models' scores."""
    return list(dict.fromkeys(model.score for model in experiment.models.values()))


def blends_of(experiment: Experiment, shares: Sequence[float]) -> list[Blend]:
    """Blends of control's model with some shares of every other model of a treatment.

    Raises:
        ExperimentError: There are no two models to blend, or a share is not in [0, 1].
    """
    if not shares:
        return []
    base = experiment.variants[experiment.control].model
    treated = [experiment.variants[name].model for name in experiment.treatments]
    models = [m for m in dict.fromkeys(treated) if m is not None and m != base]
    if base is None or not models:
        raise ExperimentError(
            "a blend needs a model of control and another of a treatment",
            'give [variants.NAME] model = "..."',
        )
    if any(not 0 <= share <= 1 for share in shares):
        raise ExperimentError("the shares of a blend lie between 0 and 1")
    return [Blend(model, base, share) for model in models for share in shares]


def model_scores(
    experiment: Experiment,
    shape: LogShape,
    kept_negatives: float | None,
    blends: Sequence[Blend],
) -> dict[str, str]:
    """Model → SQL of its score, for models scored in the impressions and for blends."""
    columns = score_columns(experiment)
    of = {name: f"m_{columns.index(m.score)}" for name, m in experiment.models.items()}
    if not of and shape.scores:
        of = {PLAIN_MODEL: "m_0"}
    scores = {name: _corrected(column, kept_negatives) for name, column in of.items()}
    for blend in blends:
        for name in (blend.model, blend.base):
            if name not in scores:
                raise ExperimentError(f"no model is called {name!r}{suggestion(name, scores)}")
        mixed = f"{blend.alpha!r} * ({scores[blend.model]}) + {1 - blend.alpha!r} * "
        scores[blend.name] = f"{mixed}({scores[blend.base]})"
    return scores


def _corrected(column: str, kept: float | None) -> str:
    """Undo negative sampling: q = p / (p + (1 − p) / w), w the share of negatives kept."""
    if kept is None:
        return column
    return f"{column} / nullif({column} + (1 - {column}) / {kept!r}, 0)"


def replayed_models(
    names: Iterable[str], stages: Mapping[str, str], blends: Sequence[Blend]
) -> tuple[ReplayModel, ...]:
    """The models of a result, with their stages and blends.

    Example:
        >>> replayed_models(["a", "ranking/a"], {"ranking/a": "ranking"}, [])[1].stage
        'ranking'
    """
    by_name = {blend.name: blend for blend in blends}
    return tuple(ReplayModel(name, stages.get(name), by_name.get(name)) for name in names)
