"""The half of the API that asks whether the groups and the log can be trusted.

`LoadedExperiment` of `loaded.py` inherits it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from abeval.bounds import MAX_REPLAYS, check_between, check_seed
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment

if TYPE_CHECKING:
    import pandas as pd

    from abeval.assignment.draws import Rule
    from abeval.logs.run import Inputs
    from abeval.results.analysis import CheckResult
    from abeval.results.trust import AAResult, AuditResult


@dataclass(frozen=True)
class TrustCalls:
    """What an experiment can be asked of its assignment and its log.

    Attributes:
        experiment: What its file says.
    """

    experiment: Experiment

    def check(self, **inputs: "Unpack[Inputs]") -> "CheckResult":
        """Check the split and the logs, without a scorecard.

        Args:
            **inputs: As for `analyze`.

        Raises:
            LogError: A log is missing, unreadable, or not what the file says.
            QueryError: The engine could not run a query.

        Example:
            >>> import abeval
            >>> checks = abeval.load("sample_logs/experiment.toml").check()
            >>> checks["srm"].status, checks.failed
            ('pass', ())
        """
        from abeval.aggregates.collect import collect
        from abeval.inference.trust.checks import check, checked_metrics, without_replays
        from abeval.logs.run import opened

        metrics = checked_metrics(self.experiment)
        with opened(without_replays(self.experiment), inputs) as run:
            aggregates = collect(run, metrics)
            run.step("checks")
        return check(self.experiment, metrics, aggregates)

    def aa(
        self,
        *,
        runs: int = 10_000,
        seed: int = 0,
        metrics: Sequence[str] | None = None,
        **inputs: "Unpack[Inputs]",
    ) -> "AAResult":
        """Replay A/A tests on the experiment's own logs: does each metric's test keep its level?

        Args:
            runs: Replays.
            seed: Of the re-splits.
            metrics: Some of the metrics; without, all of the scorecard.
            **inputs: As for `analyze`.

        Raises:
            ExperimentError: There is no such metric, or `runs` is less than 1.
        """
        from abeval.experiment.metrics import named_metrics
        from abeval.logs.run import opened
        from abeval.time.open import aa

        check_between("runs", runs, 1, MAX_REPLAYS)
        check_seed(seed)
        chosen = named_metrics(self.experiment, metrics)
        with opened(self.experiment, inputs) as run:
            return aa(run, chosen, runs, seed)

    def audit(
        self,
        *,
        others: "Mapping[str, TrustCalls | pd.Series[str]] | None" = None,
        **inputs: "Unpack[Inputs]",
    ) -> "AuditResult":
        """Compare the log's variants with those that [assignment] gives, unit by unit.

        Args:
            others: Name of another experiment → it, or the variant of each unit by unit id: are
                the two assigned independently?
            **inputs: As for `analyze`.

        Raises:
            ExperimentError: The file has no [assignment], and there are no others.
        """
        from abeval.audit import audit
        from abeval.logs.run import opened

        own = others or {}
        with opened(self.experiment, inputs) as run:
            return audit(run, {name: _rule_of(name, other) for name, other in own.items()})


def _rule_of(name: str, other: "TrustCalls | pd.Series[str]") -> "Rule | pd.Series[str]":
    if not isinstance(other, TrustCalls):
        return other
    rule = other.experiment.assignment_rule
    if rule is None:
        raise ExperimentError(
            f"{name!r} has no [assignment]", "name a CSV file of its units and variants instead"
        )
    return rule
