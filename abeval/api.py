"""The Python API: an experiment from a file or from Python, and all that can be asked of it.

`cli/` and users call it; most methods hand a `Run` (`logs/run.py`) to the room that answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from abeval.api_offline import OfflineCalls
from abeval.bounds import (
    MAX_DAYS,
    MAX_EFFECT,
    MAX_REPLAYS,
    MIN_DAYS,
    MIN_EFFECT,
    check_between,
    check_seed,
)
from abeval.errors import ExperimentError
from abeval.experiment.load import load_experiment, parse_experiment
from abeval.steps import Step, silent

if TYPE_CHECKING:
    import pandas as pd

    from abeval.aggregates.aggregates import Aggregates
    from abeval.assignment.draws import Rule
    from abeval.logs.run import Inputs
    from abeval.metrics.definition import Metric
    from abeval.results.aa import AAResult
    from abeval.results.analysis import Result
    from abeval.results.audit import AuditResult
    from abeval.results.check import CheckResult
    from abeval.results.pairwise import Pairwise
    from abeval.results.power import Plans
    from abeval.results.study import Study
    from abeval.results.windows import TimeResult
    from abeval.table import Metrics
    from abeval.time.clock import By


__all__ = ["LoadedExperiment", "analyze", "analyze_sums", "define", "load"]


@dataclass(frozen=True)
class LoadedExperiment(OfflineCalls):
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
        store: str | Path | None = None,
        save_aggregates: str | Path | None = None,
        **inputs: "Unpack[Inputs]",
    ) -> "Result":
        """Aggregate the logs, and judge.

        Args:
            store: A folder that keeps the sums of each input file, so that the next run reads only
                those that are new or changed.
            save_aggregates: A folder for what the result is judged by, which `from_aggregates`
                judges without a log.
            **inputs: `logs`, `connection`, `engine`, `step`, as `abeval.logs.run.Inputs` has them.

        Raises:
            LogError: A log is missing, unreadable, or not what the file says.
            QueryError: The engine could not run a query.
            ExperimentError: The sums of these logs cannot be stored, or the folder is no store.
        """
        from abeval.pipeline import analyze_logs

        return analyze_logs(self.experiment, inputs, store, save_aggregates)

    def study(self, **inputs: "Unpack[Inputs]") -> "Study":
        """Analysis, effects over time, A/A replays and replay, as far as the logs allow.

        Args:
            **inputs: As for `analyze`.

        Raises:
            LogError: As `analyze`; what only other parts need is in `left_out` instead.
        """
        from abeval.study.run import study

        return study(self.experiment, inputs)

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
        from abeval.pipeline import check_logs

        return check_logs(self.experiment, inputs)

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
        from abeval.inference.pairwise import pairwise

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
        from abeval.aggregates.collect import collect
        from abeval.experiment.metrics import named_metrics
        from abeval.inference.power import plan
        from abeval.pipeline import opened
        from abeval.time.growth import growth_of

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
            aggregates = collect(run, chosen, by_bucket=True)
            growths = growth_of(run, chosen) if len(aggregates.days) else {}
        return plan(self.experiment, chosen, aggregates, growths, mde, days, power)

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
        from abeval.pipeline import opened
        from abeval.time.aa import aa

        check_between("runs", runs, 1, MAX_REPLAYS)
        check_seed(seed)
        chosen = named_metrics(self.experiment, metrics)
        with opened(self.experiment, inputs) as run:
            return aa(run, chosen, runs, seed)

    def audit(
        self,
        *,
        others: "Mapping[str, LoadedExperiment | pd.Series[str]] | None" = None,
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
        from abeval.audit.run import audit
        from abeval.pipeline import opened

        own = others or {}
        with opened(self.experiment, inputs) as run:
            return audit(run, {name: _rule_of(name, other) for name, other in own.items()})

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
        from abeval.pipeline import opened
        from abeval.time.analysis import windows
        from abeval.time.clock import CLOCKS

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
        from abeval.pipeline import opened

        with opened(self.experiment, inputs) as run:
            return collect(run, metrics)


def _rule_of(name: str, other: "LoadedExperiment | pd.Series[str]") -> "Rule | pd.Series[str]":
    if not isinstance(other, LoadedExperiment):
        return other
    rule = other.experiment.assignment_rule
    if rule is None:
        raise ExperimentError(
            f"{name!r} has no [assignment]", "name a CSV file of its units and variants instead"
        )
    return rule


def load(path: str | Path) -> LoadedExperiment:
    """Read an experiment file.

    Args:
        path: A TOML file; relative paths of logs in it start from its folder.

    Raises:
        ExperimentError: The file is missing, is not TOML, or has mistakes; all of them are named.
    """
    return LoadedExperiment(load_experiment(path))


def analyze(
    table: object,
    *,
    variant: str,
    unit: str | None = None,
    metrics: "Metrics | None" = None,
    covariates: Sequence[str] = (),
    segments: Sequence[str] | Mapping[str, str] = (),
    control: str | None = None,
    weights: Mapping[str, float] | None = None,
    **entries: Any,  # noqa: ANN401
) -> "Result":
    """Analyse a table of one row a unit, without an experiment file.

    Args:
        table: A frame (pandas, Polars, Arrow, a DuckDB relation), or the path of a file.
        variant: The column of the variant.
        unit: The column of the unit; without it each row is a unit.
        metrics: Columns, whose means are compared; `"name = expression"`; a ratio of sums,
            `"ctr = clicks / views"`, or `{"ctr": ("clicks", "views")}`; or entries as those of
            `[[metrics]]`. Without it, every column of numbers.
        covariates: Columns that were measured before the experiment, for CUPED
            (`inference={"adjust": "regression"}` for regression).
        segments: Columns by which effects are shown too.
        control: The variant the others are compared with; without it one that is called so, or
            else the first by name.
        weights: Variant → intended share. Without it the shares are to be equal, and if they are
            far from it, the split is not checked.
        **entries: More top-level entries of an experiment file.

    Raises:
        LogError: The table cannot be read, or lacks a column.
        ExperimentError: A metric is none, or there are no two variants.

    Example:
        >>> import pandas as pd
        >>> rows = {"user": range(400), "group": ["a", "b"] * 200, "spent": [1, 2, 3, 5] * 100}
        >>> result = analyze(pd.DataFrame(rows), unit="user", variant="group", metrics=["spent"])
        >>> result["spent"].control, result["spent"].treatment
        (2.0, 3.5)
    """
    from abeval.table import TableOptions, table_experiment

    options = TableOptions(
        variant=variant,
        unit=unit,
        metrics=metrics,
        covariates=covariates,
        segments=segments,
        control=control,
        weights=weights,
        entries=entries,
    )
    loaded = LoadedExperiment(table_experiment(table, options))
    return loaded.analyze(logs={} if isinstance(table, str | Path) else {"units": table})


def analyze_sums(
    sums: object,
    *,
    control: str | None = None,
    weights: Mapping[str, float] | None = None,
    **entries: Any,  # noqa: ANN401
) -> "Result":
    """Analyse sums by metric, variant and day, without an experiment file; every metric is a goal.

    Args:
        sums: As for `LoadedExperiment.from_sums`.
        control: The variant the others are compared with; without it one that is called so, or
            else the first by name.
        weights: Variant → intended share; without it as for `analyze`.
        **entries: More top-level entries of an experiment file.

    Raises:
        LogError: A row is no sum.
        ExperimentError: A name is none, or there are no two variants.

    Example:
        >>> import pandas as pd
        >>> rows = {"metric": ["spent"] * 2, "variant": ["a", "b"], "n": [200, 200]}
        >>> sums = pd.DataFrame({**rows, "sum_y": [400.0, 700.0], "sum_yy": [1000.0, 3400.0]})
        >>> result = analyze_sums(sums)
        >>> result["spent"].control, result["spent"].treatment
        (2.0, 3.5)
    """
    from abeval.pipeline import judged_summaries
    from abeval.store.summaries import name_of, read_sums
    from abeval.sums_table import sums_experiment

    rows = read_sums(sums)
    experiment = sums_experiment(rows, sums, control, weights, entries)
    return judged_summaries(experiment, rows, name_of(sums))


def define(
    entries: Mapping[str, Any] | str | Path = ".",
    /,
    folder: str | Path | None = None,
    **more: Any,  # noqa: ANN401
) -> LoadedExperiment:
    """An experiment given in Python, with the entries that a file would have.

    Args:
        entries: The top-level entries of the file as a mapping; or, where they are keywords, the
            folder.
        folder: Where relative paths of logs start; the current one if it is not given.
        **more: Top-level entries of the file.

    Raises:
        ExperimentError: With every mistake.

    Example:
        >>> logs = {"impressions": {"path": "log.csv"}}
        >>> variants = {"a": {}, "b": {}}
        >>> loaded = define(name="x", unit="user", control="a", variants=variants, logs=logs)
        >>> loaded.experiment.treatments
        ['b']
    """
    if isinstance(entries, str | Path):
        return LoadedExperiment(parse_experiment(more, entries if folder is None else folder))
    if not isinstance(entries, Mapping):
        kind = type(entries).__name__
        raise ExperimentError(
            f"define() takes entries as a mapping or as keywords, not as {kind}",
            "for a file use abeval.load(path)",
        )
    return LoadedExperiment(parse_experiment({**entries, **more}, folder or "."))
