"""The offline half of the API: replays, off-policy estimates, and offline beside online.

`LoadedExperiment` of `loaded.py` inherits it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from abeval.experiment.model import Experiment
from abeval.files import real

if TYPE_CHECKING:
    from abeval.logs.run import Inputs
    from abeval.offline.metrics import NoRelevant, Ties
    from abeval.results.agreement import Agreement
    from abeval.results.off_policy import OffPolicyResult
    from abeval.results.replay import ReplayResult


@dataclass(frozen=True)
class OfflineCalls:
    """What an experiment can be asked of its models offline.

    Attributes:
        experiment: What its file says.
    """

    experiment: Experiment

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
        """What a policy would have had on the traffic of a variant that logs its propensities.

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
        from abeval.offline.options import ReplayOptions
        from abeval.offline.replay import replay

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
        from abeval.offline.options import ReplayOptions
        from abeval.pipeline import judged

        options = ReplayOptions(k=k, metrics=OFFLINE if metrics is None else metrics)
        further = Further(columns=offline_columns(self.experiment))
        with opened(self.experiment, inputs) as run:
            aggregates, prepared, _ = collect_prepared(
                run, named_metrics(self.experiment), further=further
            )
            offline = read_offline(run, options, prepared.shape)
        result = judged(self.experiment, aggregates, run.step)
        return joined(result, offline, self.experiment)
