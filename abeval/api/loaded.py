"""Ask an experiment; most methods hand a `Run` to the room that answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from abeval import bounds
from abeval.calls import explain_methods
from abeval.errors import ExperimentError
from abeval.experiment.load import parse_experiment
from abeval.experiment.metrics import find_metrics_by_name
from abeval.experiment.model import Experiment
from abeval.files import resolve_path
from abeval.logs.run import Inputs, open_run
from abeval.progress import ignore_step

if TYPE_CHECKING:
    import pandas as pd

    from abeval.aggregates.aggregates import Aggregates
    from abeval.assignment.draws import Rule
    from abeval.engines.sql import Engine
    from abeval.metrics.definition import Metric
    from abeval.offline.replay import ReplayKeywords
    from abeval.results.agreement import Agreement
    from abeval.results.analysis import CheckResult, Pairwise, Result
    from abeval.results.interleaving import InterleavingResult
    from abeval.results.off_policy import OffPolicyResult
    from abeval.results.power import Plans
    from abeval.results.replay import ReplayResult
    from abeval.results.study import Study
    from abeval.results.trust import AAResult, AuditResult
    from abeval.results.windows import TimeResult
    from abeval.table.counts import Sums
    from abeval.time.time_sums import By


@explain_methods
@dataclass(frozen=True)
class LoadedExperiment:
    """An experiment ready to be analysed.

    Methods that read logs take `logs`, `connection`, `engine` and `step` as `Inputs`
    (`abeval.logs.run`) has them.

    Attributes:
        experiment: What its file says.
        engine: The open engine that has read a table; `analyze` uses and closes it.
        sums: The table of sums or counts that stands in place of logs.
        is_table: Whether columns of a table make it, and no file.
    """

    experiment: Experiment
    engine: "Engine | None" = field(default=None, repr=False, compare=False)
    sums: "Sums | None" = field(default=None, repr=False, compare=False)
    is_table: bool = field(default=False, repr=False, compare=False)

    def replace(self, **entries: Any) -> "LoadedExperiment":  # noqa: ANN401
        """Return the experiment with other top-level entries, validated anew.

        Raises:
            ExperimentError: With every mistake.

        Example:
            >>> import abeval
            >>> abeval.load("sample_logs/experiment.toml").replace(alpha=0.01).experiment.alpha
            0.01
        """
        if self.engine is not None:
            self.engine.close()
        # What it includes stands in the entries already.
        current_entries = self.experiment.model_dump(
            exclude_unset=True, exclude={"folder", "include"}
        )
        # Validated as a whole: a new entry may contradict an old one.
        parsed = parse_experiment({**current_entries, **entries}, self.experiment.folder)
        return LoadedExperiment(parsed, sums=self.sums, is_table=self.is_table)

    def _find_sums(self, inputs: Inputs) -> "Sums | None":
        """Return the sums that stand in place of logs; None where there are logs."""
        if self.sums is None and self.experiment.logs.sums is not None:
            from abeval.table.sums import read_experiment_sums

            return read_experiment_sums(self.experiment, (inputs.get("logs") or {}).get("sums"))
        return self.sums

    def analyze(
        self,
        *,
        connect: str | None = None,
        history: str | Path | None = None,
        **inputs: Unpack[Inputs],
    ) -> "Result":
        """Analyse the experiment: aggregate its logs, and judge them.

        Args:
            connect: URI of a warehouse where `logs.*.table` are: one statement sums there, and only
                sums leave it (docs/data.md).
            history: File of past experiments, which say what to expect of a lift (`worth`).
            **inputs: As for every method that reads logs.

        Raises:
            LogError: A log is missing, unreadable, or not what the file says.
            QueryError: The engine could not run a query.
        """
        result = self._judge(connect, inputs)
        if history is None:
            return result
        from abeval.history.history import read_past
        from abeval.history.worth import shrink_worth

        return shrink_worth(result, read_past(Path(history)))

    def _judge(self, connect: str | None, inputs: Inputs) -> "Result":
        step = inputs.get("step") or ignore_step
        if connect is not None and self.experiment.interleaving is None:
            from abeval.table.warehouse import analyze_in_warehouse

            if extra_inputs := [name for name in inputs if name != "step"]:
                what = f"connect sums in a warehouse, which has no {', '.join(extra_inputs)}"
                raise ExperimentError(what, "give one of them")
            return analyze_in_warehouse(self.experiment, connect, step)
        from abeval.inference.judge import judge

        metrics = find_metrics_by_name(self.experiment)
        # The engine then gives back its memory: statistics of many items need some of their own.
        aggregated = self._aggregate(metrics, inputs, self.engine)
        step("inference")
        return judge(*aggregated)

    def _aggregate(
        self, metrics: "Sequence[Metric]", inputs: Inputs, engine: "Engine | None" = None
    ) -> "tuple[Experiment, Sequence[Metric], Aggregates]":
        """Aggregate the logs for some metrics, or the sums that stand in their place."""
        sums = self._find_sums(inputs)
        if sums is not None:
            from abeval.table.sums import aggregate_sums

            return aggregate_sums(self.experiment, metrics, sums)
        from abeval.aggregates.collect import collect

        with open_run(self.experiment, inputs, engine=engine) as run:
            return self.experiment, metrics, collect(run, metrics)

    def preferences(self, **inputs: Unpack[Inputs]) -> "InterleavingResult":
        """Estimate which ranker users prefer, from logs of interleaved lists.

        Raises:
            ExperimentError: The file has no [interleaving], or a metric cannot be credited.
            LogError: A log is missing, unreadable, or not what the file says.
        """
        from abeval.interleaving.run import analyze_lists

        return analyze_lists(self.experiment, inputs)

    def study(self, **inputs: Unpack[Inputs]) -> "Study":
        """Compute every result that the logs allow: analysis, time, A/A, replay.

        Raises `LogError` as `analyze`; what only other parts need is in `left_out` instead.
        """
        from abeval.study import make_provenance, study

        if self.experiment.logs.sums is not None:
            from abeval.results.study import Study

            provenance = make_provenance(self.experiment, inputs, {})
            left_out = (("effects over time, A/A replays, models", "sums have no rows"),)
            return Study(self.analyze(**inputs), provenance=provenance, left_out=left_out)
        return study(self.experiment, inputs)

    def from_sums(self, sums: object) -> "Result":
        """Judge sums by metric, variant and day, as a warehouse has them: no log is read.

        Args:
            sums: A frame, or a file (Parquet, CSV, JSON), with columns `metric`, `variant`, `n`,
                `sum_y`, `sum_yy`; of a ratio `sum_x`, `sum_xx`, `sum_xy`; of values before the
                period `sum_c`, `sum_cc`, `sum_cy`; `day`, empty for the whole period. Or counts:
                `variant`, `n` and successes, or `variant`, `n`, `mean` and `sd`.

        Raises:
            LogError: A row is no sum, or of another variant.
            ExperimentError: The experiment asks for what sums cannot give, which is named.
        """
        from abeval.table.sums import judge_sums, read_experiment_sums

        return judge_sums(self.experiment, read_experiment_sums(self.experiment, sums))

    def compare(self, metric: str, **inputs: Unpack[Inputs]) -> "Pairwise":
        """Compare every two variants on one metric, p-values adjusted over all pairs."""
        from abeval.inference.judge import compare_variant_pairs

        chosen = find_metrics_by_name(self.experiment, [metric])
        experiment, metrics, aggregates = self._aggregate(chosen, inputs)
        return compare_variant_pairs(experiment, metrics, metrics[0], aggregates)

    def power(
        self,
        *,
        mde: float | None = None,
        days: float | None = None,
        power: float = 0.8,
        metrics: Sequence[str] | None = None,
        **inputs: Unpack[Inputs],
    ) -> "Plans":
        """Plan the detectable effect, or the days needed, from the experiment's logs.

        Args:
            mde: Relative effect to find, such as 0.01; days and units follow. Of interleaved lists
                the preference, such as 0.05, which has no days.
            days: Length of the experiment; the smallest effect follows.
            power: Wanted probability of finding it.
            metrics: Some of the metrics; without, goals and guardrails.

        Raises:
            ExperimentError: A metric is unknown, or a number makes no sense.
        """
        from abeval.aggregates.collect import collect_prepared
        from abeval.inference.compare import Analysis
        from abeval.inference.power import Target, plan
        from abeval.time.time_sums import find_growth_by_metric

        if mde is not None and days is not None:
            raise ExperimentError("give mde or days, not both: each follows from the other")
        if not self.experiment.alpha < power < 1:
            raise ExperimentError(f"power {power} must lie between alpha and 1")
        if mde is not None:
            bounds.check_between("mde", mde, bounds.MIN_EFFECT, bounds.MAX_EFFECT)
        if days is not None:
            bounds.check_between("days", days, bounds.MIN_DAYS, bounds.MAX_DAYS)
        if (lists := self.experiment.interleaving) is not None:
            from abeval.interleaving.run import plan_lists

            if days is not None:
                raise ExperimentError("interleaved lists are planned in units", "give mde")
            return plan_lists(self.experiment, lists, inputs, (mde, power), metrics)
        chosen = find_metrics_by_name(self.experiment, metrics)
        if not metrics:
            chosen = [m for m in chosen if m.role != "diagnostic"]
        with open_run(self.experiment, inputs) as run:
            # Sums by day show how fast units grow, without which days cannot be planned.
            collected = collect_prepared(run, chosen, by_bucket=True, by_day=True, units_read=False)
            growths = find_growth_by_metric(collected, chosen)
        analysis = Analysis(self.experiment, chosen, collected.aggregates)
        return plan(analysis, growths, Target(mde, days, power))

    def windows(
        self,
        *,
        metrics: Sequence[str] | None = None,
        widths: Sequence[int] = (3, 7),
        looks: Sequence[int] | None = None,
        by: Sequence["By"] = (),
        **inputs: Unpack[Inputs],
    ) -> "TimeResult":
        """Estimate effects by window, their stability, and the result of daily looks.

        Args:
            metrics: Some of the metrics; without, all of the scorecard.
            widths: Days of the rolling windows.
            looks: Days (1, 2, ...) of planned looks, for group-sequential bounds.
            by: `hour` and `weekday`: effects by these too.

        Raises:
            ExperimentError: There is no such metric, or a number makes no sense.
            LogError: The log has no time.
        """
        from abeval.time.analysis import analyze_windows
        from abeval.time.cut import CLOCKS

        if any(days < 1 for days in (*widths, *(looks or ()))):
            raise ExperimentError("widths and looks are numbers of days, at least 1")
        if unknown := [name for name in by if name not in CLOCKS]:
            raise ExperimentError(
                f"no windows by {unknown[0]!r}", f"choose from {', '.join(CLOCKS)}"
            )
        chosen = find_metrics_by_name(self.experiment, metrics)
        with open_run(self.experiment, inputs) as run:
            return analyze_windows(run, chosen, widths, looks or (), by)

    def check(self, **inputs: Unpack[Inputs]) -> "CheckResult":
        """Check the split and the logs, without a scorecard.

        Example:
            >>> import abeval
            >>> checks = abeval.load("sample_logs/experiment.toml").check()
            >>> checks["srm"].status, checks.failed_checks
            ('pass', ())
        """
        from abeval.aggregates.collect import collect
        from abeval.inference.trust.checks import check, disable_replays, list_checked_metrics

        if self.sums is not None or self.experiment.logs.sums is not None:
            return check(*self._aggregate(find_metrics_by_name(self.experiment), inputs))
        metrics = list_checked_metrics(self.experiment)
        # A check has no scorecard whose tests could be replayed.
        with open_run(disable_replays(self.experiment), inputs) as run:
            aggregates = collect(run, metrics)
            run.step("checks")
        return check(self.experiment, metrics, aggregates)

    def aa(
        self,
        *,
        runs: int = 10_000,
        seed: int = 0,
        metrics: Sequence[str] | None = None,
        **inputs: Unpack[Inputs],
    ) -> "AAResult":
        """Replay A/A tests on the logs: does each metric's test keep its level?

        Raises:
            ExperimentError: A metric is unknown, or `runs` is less than 1.
        """
        from abeval.aggregates.collect import collect_prepared
        from abeval.inference.aa import replay_aa

        bounds.check_between("runs", runs, 1, bounds.MAX_REPLAYS)
        bounds.check_seed(seed)
        chosen = find_metrics_by_name(self.experiment, metrics)
        with open_run(self.experiment, inputs) as run:
            # Metrics without replays are named as refused, with the reason.
            replayed = [metric for metric in chosen if metric.source.no_replays is None]
            aggregates = collect_prepared(run, replayed, replays=True, units_read=False).aggregates
            run.step("replays")
            return replay_aa(self.experiment, chosen, aggregates, runs, seed)

    def audit(
        self,
        *,
        others: Mapping[str, Any] | None = None,
        **inputs: Unpack[Inputs],
    ) -> "AuditResult":
        """Compare the log's variants with those that [assignment] gives, unit by unit.

        Args:
            others: Name of another experiment → it, or the variant of each unit by unit id: are
                the two assigned independently, and does the effect on a goal or guardrail differ
                between the other's variants?

        Raises:
            ExperimentError: The file has no [assignment], and there are no others.
        """
        from abeval.aggregates.collect import collect_prepared
        from abeval.audit import audit, find_variants
        from abeval.inference.compare import Analysis
        from abeval.inference.segments import find_interactions

        rules: dict[str, Rule | pd.Series[str]] = {}
        for name, other in (others or {}).items():
            rule = (
                other.experiment.assignment_rule if isinstance(other, LoadedExperiment) else other
            )
            # A Series is told by its method: pandas is not imported for the check.
            if not isinstance(other, LoadedExperiment) and not hasattr(other, "to_frame"):
                what = f"others: {name!r} is neither an experiment nor the variants of units"
                raise ExperimentError(what, "load it, or give a Series of variants by unit id")
            if rule is None:
                hint = "name a CSV file of its units and variants instead"
                raise ExperimentError(f"{name!r} has no [assignment]", hint)
            rules[name] = rule
        judged = [m for m in find_metrics_by_name(self.experiment) if m.role != "diagnostic"]
        with open_run(self.experiment, inputs) as run:
            result = audit(run, rules)
            # Effects of units that share a cluster are no sums of single units.
            if not rules or not judged or self.experiment.design is not None:
                return result
            aggregates = collect_prepared(run, judged, others=find_variants(rules)).aggregates
        analysis = Analysis(self.experiment, judged, aggregates)
        tested, untested = find_interactions(analysis, [*rules])
        return replace(result, interactions=tested, untested=untested)

    def off_policy(
        self,
        source: str,
        *,
        to: str | None = None,
        probability: str | None = None,
        policy: object | None = None,
        reward: str | None = None,
        clip: Sequence[float] = (10.0,),
        switch: Sequence[float] = (10.0,),
        shrink: Sequence[float] = (100.0,),
        min_ess: float = 100.0,
        **inputs: Unpack[Inputs],
    ) -> "OffPolicyResult":
        """Estimate the clicks or reward of a policy from a variant with propensities.

        The policy is given as one of `to`, `probability` and `policy`.

        Args:
            source: The variant whose log is used.
            to: A variant: how often it shows each item at each position.
            probability: A column of the impressions: the policy's probability of the logged item.
            policy: A frame, or a file, of `item_id`, `probability` and maybe `position`.
            reward: A column of the impressions that is earned, instead of the click.
            clip: Caps of clipped IPS.
            switch: Thresholds of SwitchDR.
            shrink: λ of DRos.
            min_ess: Effective sample size below which nothing is estimated.

        Raises:
            ExperimentError: A variant is unknown, or not one policy is given.
            LogError: The log has no propensity, or the table is no policy.
        """
        from abeval.off_policy.log import PolicyChoice
        from abeval.off_policy.run import OffPolicyOptions, evaluate_policy

        choice = PolicyChoice(to, probability, policy)
        options = OffPolicyOptions(tuple(clip), tuple(switch), tuple(shrink), min_ess=min_ess)
        # The file of a policy is among those that the run may read.
        reads = []
        if isinstance(policy, str | Path):
            reads = [str(resolve_path(self.experiment.folder / policy))]
        with open_run(self.experiment, inputs, reads) as run:
            return evaluate_policy(run, source, choice, options, reward)

    def replay(self, **options: "Unpack[ReplayKeywords]") -> "ReplayResult":
        """Score every model offline, on this experiment's log, and compare them in pairs.

        The options are the keywords of `ReplayOptions` in `abeval.offline.replay`: `k`, `metrics`,
        `compat`, `relevance`, `ties`, `no_relevant`, `threshold`, `kept_negatives`, `bins`,
        `curve` and `where`; and `Inputs`.

        Raises:
            ExperimentError: An unknown metric, preset or model.
            LogError: The logs do not have what a replay needs.
        """
        from abeval.offline.replay import replay_logs

        return replay_logs(self.experiment, options)

    def agree(
        self,
        *,
        k: Sequence[int] = (1, 5, 10),
        metrics: Sequence[str] | None = None,
        history: str | Path | None = None,
        **inputs: Unpack[Inputs],
    ) -> "Agreement":
        """Compare offline differences with online effects, and check why they differ.

        Runs `analyze` and `replay`, and reads a few facts of the logs.

        Without `metrics` they are those of `abeval.agreement.agree.OFFLINE`. Where the logs cannot
        say what the candidate promised, a `history` of past experiments does.

        Raises:
            ExperimentError: An unknown metric or model, or there is no such history.
            LogError: A log is missing, unreadable, or not what the file says.

        Example:
            >>> import abeval
            >>> agreement = abeval.load("sample_logs/experiment.toml").agree()
            >>> agreement.confirmed_causes[0].name
            'position'
        """
        from abeval.aggregates.collect import collect_prepared
        from abeval.agreement.agree import (
            OFFLINE,
            build_agreement,
            choose_offline_columns,
            read_offline,
        )
        from abeval.history.history import read_past
        from abeval.inference.judge import judge
        from abeval.offline.replay import ReplayOptions

        past = () if history is None else read_past(Path(history))
        options = ReplayOptions(k=k, metrics=OFFLINE if metrics is None else metrics)
        # Columns of models are read in the same pass as those of metrics.
        extra, scorecard = (
            choose_offline_columns(self.experiment),
            find_metrics_by_name(self.experiment),
        )
        with open_run(self.experiment, inputs) as run:
            aggregates, logs = collect_prepared(run, scorecard, extra=extra)
            offline = read_offline(run, options, logs.schema)
        run.step("inference")
        result = judge(self.experiment, scorecard, aggregates)
        return build_agreement(result, offline, self.experiment, past)
