"""Results of one experiment → the rows that a history keeps of them, put into its file."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import numpy as np

from abeval.agreement.standing import CALIBRATED_AT, LOWER_IS_BETTER
from abeval.errors import ExperimentError
from abeval.history.measures import Case, cases_of, name_of
from abeval.history.table import Table, changing
from abeval.results.analysis import Result
from abeval.results.effects import Row
from abeval.results.history import Added, AddedSource, HistoryRow, Side
from abeval.results.replay import PairRow, ReplayResult
from abeval.results.study import ANALYSIS, REPLAY, TIME, Wanted, read_result
from abeval.results.windows import TimeResult, WindowRow
from abeval.stats.distributions import quantile, two_sided_quantile

EARLY, LATE = (3, 7), (7, 3)
"""Days at the beginning and at the end that are kept, where they do not overlap the other end."""


def window_rows(result: TimeResult) -> Iterator[HistoryRow]:
    """Effects in the first and the last days, whole calendar days of the log."""
    days, partial = result.days, {*result.partial}
    whole = [row for row in result.windows if row.axis == "calendar" and not row.partial]
    if partial & {*days[:1], *days[-1:]} or not days:
        return
    for length in EARLY:
        if length + min(LATE) <= len(days):
            first = [r for r in whole if r.kind == "cumulative" and r.days == length]
            yield from _rows(result, first, "early", f"first {length} days")
    for length in LATE:
        if length + min(EARLY) <= len(days):
            last = [r for r in whole if r.kind == "rolling" and r.days == length]
            ending = [r for r in last if r.end == days[-1]]
            yield from _rows(result, ending, "late", f"last {length} days")


def _rows(
    result: TimeResult, rows: Sequence[WindowRow], side: Side, window: str
) -> Iterator[HistoryRow]:
    for row in rows:
        yield HistoryRow(
            experiment=result.name,
            source="windows",
            digest="",
            variant=row.variant,
            control="",
            model=None,
            metric=row.metric,
            side=side,
            traffic=None,
            window=window,
            start=row.start,
            end=row.end,
            role=None,
            direction=None,
            scale="lift",
            value_control=row.control,
            value=row.treatment,
            effect=row.lift,
            low=row.lift_low,
            high=row.lift_high,
            se=_se(row, result.alpha),
            p_value=row.p_value,
            alpha=result.alpha,
            units_control=row.units_control,
            units=row.units,
            trusted=True,
            reason=row.reason,
            decision=None,
            shipped=False,
        )


def _se(row: WindowRow, alpha: float) -> float | None:
    if row.lift is None or row.lift_low is None or row.lift_high is None:
        return None
    df = max(row.units_control + row.units - 2, 1)
    return (row.lift_high - row.lift_low) / (-2 * quantile(alpha / 2, df)) or None


Addable = Result | ReplayResult | TimeResult
"""What a history takes."""


def experiment_of(result: Addable) -> str:
    """The name of the experiment that a result is of."""
    return result.experiment.name if isinstance(result, Result) else result.name


def rows_of(result: Addable, shipped: frozenset[str] | None) -> tuple[HistoryRow, ...]:
    """The rows of a result.

    Args:
        result: Of an analysis, a replay or of windows.
        shipped: The variants that were shipped; None to go by the verdict.

    Raises:
        ExperimentError: A shipped variant is none of the experiment.
    """
    match result:
        case Result():
            rows = tuple(_of_analysis(result, shipped))
        case ReplayResult():
            rows = tuple(_of_replay(result))
        case TimeResult():
            rows = tuple(window_rows(result))
    digest = _digest(result, shipped if isinstance(result, Result) else None)
    return tuple(replace(row, digest=digest, **_writable(row)) for row in rows)


def _writable(row: HistoryRow) -> dict[str, Any]:
    """The texts of a row that are no UTF-8, which JSON can hold and a file cannot."""
    texts = {f.name: text for f in fields(row) if isinstance(text := getattr(row, f.name), str)}
    plain = {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}
    return {name: text for name, text in plain.items() if text != texts[name]}


def _digest(result: Addable, shipped: frozenset[str] | None) -> str:
    said: dict[str, Any] = {"result": result.to_dict()}
    if shipped is not None:
        said["shipped"] = sorted(shipped)
    text = json.dumps(said, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _of_analysis(result: Result, shipped: frozenset[str] | None) -> Iterator[HistoryRow]:
    info = result.experiment
    treatments = [variant.name for variant in info.variants if variant.name != info.control]
    unknown = sorted((shipped or frozenset()) - {*treatments})
    if unknown:
        what = f"{unknown[0]!r} was not shipped: it is no variant of {info.name!r} beside control"
        raise ExperimentError(what, f"its variants: {', '.join(treatments)}; or say none")
    models = {variant.name: variant.model for variant in info.variants}
    decisions = {verdict.variant: verdict.decision for verdict in result.verdicts}
    bounds = {(b.metric, b.variant): b.boundary for b in result.boundaries}
    for row in result.scorecard:
        decision = decisions.get(row.variant)
        by_verdict = shipped is None and decision == "ship"
        yield HistoryRow(
            experiment=info.name,
            source="analysis",
            digest="",
            variant=row.variant,
            control=info.control,
            model=models.get(row.variant),
            metric=row.metric,
            side="online",
            traffic=None,
            window=None,
            start=info.start,
            end=info.end,
            role=row.role,
            direction=row.direction,
            scale="lift",
            value_control=row.control,
            value=row.treatment,
            effect=row.lift,
            low=row.lift_low,
            high=row.lift_high,
            se=_lift_se(row, info.alpha, bounds.get((row.metric, row.variant))),
            p_value=row.p_value,
            alpha=info.alpha,
            units_control=row.units_control,
            units=row.units,
            trusted=row.status != "untrusted",
            reason=row.reason,
            decision=decision,
            shipped=by_verdict or row.variant in (shipped or frozenset()),
        )


def _lift_se(row: Row, alpha: float, boundary: float | None) -> float | None:
    """The standard error behind the interval of a lift; at looks it is wider, by their boundary."""
    if row.lift is None or row.lift_low is None or row.lift_high is None:
        return None
    df = max(row.units_control + row.units - 2, 1)
    critical = -quantile(alpha / 2, df) if boundary is None else boundary
    return (row.lift_high - row.lift_low) / (2 * critical) or None


def _of_replay(result: ReplayResult) -> Iterator[HistoryRow]:
    critical = two_sided_quantile(result.alpha)
    plain = {model.name for model in result.models if model.blend is None}
    for pair in result.pairs:
        if pair.model in plain:
            yield _of_pair(result, pair, critical)


def _of_pair(result: ReplayResult, pair: PairRow, critical: float) -> HistoryRow:
    known = pair.difference is not None and pair.low is not None and pair.high is not None
    return HistoryRow(
        experiment=result.name,
        source="replay",
        digest="",
        variant=pair.model,
        control=pair.control,
        model=pair.model,
        metric=pair.metric,
        side="offline",
        traffic=pair.traffic,
        window=None,
        start=None,
        end=None,
        role=None,
        direction=_direction(pair.metric),
        scale="difference",
        value_control=pair.value_control,
        value=pair.value,
        effect=pair.difference,
        low=pair.low,
        high=pair.high,
        se=((pair.high or 0.0) - (pair.low or 0.0)) / (2 * critical) or None if known else None,
        p_value=pair.p_value,
        alpha=result.alpha,
        units_control=None,
        units=pair.units,
        trusted=True,
        reason=pair.reason,
        decision=None,
        shipped=False,
    )


def _direction(metric: str) -> str | None:
    name = metric.partition("@")[0].partition("[")[0]
    if name in CALIBRATED_AT:
        return f"toward {CALIBRATED_AT[name]:g}"
    return "decrease" if name in LOWER_IS_BETTER else "increase"


FEWEST_PARTS = 6
"""Parts below which a correlation says nothing."""


def shared_rows(results: Sequence[Addable]) -> tuple[HistoryRow, ...]:
    """The correlation of errors of metrics of one variant, from effects on parts of the units.

    All parts have the same true effects, so what two metrics have in common from part to part is
    noise; the correlation is the same on all units.

    Args:
        results: Of `analyze`, and of `replay` or `windows`, as many of each: the first of each kind
            is of the first part, and so on.

    Raises:
        ExperimentError: There are too few parts, or not as many of each kind.
    """
    read = [rows_of(result, None) for result in results]
    parts = {
        source: list(group)
        for source, group in groupby(sorted(filter(None, read), key=_source), key=_source)
    }
    counts = {source: len(group) for source, group in parts.items()}
    count = counts.get("analysis", 0)
    if count < FEWEST_PARTS or len({*counts.values()}) > 1 or len(counts) < 2:
        listed = ", ".join(f"{n} of {source}" for source, n in counts.items()) or "none"
        raise ExperimentError(
            f"shared noise needs results of {FEWEST_PARTS} parts or more, as many of each kind; "
            f"these are {listed}",
            "run analyze and replay on each part of the units, and name all their JSON files",
        )
    return _correlated(
        [[row for rows in part for row in rows] for part in zip(*parts.values(), strict=True)]
    )


def _source(rows: tuple[HistoryRow, ...]) -> str:
    return rows[0].source


def _correlated(parts: Sequence[Sequence[HistoryRow]]) -> tuple[HistoryRow, ...]:
    """One row for each measure that is known before, with its correlation with each online one."""
    effects: dict[tuple[Case, HistoryRow], dict[int, float]] = defaultdict(dict)
    for i, rows in enumerate(parts):
        for row, case in cases_of(rows):
            if row.effect is not None:
                effects[case, _key(row)][i] = row.effect
    known = {key: values for key, values in effects.items() if len(values) >= FEWEST_PARTS}
    noises = []
    for (case, row), values in known.items():
        if row.side in ("offline", "early"):
            others = {
                name_of(other): correlation
                for (its_case, other), theirs in known.items()
                if its_case == case and other.side in ("online", "late")
                if (correlation := _correlation(values, theirs)) is not None
            }
            noises.append(replace(row, source="noise", shared=tuple(others.items())))
    return tuple(noises)


def _key(row: HistoryRow) -> HistoryRow:
    """A row without its numbers, which are those of one part."""
    numbers = ("value_control", "value", "effect", "low", "high", "se", "p_value", "units_control")
    blank: dict[str, Any] = {
        **dict.fromkeys(numbers),
        "units": 0,
        "digest": "",
        "reason": None,
        "decision": None,
    }
    return replace(row, **blank, trusted=True, shipped=False)


def _correlation(one: dict[int, float], other: dict[int, float]) -> float | None:
    both = sorted(one.keys() & other.keys())
    x, y = np.array([one[i] for i in both]), np.array([other[i] for i in both])
    if len(both) < FEWEST_PARTS or not np.ptp(x) or not np.ptp(y):
        return None
    return float(np.clip(np.corrcoef(x, y)[0, 1], -0.99, 0.99))


_WANTED = Wanted(
    (ANALYSIS, REPLAY, TIME),
    "is no result of abeval that has effects",
    "a history takes the JSON of abeval analyze, replay and windows",
)


def add(
    path: Path, results: Sequence[Addable | str | Path], shipped: frozenset[str] | None
) -> Added:
    """Put the rows of results in the place of those that the history had of them.

    Raises:
        ExperimentError: A file is no result, or they are of different experiments.
    """
    read = _read(results)
    parts = [rows_of(result, shipped) for result in read]
    _check_once(parts, experiment_of(read[0]))
    with changing(path) as table:
        sources = tuple(_put(table, rows) for rows in parts if rows)
        return Added(str(path), experiment_of(read[0]), sources, table.experiments())


def add_noise(path: Path, results: Sequence[Addable | str | Path]) -> Added:
    """Put the noise that metrics share, measured by parts of an experiment's units, into a history.

    Raises:
        ExperimentError: A file is no result, they are of different experiments, or too few.
    """
    read = _read(results)
    rows = shared_rows(read)
    with changing(path) as table:
        sources = (_put(table, _signed(rows)),) if rows else ()
        return Added(str(path), experiment_of(read[0]), sources, table.experiments())


def _signed(rows: Sequence[HistoryRow]) -> list[HistoryRow]:
    digest = hashlib.sha256(repr(rows).encode("utf-8", "replace")).hexdigest()[:32]
    return [replace(row, digest=digest) for row in rows]


def _read(results: Sequence[Addable | str | Path]) -> list[Addable]:
    """Results of one experiment, or the files of these.

    Raises:
        ExperimentError: A file is no result, or they are of different experiments.
    """
    read = [_from_file(Path(one)) if isinstance(one, str | Path) else one for one in results]
    if not read:
        raise ExperimentError("there is nothing to add", "name the JSON of abeval analyze")
    names = list(dict.fromkeys(experiment_of(result) for result in read))
    if len(names) > 1:
        what = f"these results are of different experiments: {names[0]!r} and {names[1]!r}"
        raise ExperimentError(what, "add each experiment by a call of its own")
    return read


def _from_file(file: Path) -> Addable:
    # Its kind is one of those that are wanted.
    return cast("Addable", read_result(file, _WANTED))


def _check_once(parts: Sequence[Sequence[HistoryRow]], name: str) -> None:
    sources = [rows[0].source for rows in parts if rows]
    twice = next((source for source in sources if sources.count(source) > 1), None)
    if twice is not None:
        what = f"two results of the same kind ({twice}) of {name!r} were named"
        raise ExperimentError(what, "name one of each: analyze, replay, windows")


def _put(table: Table, rows: Sequence[HistoryRow]) -> AddedSource:
    experiment, source, digest = rows[0].experiment, rows[0].source, rows[0].digest
    before, count = table.digests(experiment).get(source, ("", 0))
    bare = sum(row.se is None and not row.shared for row in rows)
    if before == digest:
        return AddedSource(source, "unchanged", len(rows), 0, bare)
    table.replace(experiment, source, rows)
    return AddedSource(source, "replaced" if count else "added", len(rows), count, bare)
