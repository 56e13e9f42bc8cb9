"""Evaluate ranked lists or judged rows of your own, without an experiment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from abeval.calls import explain_types
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import Engine, quote
from abeval.errors import ExperimentError, LogError
from abeval.experiment.sources import LogSource
from abeval.metrics.row_text import write_over_columns
from abeval.offline import metrics
from abeval.offline.candidates import (
    REPEATED,
    ROW_COUNTS,
    WHOLE_TYPES,
    JudgedLog,
    write_candidates,
    write_cutoff_columns,
    write_finite,
    write_single_traffic,
)
from abeval.offline.estimates import SumPart, evaluate_parts
from abeval.offline.expressions import Expression, check_part, has_columns, write_row_expression
from abeval.offline.inference import compute_metric_values
from abeval.offline.inputs import GivenFrame, Inputs, check_numbers, open_frames, read_inputs
from abeval.offline.metrics import (
    EvaluationOptions,
    OfflineMetric,
    Policy,
    Scoring,
    Unjudged,
)
from abeval.offline.sums import Sums, sum_models
from abeval.progress import ignore_step
from abeval.results.replay import ReplayResult

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Ranked lists against what was relevant.

    Metrics have intervals where units are enough.

    Printed, it is one screen; `to_frame` and `report` have everything.
    """

    result: ReplayResult
    sums: Sums
    metrics: tuple[OfflineMetric, ...]
    policy: Policy

    @cached_property
    def per_unit(self) -> Mapping[str, pd.DataFrame]:
        """Return model → one row per unit, a column per metric.

        Values are means over the requests of the unit, NaN where the metric leaves all of them out.
        """
        return {model: self._build_unit_frame(model, weights=False) for model in self.sums.models}

    @cached_property
    def weights(self) -> Mapping[str, pd.DataFrame]:
        """Return model → the weight of each value of `per_unit`, in the same shape.

        A metric of requests is Σ value·weight / Σ weight over units.
        """
        return {model: self._build_unit_frame(model, weights=True) for model in self.sums.models}

    def values(self, model: str | None = None) -> dict[str, float | None]:
        """Return metric → value of a model, by default the first.

        Values are of the whole, not of parts.
        """
        rows = self.result.rows
        # The rows of the whole come before those of parts.
        key = (model or rows[0].model, rows[0].traffic)
        return {row.metric: row.value for row in rows if (row.model, row.traffic) == key}

    def to_frame(self) -> pd.DataFrame:
        """Return a row per metric and model, with its difference from the first model.

        Columns are those of a value (`value`, `low`, `high`, `units`, `counted`, `reason`), then
        `control`, `value_control`, `difference`, `difference_low`, `difference_high`, `p_value`
        and `reason_difference`; of the first model these are missing.
        """
        keys = ["metric", "model", "traffic"]
        rows, pairs = self.result.to_frame(), self.result.pairs_frame()
        names = {name: f"difference_{name}" for name in ("low", "high")}
        # The rows have these too, and a merge would rename both.
        pairs = pairs.drop(columns=["value", "units"]).rename(
            columns={**names, "reason": "reason_difference"}
        )
        merged = rows.drop(columns="left_out").merge(pairs, on=keys, how="left")
        first = [*keys, *(column for column in merged if column not in keys)]
        return merged[first]

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write everything as one self-contained HTML file; return its path."""
        return self.result.report(Path(path))

    def __str__(self) -> str:
        return str(self.result)

    def __repr__(self) -> str:
        return str(self).rstrip()

    def _repr_html_(self) -> str:
        return self.result._repr_html_()

    def _build_unit_frame(self, model: str, *, weights: bool) -> pd.DataFrame:
        import pandas as pd

        sums, of_metric = self.sums.models[model], {}
        for metric in self.metrics:
            # Other metrics have no value of a unit of which theirs is a weighted mean.
            if metric.definition.is_request_mean or metric.definition.family == "pairs":
                columns = compute_metric_values(metric, sums, self.policy, "traffic")
                below = pd.Series(columns.below, index=sums.units.ids)
                # NaN and not an error, where the metric leaves out all requests of a unit.
                mean = columns.above / below.where(below > 0)
                of_metric[metric.id] = below if weights else mean
        return pd.DataFrame(of_metric, index=sums.units.ids)


def _choose_scoring(
    options: EvaluationOptions, alpha: float, unjudged: Unjudged | None = None
) -> Scoring:
    metrics.check_keywords(options, EvaluationOptions.__annotations__)
    return metrics.choose_scoring(options, alpha, unjudged)


def _open_engine(scoring: Scoring) -> closing[DuckDBEngine]:
    """Open an engine, unless a metric needs vectors of items."""
    if any(metric.definition.variant == "vectors" for metric in scoring.metrics):
        what = "ild[vectors] needs the item log of an experiment"
        raise ExperimentError(what, "use LoadedExperiment.replay or `abeval replay`")
    return closing(DuckDBEngine())


def _check_models(models: Mapping[str, object]) -> None:
    """Refuse models without a name, and no models."""
    if not models or not all(isinstance(model, str) and model for model in models):
        what = f"each model needs a name that is text; there are: {[*models]}"
        raise ExperimentError(what, 'such as {"old": ..., "new": ...}')


def _evaluate(
    models: Iterable[str],
    sum_part: SumPart,
    scoring: Scoring,
    part_sources: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Evaluation:
    """Evaluate candidates; the other models are compared with the first."""
    result, sums = evaluate_parts(
        sum_part,
        scoring,
        ignore_step,
        name="offline evaluation",
        control=next(iter(models)),
        notes=notes,
        part_sources=part_sources,
    )
    return Evaluation(result, sums, scoring.metrics, scoring.policy)


_NOTHING = (
    "nothing is left to evaluate: no request has an id and its unit",
    "check the ids of the truth, or of the log",
)


@explain_types
def evaluate(
    runs: Mapping[str, object] | object,
    truth: object,
    *,
    columns: Mapping[str, str] | None = None,
    alpha: float = 0.05,
    history: object | None = None,
    catalogue: object | None = None,
    unjudged: Unjudged | None = None,
    **options: Unpack[EvaluationOptions],
) -> Evaluation:
    """Score ranked lists against a ground truth.

    Args:
        runs: Lists of one model, or by model. A list is a frame of `request_id, item_id` and
            `score` or `rank`, `{query: {item: score}}`, or a TREC run file; of a LETOR file as
            truth also an array or a file of one score a line, or the number of a feature.
        truth: A frame of `request_id, item_id`, with `grade` where relevance is graded and
            `unit_id` where requests belong to units; `{query: {item: grade}}`; or a file of TREC
            qrels or of LETOR (SVMlight with `qid:`).
        columns: Canonical name → column of the frames that have it. Usual names are found:
            `query_id`, `q_id`, `qid`; `doc_id`, `docno`; `relevance`, `rel`, `label`.
        alpha: Level of the intervals.
        history: A frame of `unit_id, item_id`, a row per earlier choice, for novelty.
        catalogue: A frame of `item_id`: items that could be listed besides those that were.
        unjudged: Items that nobody judged are not relevant, as without it (`zero`), or leave the
            list (`drop`), whose metrics are then of judged items alone.
        options: Metrics, cut-offs, policies, parts: the keywords of `EvaluationOptions`. `where`
            chooses judgements by columns of the truth, or items by columns of every run.

    Raises:
        ExperimentError: An unknown metric or preset.
        LogError: A frame lacks a column.

    Example:
        >>> import pandas as pd
        >>> run = pd.DataFrame({"request_id": [1, 1], "item_id": ["a", "b"], "score": [0.9, 0.8]})
        >>> truth = pd.DataFrame({"request_id": [1], "item_id": ["b"]})
        >>> values = evaluate(run, truth, metrics=["mrr@2", "ndcg@2[lin]"]).values()
        >>> values["mrr@2"], round(values["ndcg@2[lin]"] or 0, 5)
        (0.5, 0.63093)
    """
    scoring = _choose_scoring(options, alpha, unjudged)
    given = read_inputs(runs, truth)
    _check_models(given.runs)
    with _open_engine(scoring) as engine:
        # The frames are in memory, and no expression of the caller may open a file.
        engine.confine([])
        frames = list(_list_frames(given, history, catalogue))
        notes = open_frames(engine, frames, columns or {})
        part_sources = {
            part.name: _find_part_source(engine, part, given.runs) for part in scoring.parts
        }

        def sum_part(part_scoring: Scoring, part: Expression | None) -> Sums:
            reads = "" if part is None else part_sources[part.name]
            lists = _write_judged_lists(engine, given.runs, part_scoring, part, reads)
            if history is not None:
                lists = replace(lists, history="select unit_id, item_id from history_frame")
            if catalogue is not None:
                lists = replace(lists, catalogue="select item_id from catalogue_frame")
            candidates = write_candidates(engine, lists, part_scoring, part)
            accounts = _name_truth_accounts(candidates.accounts)
            candidates = replace(candidates, accounts=accounts)
            sums = sum_models(engine, candidates, part_scoring, ignore_step)
            # A part by columns of the runs can empty every list, though the truth has units.
            check_part(part, len(sums.models))
            return sums

        return _evaluate(given.runs, sum_part, scoring, part_sources, notes)


def _list_frames(
    given: Inputs, history: object | None, catalogue: object | None
) -> Iterator[GivenFrame]:
    """Yield the truth, what else is known, and every run."""
    # Grades that are no numbers would become null, and count as not relevant without a word.
    yield GivenFrame("truth", "truth", given.truth, ("request_id", "item_id"), ("grade",))
    if history is not None:
        yield GivenFrame("history", "history", history, ("unit_id", "item_id"))
    if catalogue is not None:
        yield GivenFrame("catalogue", "catalogue", catalogue, ("item_id",))
    for i, (model, run) in enumerate(given.runs.items()):
        ids, scores = ("request_id", "item_id"), ("score", "rank")
        yield GivenFrame(f"run_{i}", model, run, ids, scores)


def _find_part_source(engine: Engine, part: Expression, models: Iterable[str]) -> str:
    """Tell whether a part reads columns of the truth or of every run.

    It is `truth` where both have the columns.
    """
    truth = engine.columns("truth_frame")
    if write_over_columns(part.text, truth) is not None:
        return "truth"
    columns = [engine.columns(f"run_{i}_frame") for i, _ in enumerate(models)]
    if all(write_over_columns(part.text, run_columns) is not None for run_columns in columns):
        return "run"
    every = dict(truth)
    for run_columns in columns:
        every |= run_columns
    # This refuses a column that no frame has; below are columns that only some have.
    write_row_expression(
        f"where {part.name!r}: {part.text!r}", part.text, every, "truth, as every run,"
    )
    what = f"where {part.name!r}: {part.text!r} reads columns that truth and the runs have in part"
    raise LogError(what, "name columns of the truth alone, or columns that every run has")


def _write_where(part: Expression | None, columns: Mapping[str, str], called: str) -> str:
    """Write the condition of a part over a frame's columns; without a part, nothing."""
    if part is None:
        return ""
    what = f"where {part.name!r}: {part.text!r}"
    return f" where {write_row_expression(what, part.text, columns, called)}"


def _write_named_cutoffs(
    cutoffs: Sequence[Expression], columns: Mapping[str, str], called: str
) -> list[str]:
    """Write named cut-offs over a frame's columns."""
    return write_cutoff_columns(
        write_row_expression(f"k {cutoff.name!r}: {cutoff.text!r}", cutoff.text, columns, called)
        for cutoff in cutoffs
    )


_LIST_COUNTS: Mapping[str, str] = {
    "duplicates": "(select count(*) from list_rows) - (select count(*) from listed_once)",
    "unusable_scores": "select count(*) - count(score) from list_rows",
    "requests_not_in_truth": "select count(distinct l.request_id) from list_rows l "
    "anti join kept_rows t on l.request_id = t.request_id",
}
"""What is counted of the rows of a list."""


def _write_judged_lists(
    engine: Engine, models: Iterable[str], scoring: Scoring, part: Expression | None, reads: str
) -> JudgedLog:
    """Write the truth and the lists of every model.

    `reads` says whether a part divides the truth or the lists.
    """
    columns = engine.columns("truth_frame")
    # Without units, requests are what is independent; with them, a request belongs to one.
    unit = "request_id"
    if "unit_id" in columns:
        unit = "case when unit_id is not null then min(unit_id) over (partition by request_id) end"
    grade = write_finite("grade") if "grade" in columns else "1.0e0"
    selected = [f"{unit} as unit_id", "request_id", "item_id", f"{grade} as grade"]
    # A truth is not ranked, so its rows have no position.
    selected.append("cast(null as bigint) as position")
    selected += _write_named_cutoffs(scoring.cutoffs, columns, "truth")
    where = _write_where(part if reads == "truth" else None, columns, "truth")
    run_part = part if reads == "run" else None
    return JudgedLog(
        rows=f"select {', '.join(selected)} from truth_frame{where}",
        units=write_single_traffic(part),
        nothing=_NOTHING,
        counts={
            "truth_without_usable_grade": "select count(*) - count(grade) from candidate_rows",
            "rows_without_unit": "select count(*) - count(unit_id) from candidate_rows",
        },
        lists={
            model: _write_list(engine, f"run_{i}", model, scoring, run_part)
            for i, model in enumerate(models)
        },
        list_counts=_LIST_COUNTS,
        keeps_requests=True,
    )


def _write_list(
    engine: Engine, frame: str, model: str, scoring: Scoring, part: Expression | None
) -> str:
    """Return SQL of a run's list, or of a part of it."""
    columns = engine.columns(f"{frame}_frame")
    if "score" not in columns and "rank" not in columns:
        what = f"{model}: the frame has neither `score` nor `rank`"
        raise LogError(what, has_columns(engine.columns(f"{frame}_given")))
    # A rank is turned, because the larger score ranks higher.
    score = write_finite("score") if "score" in columns else f"-{write_finite(quote('rank'))}"
    # Row numbers are slow, and only one order of ties needs them.
    by_position = scoring.policy.ties == "position"
    position = "row_number() over ()" if by_position else "cast(null as bigint)"
    where = _write_where(part, columns, model)
    selected = f"request_id, item_id, {score} as score, {position} as position"
    return f"select {selected} from {frame}_frame{where}"


def _name_truth_accounts(accounts: Mapping[str, int]) -> dict[str, int]:
    """Name what was left out of a truth.

    Rows without ids and requests of several units are rare, so their counts are named only above 0.
    """
    if_any = (*ROW_COUNTS, "rows_without_unit")
    rest = {name: count for name, count in accounts.items() if count or name not in if_any}
    return {"truth_duplicates": rest.pop(REPEATED), **rest}


@dataclass(frozen=True)
class JudgedColumns:
    """The columns of a table of judged rows.

    Intervals are clustered by `unit`. Where `request` is None, all items of a unit are one list. An
    item is relevant where `relevance`, of clicks or grades, is above 0.
    """

    unit: str = "unit_id"
    request: str | None = "request_id"
    item: str = "item_id"
    relevance: str = "grade"


@explain_types
def evaluate_log(
    log: object,
    scores: Sequence[str] | Mapping[str, str],
    *,
    columns: JudgedColumns | None = None,
    alpha: float = 0.05,
    **options: Unpack[EvaluationOptions],
) -> Evaluation:
    """Score the models of one table of judged rows, without an experiment around it.

    `log` is a file, a glob or a folder (Parquet, CSV, JSON), or a frame. `scores` has the columns
    of scores, or model → its column, or an expression over a row's columns, such as
    `0.3 * new + 0.7 * base`; the first is the control. `columns` names the other columns of
    the table; the options are those of `evaluate`.

    Raises:
        ExperimentError: An unknown metric or preset.
        LogError: The table cannot be read, or lacks a column.

    Example:
        >>> import pandas as pd
        >>> rows = {"unit_id": 1, "request_id": 1, "item_id": [1, 2, 3], "grade": [0, 1, 0]}
        >>> log = pd.DataFrame({**rows, "score": [0.9, 0.5, 0.1]})
        >>> evaluate_log(log, ["score"], metrics=["mrr", "gauc[units]"]).values()
        {'mrr': 0.5, 'gauc[units]': 0.5}
    """
    scoring = _choose_scoring(options, alpha)
    model_scores = scores if isinstance(scores, Mapping) else {name: name for name in scores}
    _check_models(model_scores)
    mapped = columns or JudgedColumns()
    with _open_engine(scoring) as engine:
        _open_log(engine, log, mapped)

        def sum_part(part_scoring: Scoring, part: Expression | None) -> Sums:
            rows = _write_judged_rows(engine, mapped, model_scores, part_scoring, part)
            candidates = write_candidates(engine, rows, part_scoring, part)
            return sum_models(engine, candidates, part_scoring, ignore_step)

        return _evaluate(model_scores, sum_part, scoring)


def _open_log(engine: DuckDBEngine, log: object, columns: JudgedColumns) -> None:
    if not isinstance(log, str | os.PathLike):
        engine.confine([])
        engine.add_frame("raw_log", log)
        return
    canonical_columns = {"unit_id": columns.unit, "item_id": columns.item}
    if columns.request is not None:
        canonical_columns["request_id"] = columns.request
    try:
        source = LogSource(path=os.fspath(log), columns=canonical_columns)
    except ValueError:
        # Imported here: it needs whole experiments.
        from abeval.experiment.load import make_source

        source = make_source({"path": os.fspath(log), "columns": canonical_columns})
    engine.confine([source])
    engine.add_log("raw_log", source)


def _write_judged_rows(
    engine: DuckDBEngine,
    columns: JudgedColumns,
    scores: Mapping[str, str],
    scoring: Scoring,
    part: Expression | None,
) -> JudgedLog:
    """Write the rows of the table, or of a part, with the score of every model."""
    has = engine.columns("raw_log")
    request = columns.request or columns.unit
    for name in (columns.unit, request, columns.item, columns.relevance):
        if name not in has:
            raise LogError(f"the log has no column {name!r}", has_columns(has))
    # Only columns can be checked before; of an expression the engine finds what fails.
    plain = [name for name in scores.values() if name in has]
    check_numbers(engine, "the log", "raw_log", [columns.relevance, *plain])
    unit, grade = quote(columns.unit), quote(columns.relevance)
    # Whole numbers stay as they are, which is less to keep.
    if has[columns.relevance] not in WHOLE_TYPES:
        grade = write_finite(grade)
    selected = [f"{unit} as unit_id", f"{quote(request)} as request_id"]
    selected += [f"{quote(columns.item)} as item_id", f"coalesce({grade}, 0) as grade"]
    # A model may have any name, which need not be one of a column.
    for i, text in enumerate(scores.values()):
        score = write_row_expression(f"scores: {text!r}", text, has, "the log")
        selected.append(f"{write_finite(score)} as m_{i}")
    # Row numbers are slow, and only one order of ties needs them.
    if scoring.policy.ties == "position":
        selected.append("row_number() over () as position")
    selected += _write_named_cutoffs(scoring.cutoffs, has, "the log")
    rows = f"raw_log{_write_where(part, has, 'the log')}"
    return JudgedLog(
        rows=f"select {', '.join(selected)} from {rows}",
        units=write_single_traffic(part),
        nothing=_NOTHING,
        counts={
            "rows_without_unit": f"select count(*) - count({unit}) from {rows}",
            "rows_without_relevance": f"select count(*) - count({grade}) from {rows}",
        },
        scores={model: f"m_{i}" for i, model in enumerate(scores)},
    )
