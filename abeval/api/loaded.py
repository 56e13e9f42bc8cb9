"""Ask an experiment: most methods hand a `Run` (`logs/run.py`) to the room that answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

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
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.files import real
from abeval.progress import Step, silent

if TYPE_CHECKING:
    import pandas as pd

    from abeval.assignment.draws import Rule
    from abeval.logs.run import Inputs
    from abeval.offline.metrics import NoRelevant, Ties
    from abeval.results.agreement import Agreement
    from abeval.results.analysis import CheckResult, Pairwise, Result
    from abeval.results.off_policy import OffPolicyResult
    from abeval.results.power import Plans
    from abeval.results.replay import ReplayResult
    from abeval.results.study import Study
    from abeval.results.trust import AAResult, AuditResult
    from abeval.results.windows import TimeResult
    from abeval.time.time_sums import By


@dataclass(frozen=True)
class LoadedExperiment:
    """An experiment ready to be analysed.

    Attributes:
        experiment: What its file says.
    """

    experiment: Experiment

    def replace(self, **entries: Any) -> "LoadedExperiment":  # noqa: ANN401
        """Return the experiment with other top-level entries, validated anew.

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
        """Compute analysis, effects over time, A/A replays and replay, as far as the logs allow.

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
        from abeval.aggregates.collect import collect
        from abeval.experiment.metrics import named_metrics
        from abeval.inference.judge import pairwise
        from abeval.logs.run import opened

        metrics = named_metrics(self.experiment, [metric])
        with opened(self.experiment, inputs) as run:
            aggregates = collect(run, metrics)
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
        """Plan by its own logs what the experiment can see, or how long it needs.

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
        from abeval.inference.compare import Analysis
        from abeval.inference.power import Target, plan
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
            growths = growths_of(collected, chosen)
        analysis = Analysis(self.experiment, chosen, collected.aggregates)
        return plan(analysis, growths, Target(mde, days, power))

    def windows(
        self,
        *,
        metrics: Sequence[str] | None = None,
        widths: Sequence[int] = (3, 7),
        looks: Sequence[int] | None = None,
        by: Sequence["By"] = (),
        **inputs: "Unpack[Inputs]",
    ) -> "TimeResult":
        """Estimate effects by window, their stability, and what daily looks would have said.

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
        from abeval.time.time_sums import aa

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
        from abeval.audit import audit
        from abeval.logs.run import opened

        rules: dict[str, Rule | pd.Series[str]] = {}
        for name, other in (others or {}).items():
            rule = (
                other.experiment.assignment_rule if isinstance(other, LoadedExperiment) else other
            )
            if rule is None:
                hint = "name a CSV file of its units and variants instead"
                raise ExperimentError(f"{name!r} has no [assignment]", hint)
            rules[name] = rule
        with opened(self.experiment, inputs) as run:
            return audit(run, rules)

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
        **inputs: "Unpack[Inputs]",
    ) -> "OffPolicyResult":
        """Estimate what a policy would have had on the traffic of a variant with propensities.

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
            **inputs: As for `analyze`.

        Raises:
            ExperimentError: A variant is unknown, or not one policy is given.
            LogError: The log has no propensity, or the table is no policy.
        """
        from abeval.logs.run import opened
        from abeval.off_policy.log import PolicyChoice
        from abeval.off_policy.run import OffPolicyOptions, off_policy

        choice = PolicyChoice(to, probability, policy)
        options = OffPolicyOptions(tuple(clip), tuple(switch), tuple(shrink), min_ess=min_ess)
        reads = []
        if isinstance(policy, str | Path):
            reads = [str(real(self.experiment.folder / policy))]
        with opened(self.experiment, inputs, reads) as run:
            return off_policy(run, source, choice, options, reward)

    def replay(
        self,
        *,
        k: Sequence[int] = (1, 5, 10),
        metrics: Sequence[str] | None = None,
        compat: str | None = None,
        relevance: str = "click",
        ties: "Ties | None" = None,
        no_relevant: "NoRelevant | None" = None,
        threshold: float | None = None,
        kept_negatives: float | None = None,
        blend: Sequence[float] = (),
        bins: int = 10,
        split: str | Mapping[str, tuple[str, str]] | None = None,
        curve: int | None = None,
        k_by: tuple[str, Mapping[str, int]] | None = None,
        **inputs: "Unpack[Inputs]",
    ) -> "ReplayResult":
        """Score every model offline, on this experiment's log, and compare them in pairs.

        Args:
            k: Cut-offs.
            metrics: Ids such as `ndcg@10[bin]`; without, all on offer.
            compat: The library whose definitions and policies to follow.
            relevance: `click`, `long_click`, `dwell` (seconds), `similarity` (to what the unit
                clicked, by the vectors of items), `truth` (as the truth log has it), or an
                expression over the impression.
            ties: Which of equal scores comes first, instead of the policy's order.
            no_relevant: What a request without a relevant item counts as.
            threshold: The score from which on a click is predicted.
            kept_negatives: Share of non-clicks that the models were trained on, to be undone.
            blend: Shares of the treatment's model in a blend with control's.
            bins: Bins of the calibration curve and error.
            split: A column that names the split of each impression, or name → first and last day.
            curve: The largest cut-off of curves over 1, 2, …
            k_by: A column of the impressions, and its value → the cut-off there.
            **inputs: As for `analyze`.

        Raises:
            ExperimentError: An unknown metric, preset or model.
            LogError: The logs do not have what a replay needs.
        """
        from abeval.logs.run import opened
        from abeval.offline.replay import ReplayOptions, replay

        options = ReplayOptions(
            k=k,
            metrics=metrics,
            compat=compat,
            relevance=relevance,
            ties=ties,
            no_relevant=no_relevant,
            threshold=threshold,
            kept_negatives=kept_negatives,
            blend=blend,
            bins=bins,
            split=split,
            curve=curve,
            k_by=k_by,
        )
        with opened(self.experiment, inputs) as run:
            return replay(run, options)

    def agree(
        self,
        *,
        k: Sequence[int] = (1, 5, 10),
        metrics: Sequence[str] | None = None,
        **inputs: "Unpack[Inputs]",
    ) -> "Agreement":
        """Set the models' offline differences beside the effects online, and check why they differ.

        Runs `analyze` and `replay`, and reads a few facts of the logs.

        Args:
            k: Cut-offs.
            metrics: Ids of offline metrics; without, those of `abeval.agreement.agree.OFFLINE`.
            **inputs: As for `analyze`.

        Raises:
            ExperimentError: An unknown metric or model.
            LogError: A log is missing, unreadable, or not what the file says.

        Example:
            >>> import abeval
            >>> agreement = abeval.load("sample_logs/experiment.toml").agree()
            >>> agreement.found[0].name
            'position'
        """
        from abeval.aggregates.collect import Further, collect_prepared
        from abeval.agreement.agree import OFFLINE, joined, offline_columns, read_offline
        from abeval.experiment.metrics import named_metrics
        from abeval.logs.run import opened
        from abeval.offline.replay import ReplayOptions
        from abeval.pipeline import judged

        options = ReplayOptions(k=k, metrics=OFFLINE if metrics is None else metrics)
        further = Further(columns=offline_columns(self.experiment))
        with opened(self.experiment, inputs) as run:
            aggregates, logs = collect_prepared(
                run, named_metrics(self.experiment), further=further
            )
            offline = read_offline(run, options, logs.shape)
        result = judged(self.experiment, aggregates, run.step)
        return joined(result, offline, self.experiment)
