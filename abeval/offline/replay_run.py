"""A prepared log, or a part of it, replayed: from what was shown to sums per unit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from abeval.engines.protocol import Engine
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.logs.shape import LogShape
from abeval.metrics.definition import Metric
from abeval.offline.candidates import impressions as replay_log
from abeval.offline.candidates.rows import Rows
from abeval.offline.candidates.score_log import add_score_log
from abeval.offline.candidates.shown import candidates, read_shown, write_rows
from abeval.offline.candidates.traffic import Units, read_units
from abeval.offline.candidates.truth_log import longest_shown, truth_accounts
from abeval.offline.candidates.vectors import rows_without_vector, vectors_asked
from abeval.offline.estimates.estimates import Estimates
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.metrics.presets import Policy
from abeval.offline.options import ReplayOptions
from abeval.offline.sums.run import run_models
from abeval.offline.sums.scores import ScoreOptions
from abeval.offline.sums.sums import Sums
from abeval.results.replayed_models import ReplayModel, replayed_models
from abeval.steps import Step


class Summed(NamedTuple):
    """The sums of some rows.

    Attributes:
        sums: Per unit.
        accounts: What was set aside or merged, counted.
        same_lists: Whether all models order the same items of a request.
        models: What was replayed.
    """

    sums: Sums
    accounts: list[tuple[str, int]]
    same_lists: bool
    models: tuple[ReplayModel, ...]


@dataclass(frozen=True)
class ReplayRun:
    """Replays a prepared log, or a part of it.

    Attributes:
        experiment: Whose models and logs they are.
        engine: Has the views of `prepare`.
        frames: Logs given from Python, by name.
        shape: What the logs have.
        options: How the replay is done.
        policy: Which requests count.
        relevance: Its expression, where it is one.
        truth: What the ground truth is about, where relevance is that.
        step: Told the name of each step as it begins.
    """

    experiment: Experiment
    engine: Engine
    frames: Mapping[str, object]
    shape: LogShape
    options: ReplayOptions
    policy: Policy
    relevance: Metric | None
    truth: str | None
    step: Step

    def sums(self, metrics: Sequence[OfflineMetric], where: str = "in_period") -> Summed:
        """The sums of the rows that a condition holds for."""
        experiment, engine, shape, options = self.experiment, self.engine, self.shape, self.options
        graded = (options.relevance, self.relevance, self.truth)
        replay_log.name_rows(experiment, engine, shape, *graded, where)
        blends = replay_log.blends_of(experiment, options.blend)
        scores = replay_log.model_scores(experiment, shape, options.kept_negatives, blends)
        units, ties = self._units(), self.policy.ties
        rows = self._rows(scores, units)
        accounts = [*write_rows(engine, rows, metrics), *self._accounts(metrics)]
        own, placed = candidates(scores, ties), "position" in shape.impressions
        log = add_score_log(experiment, engine, self.frames, ties, accounts, list(own), placed)
        sources, listed = own | log.candidates, list(log.candidates)
        replayed = replay_log.replayed(experiment, shape, sources, listed, rows)
        how = ScoreOptions(options.threshold, options.bins)
        sums = run_models(engine, replayed, units, metrics, self.policy, how, self.step)
        if self.truth is not None:
            # What was never shown has no place in any order of the list.
            sums = replace(sums, longest=longest_shown(engine))
        models = replayed_models(sources, log.stages, blends)
        return Summed(sums, accounts, replayed.same_lists, models)

    def estimates(self, metrics: Sequence[OfflineMetric], where: str = "in_period") -> Estimates:
        """The values of the rows that a condition holds for."""
        summed = self.sums(metrics, where)
        alpha, same_lists = self.experiment.alpha, summed.same_lists
        return Estimates(summed.sums, metrics, self.policy, alpha, same_lists)

    def _units(self) -> Units:
        units = read_units(self.engine)
        if not units.ids.size:
            what = "nothing to replay: no unit of a variant has an impression in the period"
            raise LogError(what, "check logs.impressions.path, [period], timezone and [variants]")
        return units

    def _rows(self, scores: Mapping[str, str], units: Units) -> Rows | None:
        """What was shown as arrays; a scores log is only read by queries."""
        if self.experiment.logs.scores is not None:
            return None
        has_requests = "request_id" in self.shape.impressions
        fetched = read_shown(self.engine, scores, self.policy.ties, has_requests)
        return None if fetched is None else fetched.of_units(units.ids)

    def _accounts(self, metrics: Sequence[OfflineMetric]) -> list[tuple[str, int]]:
        accounts = [] if self.truth is None else truth_accounts(self.engine)
        if vectors_asked(metrics, self.options.relevance):
            accounts.append(("rows_of_items_without_a_vector", rows_without_vector(self.engine)))
        return accounts
