"""Analysis, effects over time, A/A replays, replay and outlook of one experiment.

`api/` calls it for `LoadedExperiment.study`, behind `abeval report EXPERIMENT.toml`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar, cast

from abeval.aggregates.collect import collect_prepared
from abeval.agreement.agree import OFFLINE, Offline, joined, read_offline
from abeval.engines.queries import recorded
from abeval.errors import AbevalError
from abeval.experiment.metrics import named_metrics
from abeval.experiment.model import Experiment
from abeval.inference.power_outlook import power_outlook
from abeval.logs.opened import opened
from abeval.logs.run import Inputs
from abeval.metrics.definition import Metric
from abeval.offline.metrics.ids import default_metrics
from abeval.offline.options import ReplayOptions
from abeval.offline.replay import replay
from abeval.pipeline import judged
from abeval.results.aa import AAResult
from abeval.results.agreement import Agreement
from abeval.results.analysis import Result
from abeval.results.replay import ReplayResult
from abeval.results.replay_choice import of_metrics
from abeval.results.study import Study
from abeval.results.windows import TimeResult
from abeval.study.provenance import provenance_of
from abeval.time.aa import aa
from abeval.time.analysis import windows
from abeval.time.growth import growths_of

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
    with recorded() as names:
        first = analysed(experiment, inputs)
        time, no_time = _tried("effects over time", lambda: _windows(experiment, metrics, inputs))
        replays, no_aa = _tried("A/A replays", lambda: _aa(experiment, metrics, inputs))
        models = _models(experiment, cast("Result", first.analysis), inputs)
    return replace(
        first,
        time=time,
        aa=replays,
        replay=models.replay,
        agreement=models.agreement,
        provenance=provenance_of(experiment, inputs, names),
        left_out=(*first.left_out, *no_time, *no_aa, *models.left_out),
    )


def analysed(experiment: Experiment, inputs: Inputs) -> Study:
    """The analysis, and how much longer it would take to see more: what the first screen needs.

    Raises:
        LogError: The logs cannot be read.
        QueryError: The engine could not run a query.
    """
    metrics = named_metrics(experiment)
    with opened(experiment, inputs) as run:
        collected = collect_prepared(run, metrics)
        growths, none = _tried("growth by day", lambda: growths_of(run, metrics, collected))
    aggregates = collected.aggregates
    outlook = power_outlook(experiment, metrics, aggregates, growths or {})
    return Study(analysis=judged(experiment, aggregates, run.step), outlook=outlook, left_out=none)


def _tried(what: str, make: Callable[[], Made]) -> tuple[Made | None, LeftOut]:
    """A result, or why there is none: the file or its logs do not have what it needs."""
    try:
        return make(), ()
    except AbevalError as error:
        return None, ((what, error.what),)


def _windows(experiment: Experiment, metrics: Sequence[Metric], inputs: Inputs) -> TimeResult:
    with opened(experiment, inputs) as run:
        return windows(run, metrics, WIDTHS, (), ())


def _aa(experiment: Experiment, metrics: Sequence[Metric], inputs: Inputs) -> AAResult:
    with opened(experiment, inputs) as run:
        return aa(run, metrics, _REPLAYS, _SEED)


class _Models(NamedTuple):
    """What is known of the models offline, and why the rest is not."""

    replay: ReplayResult | None
    agreement: Agreement | None
    left_out: LeftOut


def _models(experiment: Experiment, analysis: Result, inputs: Inputs) -> _Models:
    """Replay and agreement by one reading of the logs, or the replay alone."""
    read, no_agreement = _tried("agreement", lambda: _read_offline(experiment, inputs))
    if read is None or read.replay is None:
        replayed, no_replay = _tried("offline replay", lambda: _replay(experiment, inputs))
    else:
        replayed, no_replay = of_metrics(read.replay, _DEFAULT), ()
        read = read._replace(replay=of_metrics(read.replay, OFFLINE))
    agreed = None if read is None else joined(analysis, read, experiment)
    return _Models(replayed, agreed, (*no_replay, *no_agreement))


def _read_offline(experiment: Experiment, inputs: Inputs) -> Offline:
    """What an agreement reads, with the metrics of a replay and those of an agreement."""
    metrics = tuple(dict.fromkeys((*_DEFAULT, *OFFLINE)))
    with opened(experiment, inputs) as run:
        return read_offline(run, ReplayOptions(metrics=metrics))


def _replay(experiment: Experiment, inputs: Inputs) -> ReplayResult:
    with opened(experiment, inputs) as run:
        return replay(run, ReplayOptions())
