"""A prepared log, or a part of it, replayed: from impressions to sums per unit.

`offline/replay.py` prepares the log and makes a `ReplayRun`; it asks for the sums of the whole log,
and for the `Estimates` of its parts (splits, values of a column) and of curves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from abeval.errors import LogError
from abeval.logs.mapping import LogColumns
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.offline.candidates import (
    TIE,
    Units,
    read_units,
    shown_candidates,
    shown_points,
    write_rows,
)
from abeval.offline.estimates import Estimates
from abeval.offline.impressions import (
    Relevance,
    blends_of,
    experiment_candidates,
    model_scores,
    name_impressions,
    replayed_models,
)
from abeval.offline.kernels import without_kernel
from abeval.offline.metrics import OfflineMetric, Scoring
from abeval.offline.options import ReplayOptions
from abeval.offline.other_logs import (
    judge_scores,
    longest_shown,
    needs_vectors,
    rows_without_vector,
    truth_accounts,
)
from abeval.offline.rows import Rows, read_rows
from abeval.offline.sums import Sums, run_models
from abeval.results.replay import ReplayModel


class Summed(NamedTuple):
    """The sums of some rows.

    Attributes:
        sums: Per unit.
        accounts: What was left out or merged, counted.
        models: The models that were replayed.
    """

    sums: Sums
    accounts: list[tuple[str, int]]
    models: tuple[ReplayModel, ...]


@dataclass(frozen=True)
class ReplayRun:
    """Replays a prepared log, or a part of it.

    Attributes:
        run: The experiment and an engine with the views of `prepare`.
        shape: The columns of the logs.
        score_log: The columns of the scores log; None without one.
        relevance: What makes an item relevant.
        options: The options of the replay.
        scoring: The metrics and their options.
    """

    run: Run
    shape: LogShape
    score_log: LogColumns | None
    relevance: Relevance
    options: ReplayOptions
    scoring: Scoring

    def sums(self, scoring: Scoring, where: str = "in_period") -> Summed:
        """The sums of the impressions that meet a condition."""
        experiment, engine, shape = self.run.experiment, self.run.engine, self.shape
        name_impressions(experiment, engine, shape, self.relevance, where)
        blends = blends_of(experiment, self.options.blend)
        scores = model_scores(experiment, shape, self.options.kept_negatives, blends)
        units = self._units()
        rows = self._rows(scores, units)
        queried = bool(without_kernel(scoring.metrics, rows))
        accounts = write_rows(engine, unique=rows is not None, queried=queried)
        accounts += self._accounts(scoring.metrics)
        ties, placed = scoring.policy.ties, "position" in shape.impressions
        own = shown_candidates(scores, ties)
        log = judge_scores(engine, self.score_log, ties, own, placed)
        sql = own | log.sql
        # Models of a scores log have one score for an item of a request; so have all, beside them.
        points = {} if log.sql else shown_points(scores)
        candidates = experiment_candidates(experiment, shape, sql, points, rows)
        sums = run_models(engine, candidates, units, scoring, self.run.step)
        if self.relevance.truth is not None:
            # Relevant items that were never shown are in no list.
            sums = replace(sums, longest=longest_shown(engine))
        models = replayed_models(sql, log.stages, blends)
        return Summed(sums, accounts + log.accounts, models)

    def estimates(self, metrics: Sequence[OfflineMetric], where: str = "in_period") -> Estimates:
        """Estimates over the impressions that meet a condition."""
        scoring = replace(self.scoring, metrics=tuple(metrics))
        return Estimates(self.sums(scoring, where).sums, scoring)

    def _units(self) -> Units:
        units = read_units(self.run.engine)
        if not units.ids.size:
            what = "nothing to replay: no unit of a variant has an impression in the period"
            raise LogError(what, "check logs.impressions.path, [period], timezone and [variants]")
        return units

    def _rows(self, scores: Mapping[str, str], units: Units) -> Rows | None:
        """The impressions as arrays; None where only queries will do, as with a scores log."""
        if self.score_log is not None:
            return None
        request = "request_id" if "request_id" in self.shape.impressions else "unit_id"
        tie = TIE[self.scoring.policy.ties]
        rows = read_rows(self.run.engine, "candidate_rows", tie, request, scores)
        return None if rows is None else rows.of_units(units.ids)

    def _accounts(self, metrics: Sequence[OfflineMetric]) -> list[tuple[str, int]]:
        accounts = [] if self.relevance.truth is None else truth_accounts(self.run.engine)
        if needs_vectors(metrics, self.relevance.name):
            accounts.append(
                ("rows_of_items_without_a_vector", rows_without_vector(self.run.engine))
            )
        return accounts
