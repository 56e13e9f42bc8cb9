"""Analysis, effects over time, A/A replays, replay and outlook of one experiment.

`api.py` calls it for `LoadedExperiment.study`, behind `abeval report EXPERIMENT.toml`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from abeval.aggregates.collect import collect
from abeval.agreement.agree import OFFLINE, agree
from abeval.engines.queries import recorded
from abeval.errors import AbevalError
from abeval.experiment.metrics import named_metrics
from abeval.experiment.model import Experiment
from abeval.inference.growth import Growth
from abeval.inference.power_outlook import power_outlook
from abeval.logs.run import Inputs, Run
from abeval.metrics.definition import Metric
from abeval.offline.options import ReplayOptions
from abeval.offline.replay import replay
from abeval.pipeline import judged, opened
from abeval.results.aa import AAResult
from abeval.results.agreement import Agreement
from abeval.results.analysis import Result
from abeval.results.replay import ReplayResult
from abeval.results.study import Study
from abeval.results.windows import TimeResult
from abeval.study.provenance import provenance_of
from abeval.time.aa import aa
from abeval.time.analysis import windows
from abeval.time.growth import growth_of

WIDTHS = (3, 7)
_REPLAYS, _SEED = 10_000, 0

Made = TypeVar("Made")


def study(experiment: Experiment, inputs: Inputs) -> Study:
    """Every result that the experiment and its logs allow, and why the others are not there.

    Raises:
        LogError: The analysis itself cannot read the logs.
        QueryError: The engine could not run a query of it.
    """
    metrics = named_metrics(experiment)
    with recorded() as names:
        with opened(experiment, inputs) as run:
            aggregates = collect(run, metrics)
            growths = _growths(run, metrics) if len(aggregates.days) else {}
        analysis = judged(experiment, aggregates, run.step)
        outlook = power_outlook(experiment, _judging(metrics), aggregates, growths)
        time, no_time = _tried("effects over time", lambda: _windows(experiment, metrics, inputs))
        replays, no_aa = _tried("A/A replays", lambda: _aa(experiment, metrics, inputs))
        offline, no_offline = _tried("offline replay", lambda: _replay(experiment, inputs))
        agreed, no_agreement = _tried("agreement", lambda: _agree(experiment, analysis, inputs))
    return Study(
        analysis=analysis,
        time=time,
        aa=replays,
        replay=offline,
        agreement=agreed,
        outlook=outlook,
        provenance=provenance_of(experiment, inputs, names),
        left_out=(*no_time, *no_aa, *no_offline, *no_agreement),
    )


def _judging(metrics: Sequence[Metric]) -> list[Metric]:
    return [metric for metric in metrics if metric.role != "diagnostic"]


def _growths(run: Run, metrics: Sequence[Metric]) -> dict[str, Growth]:
    growths, _ = _tried("outlook", lambda: growth_of(run, metrics))
    return growths or {}


def _tried(what: str, make: Callable[[], Made]) -> tuple[Made | None, tuple[tuple[str, str], ...]]:
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


def _agree(experiment: Experiment, analysis: Result, inputs: Inputs) -> Agreement:
    return agree(analysis, partial(opened, experiment, inputs), ReplayOptions(metrics=OFFLINE))


def _replay(experiment: Experiment, inputs: Inputs) -> ReplayResult:
    with opened(experiment, inputs) as run:
        return replay(run, ReplayOptions())
