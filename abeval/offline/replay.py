"""Replay an experiment's models on its own log."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from abeval.bounds import MAX_BINS, MAX_CURVE, check_between
from abeval.errors import ExperimentError, LogError
from abeval.logs.mapping import LogColumns
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.offline import candidates, curves, impressions, metrics, other_logs
from abeval.offline.candidates import Accounts
from abeval.offline.estimates import NOTES, Estimates, result_of
from abeval.offline.metrics import NoRelevant, OfflineMetric, Scoring, Ties
from abeval.offline.sums import Sums, run_models
from abeval.results.replay import ReplayModel, ReplayResult

_AT_THRESHOLD = ("precision[threshold]", "recall[threshold]", "f1[threshold]")


@dataclass(frozen=True)
class ReplayOptions:
    """The options of a replay; the defaults are those of `abeval replay`.

    Attributes:
        k: Cut-offs of metrics such as `ndcg@k[lin]`, from 1.
        metrics: Ids of metrics to compute, such as `ndcg@10[exp]`; None for the default ones.
        compat: Library whose metrics and policies to use: `trec`, `ranx`, `rectools`,
            `recommenders`, `sklearn` or `xgboost`; None for abeval's own.
        relevance: What makes an item relevant: `click`, `long_click`, `dwell` (seconds),
            `similarity` (to the items the unit clicked, by their vectors), or an SQL expression
            over the impression.
        ties: Which of two equal scores ranks higher: the larger item id (`item`; as text, `text`)
            or the one shown first (`position`); None for that of `compat`, or `item`.
        no_relevant: Requests without a relevant item are left out (`drop`), or count as zero
            (`zero`) or one (`one`, nDCG and MAP only); None for that of `compat`, or `drop`.
        threshold: Scores from here on predict a click; None without metrics at a threshold.
        kept_negatives: Share of non-clicks, in (0, 1], that the models were trained on; scores are
            corrected for it. None where all were kept.
        bins: Bins of the calibration curve and of the calibration error, from 1.
        curve: Compute metrics at each k from 1 to this; None for no curves.
    """

    k: Sequence[int] = (1, 5, 10)
    metrics: Sequence[str] | None = None
    compat: str | None = None
    relevance: str = "click"
    ties: Ties | None = None
    no_relevant: NoRelevant | None = None
    threshold: float | None = None
    kept_negatives: float | None = None
    bins: int = 10
    curve: int | None = None


def scoring_of(options: ReplayOptions, alpha: float) -> Scoring:
    """Return the metrics and the policy of a replay, with intervals at level `alpha`."""
    _check_numbers(options)
    wanted, policy = metrics.metrics_and_policy(
        options.compat, options.k, options.metrics, options.ties, options.no_relevant
    )
    if options.threshold is not None and options.metrics is None:
        wanted += metrics.metrics_of(_AT_THRESHOLD)
    if options.threshold is None and any(m.definition.variant == "threshold" for m in wanted):
        raise ExperimentError("a [threshold] metric needs a threshold", "such as threshold=0.5")
    return Scoring(wanted, policy, alpha, options.threshold, options.bins)


def _check_numbers(options: ReplayOptions) -> None:
    if options.kept_negatives is not None and not 0 < options.kept_negatives <= 1:
        what = f"kept_negatives {options.kept_negatives} is not a share between 0 and 1"
        raise ExperimentError(what, "0.1 if one non-click in ten was kept")
    if options.threshold is not None and not math.isfinite(options.threshold):
        raise ExperimentError(
            f"threshold {options.threshold} is not a finite number", "such as threshold=0.5"
        )
    check_between("bins", options.bins, 1, MAX_BINS)
    if options.curve is not None:
        check_between("curve", options.curve, 1, MAX_CURVE)
        if not curves.curve_metrics(options.metrics, options.curve):
            what = "no metric has a cut-off k, so there is no curve"
            raise ExperimentError(what, "name one, such as ndcg@10[lin], or name no metric")


def notes_of(options: ReplayOptions, has_requests: bool) -> Iterator[str]:
    """Note what a reader of the result needs to know."""
    yield NOTES["shown"]
    yield NOTES["relevance"].format(relevance=options.relevance)
    if options.relevance == other_logs.SIMILARITY:
        yield NOTES["similarity"]
    if not has_requests:
        yield NOTES["no_requests"]
    if options.kept_negatives is not None:
        yield NOTES["kept_negatives"].format(share=options.kept_negatives)


@dataclass(frozen=True)
class ReplayRun:
    """Replays a prepared log, or a part of it.

    The engine of `run` has the views of `prepare`; `score_log` is None without a scores log.
    """

    run: Run
    shape: LogShape
    score_log: LogColumns | None
    relevance: impressions.Relevance
    options: ReplayOptions
    scoring: Scoring
    control: str | None

    @classmethod
    def of(cls, run: Run, options: ReplayOptions, shape: LogShape | None) -> "ReplayRun":
        """Open the logs; with a `shape`, they were prepared with the models' scores."""
        experiment, engine = run.experiment, run.engine
        scoring = scoring_of(options, experiment.alpha)
        metric = impressions.relevance_metric(experiment, options.relevance)
        if shape is None:
            columns = impressions.score_columns(experiment)
            shape = prepare(run, [] if metric is None else [metric], columns).shape
        run.step("candidates")
        reader = other_logs.needs_vectors(scoring.metrics, options.relevance)
        if reader is not None:
            other_logs.write_vectors(engine, shape.items, reader)
        relevance = impressions.Relevance(options.relevance, metric)
        control = experiment.variants[experiment.control].model
        log = other_logs.open_scores(run)
        return cls(run, shape, log, relevance, options, scoring, control)

    def sums(
        self, scoring: Scoring, where: str = "in_period"
    ) -> tuple[Sums, Accounts, tuple[ReplayModel, ...]]:
        """Sum the impressions that meet a condition, of every model; count what was left out.

        Raises:
            LogError: There is no model, or nothing to replay.
        """
        experiment, engine, shape = self.run.experiment, self.run.engine, self.shape
        units = impressions.write_impressions(self.run, shape, self.relevance, where)
        scores = impressions.model_scores(experiment, shape, self.options.kept_negatives)
        if not units.ids.size:
            what = "nothing to replay: no unit of a variant has an impression in the period"
            raise LogError(what, "check logs.impressions.path, [period], timezone and [variants]")
        beside = self._beside()
        sources = [*beside.values(), *([] if self.score_log is None else ["select * from scores"])]
        request, item, accounts = candidates.write_rows(engine, sources, scoring.policy.ties)
        if other_logs.needs_vectors(scoring.metrics, self.relevance.name):
            without = other_logs.number_vectors(engine, item)
            accounts.append(("rows_of_items_without_a_vector", without))
        own = candidates.shown_candidates(scores)
        listed, left_out = other_logs.judge_scores(engine, self.score_log, own, request, item)
        sql = own | listed
        if not sql:
            raise LogError(
                "there is no model to replay",
                'give [models.NAME] score = "COLUMN", map score in logs.impressions, or '
                "[logs.scores]",
            )
        # Models of a scores log have one score for an item of a request; so have all, beside them.
        points = {} if listed else candidates.shown_points(scores)
        numbered = candidates.number_sources(beside, item)
        judged = candidates.Candidates(sql, **numbered, points=points)
        sums = run_models(engine, judged, units, scoring, self.run.step)
        return sums, accounts + left_out, tuple(map(ReplayModel, sql))

    def _beside(self) -> dict[str, str]:
        """Return SQL of clicks of the pre-period and of the catalogue, where they are known."""
        beside = {}
        if self.run.experiment.pre_period is not None and "item_id" in self.shape.impressions:
            clicked = "not in_period and click = 1 and item_id is not null"
            beside["history"] = f"select unit_id, item_id from impressions where {clicked}"
        if self.shape.items is not None:
            beside["catalogue"] = "select item_id from items"
        return beside

    def estimates(self, wanted: Sequence[OfflineMetric], where: str = "in_period") -> Estimates:
        """Estimate metrics over the impressions that meet a condition."""
        scoring = replace(self.scoring, metrics=tuple(wanted))
        return Estimates(self.sums(scoring, where)[0], scoring)


def replay(run: Run, options: ReplayOptions, shape: LogShape | None = None) -> ReplayResult:
    """Score every model of an experiment on its own log.

    A `shape` is that of logs that were prepared with the scores; without it they are opened.
    """
    prepared = ReplayRun.of(run, options, shape)
    sums, accounts, models = prepared.sums(prepared.scoring)
    run.step("inference")
    result = result_of(
        sums,
        prepared.scoring,
        name=run.experiment.name,
        models=models,
        control=prepared.control,
        accounting=accounts,
        notes=tuple(notes_of(options, "request_id" in prepared.shape.impressions)),
    )
    if options.curve is not None:
        run.step("curves")
        by_k = curves.curve_metrics(options.metrics, options.curve)
        result = replace(result, curves=tuple(curves.curves(prepared.estimates(by_k))))
    return replace(result, questions=tuple(run.experiment.questions))
