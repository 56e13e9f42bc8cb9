"""The sums of a replay → its result: every model on every traffic, and models in pairs."""

from collections.abc import Iterator, Sequence

from abeval.offline.estimates.estimates import Estimates
from abeval.offline.estimates.pairs import pairs
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.metrics.presets import Policy
from abeval.offline.sums.sums import Sums
from abeval.results.replay import REPLAY_SCHEMA_VERSION, CalibrationBin, ReplayResult
from abeval.results.replayed_models import ReplayModel


def result_of(
    sums: Sums,
    metrics: Sequence[OfflineMetric],
    policy: Policy,
    *,
    name: str,
    alpha: float,
    models: Sequence[ReplayModel],
    same_lists: bool,
    control: str | None,
    accounting: Sequence[tuple[str, int]],
    notes: Sequence[str] = (),
) -> ReplayResult:
    """The result of a replay.

    Args:
        sums: What the queries brought back.
        metrics: In the order of the result.
        policy: Which requests count.
        name: Of the experiment.
        alpha: Level of the intervals.
        models: What was replayed.
        same_lists: Whether all models order the same items of a request.
        control: The model that the others are compared with.
        accounting: What was set aside or merged before the models were replayed.
        notes: What a reader must know.
    """
    estimates = Estimates(sums, metrics, policy, alpha, same_lists)
    return ReplayResult(
        schema_version=REPLAY_SCHEMA_VERSION,
        name=name,
        alpha=alpha,
        models=tuple(models),
        definitions=tuple((m.id, m.definition.formula) for m in metrics),
        policy=_policy(policy),
        rows=tuple(estimates.rows()),
        pairs=tuple(pairs(estimates, control)),
        coverage=sums.coverage,
        accounting=(*accounting, ("requests_only_some_models_score", sums.uncompared)),
        calibration=tuple(_calibration(sums)),
        notes=(*notes, *_notes(sums)),
    )


def _notes(sums: Sums) -> Iterator[str]:
    """What is odd about the scores, in words."""
    if sums.uncompared:
        yield (
            "models are compared over the requests that all of them score: "
            f"{sums.uncompared:,} that only some score are left out"
        )
    for covered in sums.coverage:
        found = sums.models.get(covered.model)
        if found is None:
            yield f"{covered.model} has no usable score and is not compared"
        elif found.low == found.high:
            yield f"every score of {covered.model} is {found.low:g}: its order is that of ties"


def _policy(policy: Policy) -> tuple[tuple[str, str], ...]:
    named = [("ties", policy.ties), ("no_relevant", policy.no_relevant)]
    named.append(("missing", policy.missing))
    if policy.missing_in_ndcg:
        named.append(("missing_in_ndcg", policy.missing_in_ndcg))
    return tuple((name, str(value)) for name, value in named)


def _calibration(sums: Sums) -> Iterator[CalibrationBin]:
    for model, found in sums.models.items():
        if found.curve is None:
            continue
        keys = ["traffic", "kind", "bin"]
        curve = found.curve.groupby(keys, as_index=False)[["rows", "clicks", "predicted"]].sum()
        for row in curve.to_dict("records"):
            rows = int(row["rows"])
            yield CalibrationBin(
                *(model, str(row["traffic"]), str(row["kind"]), int(row["bin"]), rows),
                *(int(row["clicks"]), float(row["predicted"]) / rows),
            )
