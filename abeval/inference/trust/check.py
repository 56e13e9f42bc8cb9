"""The checks without a scorecard, from aggregates of the metrics that they need.

`api/trust.py` calls it, for `abeval check`.
"""

from collections.abc import Sequence
from dataclasses import replace

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.wanted import reads_rows
from abeval.errors import masked
from abeval.experiment.metrics import known_metrics, named_metrics
from abeval.experiment.model import Experiment
from abeval.inference import context
from abeval.inference.compare import Analysis
from abeval.inference.trust.checks import trust_checks
from abeval.inference.trust.finding import skipped
from abeval.inference.trust.split import split_days, split_places
from abeval.metrics.definition import Metric
from abeval.results.analysis import CheckResult
from abeval.simulate.world import NAME as AA

_ELSEWHERE = "an analysis: the checks do not compute it"
_NO_REPLAYS = skipped(AA, "A/A replays are of `abeval analyze` and `abeval aa`")


def checked_metrics(experiment: Experiment) -> list[Metric]:
    """The metrics whose sums the checks need: those of the one pass over the log.

    Without any, the impressions per unit, which every log has.
    """
    metrics = [m for m in named_metrics(experiment) if m.source.per_unit and not reads_rows(m)]
    return metrics or [known_metrics(experiment)["impressions_per_user"]]


def without_replays(experiment: Experiment) -> Experiment:
    """The experiment without A/A replays: they check tests of metrics, and cost most of a check."""
    trust = experiment.trust.model_copy(update={"aa_runs": 0})
    return experiment.model_copy(update={"trust": trust})


def check(experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates) -> CheckResult:
    """What the checks say.

    Args:
        experiment: The plan.
        metrics: Those that were computed. The checks name all of the scorecard that they touch.
        aggregates: What the logs add up to.
    """
    names = {metric.name for metric in metrics}
    others = [m for m in named_metrics(experiment) if m.name not in names]
    refused = {m.name: (_ELSEWHERE,) for m in others} | dict(aggregates.refused)
    analysis = Analysis(experiment, [*metrics, *others], replace(aggregates, refused=refused))
    checks = [_NO_REPLAYS if one.name == AA else one for one in trust_checks(analysis)]
    return CheckResult(
        experiment=context.experiment_info(experiment, aggregates),
        trust=tuple(replace(one, message=masked(one.message)) for one in checks),
        accounting=context.accounting(aggregates),
        notes=tuple(map(masked, aggregates.notes)),
        split_days=split_days(experiment, aggregates),
        split_places=split_places(experiment, aggregates),
    )
