"""Turn results of one experiment into rows of a history file."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from abeval.errors import ExperimentError
from abeval.history.table import edit_rows
from abeval.offline.metrics import find_direction
from abeval.results import codes, study
from abeval.results import format as fmt
from abeval.results.agreement import Agreement, AgreementRow
from abeval.results.analysis import ExperimentInfo, Result
from abeval.results.effects import Row
from abeval.results.history import Added, AddedSource, HistoryRow, Source
from abeval.results.interleaving import InterleavingResult, PreferenceRow
from abeval.results.record import list_columns
from abeval.results.replay import PairRow, ReplayResult
from abeval.results.study import AcceptedResults, Study, read_result
from abeval.results.windows import TimeResult, WeekSinceEntry
from abeval.stats.distributions import quantile, two_sided_quantile

Addable = Result | ReplayResult | Agreement | InterleavingResult | TimeResult
"""Results that a history takes, alone or from a study."""

_WANTED = AcceptedResults(
    (*(study.ANALYSIS, study.REPLAY, study.AGREEMENT), study.PREFERENCES, study.TIME, study.STUDY),
    "it has no effects for a history",
    "name the JSON of abeval analyze or report, beside it that of agree, replay, windows",
)

_FIELDS = list_columns(HistoryRow)
# Field of an effect or preference → field of a history row, if the name differs.
_HISTORY_NAMES = {
    **{"control": "value_control", "treatment": "value"},
    **{"lift": "effect", "lift_low": "low", "lift_high": "high"},
    **{"base": "control", "ranker": "variant", "preference": "effect"},
}


def add(
    path: Path, results: Sequence[Addable | Study | str | Path], shipped: frozenset[str] | None
) -> Added:
    """Replace the rows that the history has of these results."""
    read = _read_results(results)
    parts = [build_rows(result, shipped) for result in read]
    sources = [rows[0].source for rows in parts if rows]
    # Two results of one source would replace each other.
    twice = next((source for source in sources if sources.count(source) > 1), None)
    name = _get_experiment_name(read[0])
    if twice is not None:
        what = f"two results of the same kind ({twice}) of {name!r} were named"
        raise ExperimentError(what, "name one of each: analyze, replay, agree, windows")
    with edit_rows(path) as rows:
        put = tuple(_put_source(rows, new) for new in parts if new)
        experiments = len({row.experiment for row in rows})
        return Added(str(path), name, put, experiments)


def _put_source(rows: list[HistoryRow], new: Sequence[HistoryRow]) -> AddedSource:
    """Replace the rows of the same experiment and source."""
    key = new[0].experiment, new[0].source
    others = [row for row in rows if (row.experiment, row.source) != key]
    digests = {row.digest for row in rows if (row.experiment, row.source) == key}
    bare = sum(row.se is None for row in new)
    if new[0].digest in digests:
        return AddedSource(key[1], "unchanged", len(new), 0, bare)
    replaced = len(rows) - len(others)
    # In place, for the caller writes the list that it holds.
    rows[:] = [*others, *new]
    return AddedSource(key[1], "replaced" if replaced else "added", len(new), replaced, bare)


def _read_results(results: Sequence[Addable | Study | str | Path]) -> list[Addable]:
    """Read the results of one experiment that a history takes."""
    loaded = [read_result(Path(r), _WANTED) if isinstance(r, str | Path) else r for r in results]
    groups = (result.results if isinstance(result, Study) else (result,) for result in loaded)
    addable = [result for group in groups for result in group if isinstance(result, Addable)]
    if not addable:
        what = f"there is nothing to add{': the study has no effects' if loaded else ''}"
        raise ExperimentError(what, _WANTED.hint)
    if questions := next((result.questions for result in addable if result.questions), ()):
        what = f"a result is a draft: {codes.open_questions(questions)}"
        raise ExperimentError(what, "answer and remove them, and run abeval again")
    names = list(dict.fromkeys(_get_experiment_name(result) for result in addable))
    if len(names) > 1:
        what = f"these results are of different experiments: {names[0]!r} and {names[1]!r}"
        raise ExperimentError(what, "add each experiment by a call of its own")
    return addable


def _get_experiment_name(result: Addable) -> str:
    """Return the name of a result's experiment."""
    if isinstance(result, Result | InterleavingResult):
        return result.experiment.name
    return result.name


def build_rows(result: Addable, shipped: frozenset[str] | None) -> tuple[HistoryRow, ...]:
    """Build the rows of a result; `shipped` overrides the verdict."""
    content: dict[str, Any] = {"result": result.to_dict()}
    match result:
        case Result():
            rows = [*_build_analysis_rows(result, shipped)]
            content |= {} if shipped is None else {"shipped": sorted(shipped)}
        case ReplayResult():
            rows = [
                _build_offline_row(result, "replay", pair, variant=pair.model)
                for pair in result.pairs
            ]
        case Agreement():
            # The offline differences of variants, which are on control's traffic.
            pairs = {(row.variant, row.offline): row for row in result.rows}.values()
            rows = [
                _build_offline_row(result, "agreement", r, metric=r.offline, role=None)
                for r in pairs
            ]
        case InterleavingResult():
            rows = [*_build_preference_rows(result)]
        case TimeResult():
            rows = [_build_week_row(result, week) for week in result.weeks]
    # The digest must not depend on the order of keys.
    text = json.dumps(content, sort_keys=True, default=str).encode("utf-8", "backslashreplace")
    digest = hashlib.sha256(text).hexdigest()[:32]
    return tuple(replace(row, **_clean_texts(row) | {"digest": digest}) for row in rows)


def _clean_texts(row: HistoryRow) -> dict[str, Any]:
    """Replace characters of a row's texts that UTF-8 cannot hold."""
    texts = {name: text for name, text in vars(row).items() if isinstance(text, str)}
    return {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}


def _pick_fields(row: Row | PreferenceRow, info: ExperimentInfo) -> dict[str, Any]:
    """Pick the fields of a row and its experiment that a history keeps."""
    fields = {_HISTORY_NAMES.get(name, name): value for name, value in vars(row).items()}
    return {
        **{name: value for name, value in fields.items() if name in _FIELDS},
        **{"experiment": info.name, "start": info.start, "end": info.end, "alpha": info.alpha},
        "trusted": row.status != "untrusted",
    }


def _derive_se(ends: fmt.Interval, critical: float) -> float | None:
    """Return the standard error behind a value and its interval; None without one."""
    value, low, high = ends
    if value is None or low is None or high is None:
        return None
    return (high - low) / (2 * critical) or None


def _build_analysis_rows(result: Result, shipped: frozenset[str] | None) -> Iterator[HistoryRow]:
    info = result.experiment
    treatments = [variant.name for variant in info.variants if variant.name != info.control]
    unknown = sorted((shipped or frozenset()) - {*treatments})
    if unknown:
        what = f"{unknown[0]!r} was not shipped: it is no variant of {info.name!r} beside control"
        raise ExperimentError(what, f"its variants: {', '.join(treatments)}; or say none")
    models = {variant.name: variant.model for variant in info.variants}
    decisions = {verdict.variant: verdict.decision for verdict in result.verdicts}
    bounds = {(b.metric, b.variant): b.boundary for b in result.boundaries}
    left_out = {reason for account in result.accounting for reason, _ in account.set_aside}
    for row in result.scorecard:
        decision, df = decisions.get(row.variant), max(row.units_control + row.units - 2, 1)
        # At looks an interval is wider, by their boundary.
        critical = bounds.get((row.metric, row.variant)) or -quantile(info.alpha / 2, df)
        yield HistoryRow(
            **_pick_fields(row, info),
            se=_derive_se((row.lift, row.lift_low, row.lift_high), critical),
            site_se=_derive_se((row.site_lift, row.site_lift_low, row.site_lift_high), critical),
            triggered="not_exposed" in left_out,
            source="analysis",
            control=info.control,
            model=models.get(row.variant),
            side="online",
            decision=decision,
            shipped=decision == "ship" if shipped is None else row.variant in shipped,
        )


def _build_preference_rows(result: InterleavingResult) -> Iterator[HistoryRow]:
    """Build rows of the preference for each ranker over control."""
    info = result.experiment
    for row in result.preferences:
        if row.base == info.control:
            yield HistoryRow(
                **_pick_fields(row, info) | {"metric": f"preference:{row.metric}"},
                source="preferences",
                side="offline",
                scale="difference",
            )


def _build_week_row(result: TimeResult, week: WeekSinceEntry) -> HistoryRow:
    return HistoryRow(
        experiment=result.name,
        source="windows",
        variant=week.variant,
        metric=week.metric,
        side="online",
        scale="lift" if week.scale == "relative" else "difference",
        effect=week.effect,
        se=week.se or None,
        alpha=result.alpha,
        week=week.week,
        covariance=week.covariance,
    )


def _build_offline_row(
    result: ReplayResult | Agreement,
    source: Source,
    row: PairRow | AgreementRow,
    **more: str | None,
) -> HistoryRow:
    numbers: dict[str, Any] = {n: v for n, v in vars(row).items() if n in _FIELDS} | more
    return HistoryRow(
        **numbers,
        effect=row.difference,
        experiment=result.name,
        source=source,
        side="offline",
        direction=find_direction(numbers["metric"]),
        scale="difference",
        se=_derive_se((row.difference, row.low, row.high), two_sided_quantile(result.alpha)),
        alpha=result.alpha,
    )
