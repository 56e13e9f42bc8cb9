"""Results of one experiment → the rows that a history keeps of them.

`history.py` hands over results, or their JSON files, and puts the rows into the file.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from abeval.agreement.standing import CALIBRATED_AT, LOWER_IS_BETTER
from abeval.errors import ExperimentError
from abeval.history.entries import window_rows
from abeval.results.analysis import Result
from abeval.results.effects import Row
from abeval.results.history import HistoryRow
from abeval.results.replay import PairRow, ReplayResult
from abeval.results.windows import TimeResult
from abeval.stats.distributions import quantile, two_sided_quantile

Addable = Result | ReplayResult | TimeResult
"""What a history takes."""


def name_of(result: Addable) -> str:
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
            se=_se(row, info.alpha, bounds.get((row.metric, row.variant))),
            p_value=row.p_value,
            alpha=info.alpha,
            units_control=row.units_control,
            units=row.units,
            trusted=row.status != "untrusted",
            reason=row.reason,
            decision=decision,
            shipped=by_verdict or row.variant in (shipped or frozenset()),
        )


def _se(row: Row, alpha: float, boundary: float | None) -> float | None:
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
