"""Analysis, effects over time, A/A replays, replay and outlook of one experiment.

`api/` calls it for `LoadedExperiment.study`, behind `abeval report EXPERIMENT.toml`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar, cast

from abeval.aggregates.collect import Collected, Further, collect_prepared
from abeval.agreement.agree import OFFLINE, Offline, joined, offline_columns, read_offline
from abeval.engines.sql import recorded
from abeval.errors import AbevalError
from abeval.experiment.metrics import named_metrics
from abeval.experiment.model import Experiment
from abeval.inference.power import power_outlook
from abeval.logs.run import Inputs, Run, opened
from abeval.logs.shape import LogShape
from abeval.metrics.definition import Metric
from abeval.offline.metrics import default_metrics
from abeval.offline.options import ReplayOptions
from abeval.offline.replay import replay
from abeval.pipeline import judged
from abeval.results.analysis import Result
from abeval.results.replay import ReplayResult, of_metrics
from abeval.results.study import Study
from abeval.study import provenance_of
from abeval.time.analysis import windows
from abeval.time.open import aa, opened_logs
from abeval.time.time_sums import growths_of

WIDTHS = (3, 7)
_REPLAYS, _SEED = 10_000, 0

_DEFAULT = tuple(metric.id for metric in default_metrics(ReplayOptions().k))
"""The metrics of a replay that names none."""

LeftOut = tuple[tuple[str, str], ...]
"""What was not computed, and why."""

Made = TypeVar("Made")


def study(experiment: Experiment, inputs: Inputs) -> Study:
    """Every result that the experiment and its logs allow, and why the others are not there.

    Raises:
        LogError: The analysis itself cannot read the logs.
        QueryError: The engine could not run a query of it.
    """
    metrics = named_metrics(experiment)
    with recorded() as names, opened(experiment, inputs) as run:
        collected, shape = _collected(run, metrics)
        first = analysed(run, collected)
        analysis = cast("Result", first.analysis)
        logs = opened_logs(run, metrics, *collected[1:])
        time, no_time = _tried(
            "effects over time", lambda: windows(run, metrics, WIDTHS, (), logs=logs)
        )
        replays, no_aa = _tried("A/A replays", lambda: aa(run, metrics, _REPLAYS, _SEED, logs))
        models = _models(run, shape)
    return replace(
        first,
        time=time,
        aa=replays,
        replay=models.replay,
        agreement=models.offline and joined(analysis, models.offline, experiment),
        provenance=provenance_of(experiment, inputs, names),
        left_out=(*first.left_out, *no_time, *no_aa, *models.left_out),
    )


def analysed(run: Run, collected: Collected) -> Study:
    """The analysis, and how much longer it would take to see more: what the first screen needs."""
    experiment, metrics = run.experiment, named_metrics(run.experiment)
    growths, none = _tried("growth by day", lambda: growths_of(run, metrics, collected))
    outlook = power_outlook(experiment, metrics, collected.aggregates, growths or {})
    analysis = judged(experiment, collected.aggregates, run.step)
    return Study(analysis=analysis, outlook=outlook, left_out=none)


def _collected(run: Run, metrics: Sequence[Metric]) -> tuple[Collected, LogShape | None]:
    """The aggregates, and the columns that models are compared by; None where the log lacks one."""
    further = Further(by_day=True, columns=offline_columns(run.experiment))
    try:
        collected = collect_prepared(run, metrics, further=further)
    except AbevalError:
        return collect_prepared(run, metrics, further=Further(by_day=True)), None
    return collected, collected.prepared.shape


def _tried(what: str, make: Callable[[], Made]) -> tuple[Made | None, LeftOut]:
    """A result, or why there is none: the file or its logs do not have what it needs."""
    try:
        return make(), ()
    except AbevalError as error:
        return None, ((what, error.what),)


class _Models(NamedTuple):
    """What is known of the models offline, and why the rest is not."""

    replay: ReplayResult | None
    offline: Offline | None
    left_out: LeftOut


def _models(run: Run, shape: LogShape | None) -> _Models:
    """Replay and what an agreement reads, or the replay alone."""
    # With the metrics of a replay and those of an agreement.
    options = ReplayOptions(metrics=tuple(dict.fromkeys((*_DEFAULT, *OFFLINE))))
    offline, no_agreement = _tried("agreement", lambda: read_offline(run, options, shape))
    if offline is None or offline.replay is None:
        replayed, no_replay = _tried("offline replay", lambda: replay(run, ReplayOptions()))
        return _Models(replayed, offline, (*no_replay, *no_agreement))
    own = offline._replace(replay=of_metrics(offline.replay, OFFLINE))
    return _Models(of_metrics(offline.replay, _DEFAULT), own, ())
