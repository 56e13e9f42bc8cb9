"""The sums of a replay → its result: every model on every traffic, and models in pairs.

It starts from the `Sums` of `offline/sums/run.py`. `offline/replay.py` adds splits and curves to
the `ReplayResult`; `offline/evaluation.py` keeps it in the `Evaluation` of frames.
"""

from collections.abc import Iterator, Sequence

from abeval.offline.estimates import Estimates, pairs
from abeval.offline.metrics import Policy, Scoring
from abeval.offline.sums import Sums
from abeval.results.replay import REPLAY_SCHEMA_VERSION, CalibrationBin, ReplayModel, ReplayResult
from abeval.stats import proportions


def result_of(
    sums: Sums,
    scoring: Scoring,
    *,
    name: str,
    models: Sequence[ReplayModel],
    control: str | None,
    accounting: Sequence[tuple[str, int]],
    notes: Sequence[str] = (),
) -> ReplayResult:
    """The result of a replay.

    Args:
        sums: The sums per unit.
        scoring: The metrics and their options.
        name: Of the experiment.
        models: The models that were replayed.
        control: The model that the others are compared with.
        accounting: What was left out or merged before the models were replayed.
        notes: What a reader must know.
    """
    estimates = Estimates(sums, scoring)
    return ReplayResult(
        schema_version=REPLAY_SCHEMA_VERSION,
        name=name,
        alpha=scoring.alpha,
        models=tuple(models),
        definitions=tuple((m.id, m.definition.formula) for m in scoring.metrics),
        policy=tuple(_policy(scoring.policy)),
        rows=tuple(estimates.rows()),
        pairs=tuple(pairs(estimates, control)),
        coverage=sums.coverage,
        accounting=(*accounting, ("requests_only_some_models_score", sums.uncompared)),
        calibration=tuple(_calibration(sums, scoring.alpha)),
        notes=(*notes, *_notes(sums)),
    )


def _notes(sums: Sums) -> Iterator[str]:
    """Notes about unusual scores."""
    if sums.uncompared:
        yield (
            "models are compared over the requests that all of them score: "
            f"{sums.uncompared:,} that only some score are left out"
        )
    for covered in sums.coverage:
        model = sums.models.get(covered.model)
        if model is None:
            yield f"{covered.model} has no usable score and is not compared"
        elif model.low == model.high:
            yield (
                f"every score of {covered.model} is {model.low:g}: its items are ordered by the "
                "tie rule only"
            )


def _policy(policy: Policy) -> Iterator[tuple[str, str]]:
    yield "ties", policy.ties
    yield "no_relevant", policy.no_relevant
    yield "missing", policy.missing
    if policy.missing_in_ndcg:
        yield "missing_in_ndcg", policy.missing_in_ndcg


def _calibration(sums: Sums, alpha: float) -> Iterator[CalibrationBin]:
    for model, of_model in sums.models.items():
        if of_model.curve is None:
            continue
        keys = ["traffic", "kind", "bin"]
        curve = of_model.curve.groupby(keys, as_index=False)[["rows", "clicks", "predicted"]].sum()
        for row in curve.to_dict("records"):
            rows, clicks = int(row["rows"]), int(row["clicks"])
            yield CalibrationBin(
                *(model, str(row["traffic"]), str(row["kind"]), int(row["bin"]), rows),
                *(clicks, float(row["predicted"]) / rows),
                *proportions.interval(proportions.Count(clicks, rows), alpha),
            )
