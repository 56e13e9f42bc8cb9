"""An experiment ready to be analysed, and all that can be asked of it.

`cli/` and users call it; most methods hand a `Run` (`logs/run.py`) to the room that answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from abeval.api.offline import OfflineCalls
from abeval.api.trust import TrustCalls
from abeval.bounds import (
    MAX_DAYS,
    MAX_EFFECT,
    MIN_DAYS,
    MIN_EFFECT,
    check_between,
)
from abeval.errors import ExperimentError
from abeval.experiment.load import parse_experiment
from abeval.progress import Step, silent

if TYPE_CHECKING:
    from abeval.aggregates.aggregates import Aggregates
    from abeval.logs.run import Inputs
    from abeval.metrics.definition import Metric
    from abeval.results.analysis import Pairwise, Result
    from abeval.results.power import Plans
    from abeval.results.study import Study
    from abeval.results.windows import TimeResult
    from abeval.time.cut import By


@dataclass(frozen=True)
class LoadedExperiment(TrustCalls, OfflineCalls):
    """An experiment ready to be analysed.

    Attributes:
        experiment: What its file says.
    """

    def replace(self, **entries: Any) -> "LoadedExperiment":  # noqa: ANN401
        """The same experiment with other top-level entries, validated anew.

        Raises:
            ExperimentError: With every mistake.

        Example:
            >>> import abeval
            >>> abeval.load("sample_logs/experiment.toml").replace(alpha=0.01).experiment.alpha
            0.01
        """
        own = self.experiment.model_dump(exclude_unset=True, exclude={"folder"})
        if "include" not in entries:
            # What they include stands in the entries already.
            own["overrides"] = self.experiment.overrides
        return LoadedExperiment(parse_experiment({**own, **entries}, self.experiment.folder))

    def analyze(
        self,
        *,
        save_aggregates: str | Path | None = None,
        **inputs: "Unpack[Inputs]",
    ) -> "Result":
        """Aggregate the logs, and judge.

        Args:
            save_aggregates: A folder for what the result is judged by, which `from_aggregates`
                judges without a log.
            **inputs: `logs`, `connection`, `engine`, `step`, as `abeval.logs.run.Inputs` has them.

        Raises:
            LogError: A log is missing, unreadable, or not what the file says.
            QueryError: The engine could not run a query.
            ExperimentError: The folder cannot be written, or would replace an input.
        """
        from abeval.pipeline import analyze_logs

        return analyze_logs(self.experiment, inputs, save_aggregates)

    def study(self, **inputs: "Unpack[Inputs]") -> "Study":
        """Analysis, effects over time, A/A replays and replay, as far as the logs allow.

        Args:
            **inputs: As for `analyze`.

        Raises:
            LogError: As `analyze`; what only other parts need is in `left_out` instead.
        """
        from abeval.study import study

        return study(self.experiment, inputs)

    def from_aggregates(self, folder: str | Path, *, step: Step | None = None) -> "Result":
        """Judge what `analyze(save_aggregates=folder)` wrote: no log is read, no engine started.

        Alpha, families, looks, roles, margins and directions may be other than they were.

        A folder with `logged_sums.parquet` (or `.csv`) alone, as the user's warehouse computed it,
        gives the metrics that are sums per unit and day, with DuckDB; of the experiment's logs only
        the columns count.

        Args:
            folder: Where the aggregates are.
            step: Called with the name of each step as it begins.

        Raises:
            ExperimentError: They are not there, not whole, or were made by other definitions.
        """
        from abeval.pipeline import judged_folder

        return judged_folder(self.experiment, Path(folder), step or silent)

    def from_sums(self, sums: object) -> "Result":
        """Judge sums by metric, variant and day, as a warehouse has them: no log is read.

        Args:
            sums: A frame, or a file (Parquet, CSV, JSON), with columns `metric`, `variant`, `n`,
                `sum_y`, `sum_yy`; of a ratio `sum_x`, `sum_xx`, `sum_xy`; of values before the
                period `sum_c`, `sum_cc`, `sum_cy`; `day`, empty for the whole period.

        Raises:
            LogError: A row is no sum, or of another variant.
            ExperimentError: The experiment asks for what sums cannot give, which is named.
        """
        from abeval.pipeline import judged_summaries
        from abeval.store.summaries import name_of, read_sums

        return judged_summaries(self.experiment, read_sums(sums), name_of(sums))

    def compare(
        self,
        metric: str,
        **inputs: "Unpack[Inputs]",
    ) -> "Pairwise":
        """Compare every two variants on one metric, p-values adjusted over all pairs.

        Args:
            metric: One of the experiment's metrics, or a built-in one.
            **inputs: As for `analyze`.

        Raises:
            ExperimentError: There is no such metric.
        """
        from abeval.experiment.metrics import named_metrics
        from abeval.inference.judge import pairwise

        metrics = named_metrics(self.experiment, [metric])
        aggregates = self._aggregate(metrics, inputs)
        return pairwise(self.experiment, metrics, metrics[0], aggregates)

    def power(
        self,
        *,
        mde: float | None = None,
        days: float | None = None,
        power: float = 0.8,
        metrics: Sequence[str] | None = None,
        **inputs: "Unpack[Inputs]",
    ) -> "Plans":
        """What the experiment can see, or how long it needs, from its own logs.

        Args:
            mde: Relative effect to find, such as 0.01; days and units follow.
            days: Length of the experiment; the smallest effect follows.
            power: Wanted probability of finding it.
            metrics: Some of the metrics; without, goals and guardrails.
            **inputs: As for `analyze`.

        Raises:
            ExperimentError: There is no such metric, or a number makes no sense.
        """
        from abeval.aggregates.collect import Further, collect_prepared
        from abeval.experiment.metrics import named_metrics
        from abeval.inference.power import plan
        from abeval.logs.run import opened
        from abeval.time.time_sums import growths_of

        if mde is not None and days is not None:
            raise ExperimentError("give mde or days, not both: each follows from the other")
        if not self.experiment.alpha < power < 1:
            raise ExperimentError(f"power {power} must lie between alpha and 1")
        if mde is not None:
            check_between("mde", mde, MIN_EFFECT, MAX_EFFECT)
        if days is not None:
            check_between("days", days, MIN_DAYS, MAX_DAYS)
        chosen = named_metrics(self.experiment, metrics)
        if not metrics:
            chosen = [m for m in chosen if m.role != "diagnostic"]
        with opened(self.experiment, inputs) as run:
            further = Further(units=False, by_day=True)
            collected = collect_prepared(run, chosen, by_bucket=True, further=further)
            growths = growths_of(run, chosen, collected)
        return plan(self.experiment, chosen, collected.aggregates, growths, mde, days, power)

    def windows(
        self,
        *,
        metrics: Sequence[str] | None = None,
        widths: Sequence[int] = (3, 7),
        looks: Sequence[int] | None = None,
        by: Sequence["By"] = (),
        **inputs: "Unpack[Inputs]",
    ) -> "TimeResult":
        """Effects by window, whether they are stable, and what looking every day would have said.

        Args:
            metrics: Some of the metrics; without, all of the scorecard.
            widths: Days of the rolling windows.
            looks: Days (1, 2, ...) of planned looks, for group-sequential bounds.
            by: `hour` and `weekday`: effects by these too.
            **inputs: As for `analyze`.

        Raises:
            ExperimentError: There is no such metric, or a number makes no sense.
            LogError: The log has no time.
        """
        from abeval.experiment.metrics import named_metrics
        from abeval.logs.run import opened
        from abeval.time.analysis import windows
        from abeval.time.cut import CLOCKS

        if any(days < 1 for days in (*widths, *(looks or ()))):
            raise ExperimentError("widths and looks are numbers of days, at least 1")
        if unknown := [name for name in by if name not in CLOCKS]:
            raise ExperimentError(
                f"no windows by {unknown[0]!r}", f"choose from {', '.join(CLOCKS)}"
            )
        chosen = named_metrics(self.experiment, metrics)
        with opened(self.experiment, inputs) as run:
            return windows(run, chosen, widths, looks or (), by)

    def over_time(
        self,
        *,
        metrics: Sequence[str] | None = None,
        widths: Sequence[int] = (3, 7),
        looks: Sequence[int] | None = None,
        by: Sequence["By"] = (),
        **inputs: "Unpack[Inputs]",
    ) -> "TimeResult":
        """The name of `windows` before abeval 0.2; it goes with the next release."""
        return self.windows(metrics=metrics, widths=widths, looks=looks, by=by, **inputs)

    def _aggregate(self, metrics: "Sequence[Metric]", inputs: "Inputs") -> "Aggregates":
        from abeval.aggregates.collect import collect
        from abeval.logs.run import opened

        with opened(self.experiment, inputs) as run:
            return collect(run, metrics)
