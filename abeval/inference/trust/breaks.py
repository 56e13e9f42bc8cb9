"""Find logs of which one variant lacks the rows: from a day on, or altogether."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from abeval.aggregates.audit_arrays import CLUSTERS
from abeval.aggregates.breaks import AUDIT, IMPRESSIONS, OUTCOMES, VALUES, name_values
from abeval.inference.compare import Analysis
from abeval.inference.trust.audits import (
    SHOWN,
    describe_shares,
    find_uneven_shares,
    index_by_cell,
    read_audit,
)
from abeval.inference.trust.finding import (
    CLICK_COLUMNS,
    RawCheck,
    TrustCheck,
    affected_metrics,
    reads_log,
    skip_check,
)
from abeval.metrics.definition import Metric
from abeval.results import format as fmt
from abeval.stats.faults import Sums, differs_together

_WARN, _FAIL = 0.6, 0.9
_CHANCE = 1e-4


class _Break(NamedTuple):
    """The share that one variant's rows lose, by those of the other, and the rows in words."""

    lost: float
    text: str


@TrustCheck(
    "breaks",
    pairs=True,
    limits=(_WARN, _FAIL),
    calm="no log breaks off in one variant alone",
    alarm="{listed}",
    reason=(
        "what a variant's rows lose against those of the week before, relative to the other "
        "variant (sure: an error has the chance 1e-4); an effect that comes or fades hardly takes "
        "six tenths from one day to the next, and none takes nine"
    ),
    remedy=(
        "look at what was released then, and whether the variant's client or service still writes "
        "this log, and amounts in the same unit: load what is missing, or leave the days out of "
        "[period]; if the split was changed, write [assignment] splits"
    ),
)
def breaks(analysis: Analysis) -> list[RawCheck]:
    """Find a day on which one variant's impressions, clicks or outcomes break off, or begin."""
    audits = [name for name in analysis.aggregates.audits if name.startswith(AUDIT)]
    if analysis.experiment.switchback is not None:
        return [skip_check("variants take turns, so no day has both")]
    if not audits:
        return [skip_check("no log has a day that can be compared with those before it")]
    findings, is_followed, has_broken = list[RawCheck](), False, False
    for log in dict.fromkeys(name.split(":")[1] for name in audits):
        if is_followed or (has_broken and log.startswith(VALUES)):
            continue
        found = _find_breaks(analysis, log, len(audits))
        listed = fmt.join_items([found_break.text for found_break in found[:SHOWN]])
        lost = found[0].lost if found else 0.0
        metrics = _list_metrics(analysis, log)
        findings.append(RawCheck(lost, metrics=metrics, slots={"listed": listed}))
        # Without impressions there are no clicks either, and without rows no values.
        is_followed |= log == IMPRESSIONS and lost >= _FAIL
        has_broken |= bool(found)
    return findings


def _find_breaks(analysis: Analysis, log: str, audits: int) -> list[_Break]:
    """Find the breaks of a log, the worst first: in all units, else in cells of segments."""
    for segments in ((), analysis.experiment.segments):
        names = [f"{AUDIT}{log}:{segment}" for segment in segments] or [f"{AUDIT}{log}"]
        found = [
            found_break
            for name in names
            for found_break in _list_breaks(analysis, name, _CHANCE / audits)
        ]
        if found:
            return sorted(found, key=lambda found_break: -found_break.lost)
    return []


def _list_breaks(analysis: Analysis, audit: str, chance: float) -> Iterator[_Break]:
    """List the surest break of each variant in each cell of a segment."""
    _, log, *segment = audit.split(":", 2)
    control, treatments = analysis.experiment.control, analysis.experiment.treatments
    every = index_by_cell(analysis.aggregates.audits.get(audit, ()))
    lost = {
        (cell, variant): loss
        for cell, rows in every.items()
        for variant in treatments
        if control in rows and variant in rows
        if (loss := _measure_loss(rows[control].sums, rows[variant].sums)) >= _WARN
    }
    cells = {cell: every[cell] for cell, _ in lost}
    told, part = set[tuple[str, str]](), chance / max(1, len(every))
    uneven = [
        share
        for share in find_uneven_shares(analysis, cells, part * len(cells))
        if (share.cell, share.variant) in lost
    ]
    # A week that loses some of its rows may be surer than the day that loses all: it comes later.
    for share in sorted(uneven, key=lambda share: lost[share.cell, share.variant] < _FAIL):
        _, length, day, value = share.cell.split(" ", 3)
        counts = cells[share.cell]
        if (share.variant, value) in told:
            continue
        pair = counts[control].sums, counts[share.variant].sums
        if not differs_together(*pair, CLUSTERS, part / len(treatments)):
            continue
        told.add((share.variant, value))
        where = f" ({segment[0]} = {value!r})" if segment else ""
        since = "on" if length == "1" else "in the week from"
        described = [
            f"{variant} {_describe_rows(counts[variant].sums, is_value=log.startswith(VALUES))}"
            for variant in (share.variant, control)
        ]
        text = f"{log}{where} {since} {day} and in the week before it: {' and '.join(described)}"
        yield _Break(lost[share.cell, share.variant], text)


def _measure_loss(control: Sums, treatment: Sums) -> float:
    """Return the share that one variant's rows lose against those before, relative to the other."""
    # Rows after times the other's rows before, of each variant.
    products = control.y * (treatment.x - treatment.y), treatment.y * (control.x - control.y)
    return 1 - min(products) / max(products) if any(products) else 0.0


def _describe_rows(sums: Sums, *, is_value: bool) -> str:
    """Describe the rows from a day on, and those before it; of values, their ratio."""
    before = sums.x - sums.y
    if is_value:
        ratio = sums.y / before if before else 0.0
        times = f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"
        return f"{times} times as much" if before else "some after none"
    return f"{sums.y:,} after {before:,}"


def _list_metrics(analysis: Analysis, log: str) -> tuple[str, ...] | None:
    """List the metrics that read a log; None for all."""
    if log == IMPRESSIONS:
        return None
    if log == "clicks":
        return affected_metrics(analysis.metrics, CLICK_COLUMNS)
    if log.startswith(VALUES):
        named = [_find_value(metric) for metric in analysis.metrics if name_values(metric) == log]
        return tuple(metric.name for metric in analysis.metrics if _find_value(metric) in named)
    return tuple(metric.name for metric in analysis.metrics if reads_log(metric, log))


def _find_value(metric: Metric) -> object:
    return metric.per_unit.values[:1] if metric.per_unit else metric.value


@TrustCheck(
    "missing_outcomes",
    pairs=True,
    limits=(0.95, 0.98),
    calm="no variant lacks the rows of an outcome log",
    alarm="one variant has next to no rows where the other has them (share of its units): {shares}",
    reason=(
        "the share of units with a row that is lacking, where the difference is sure (an error "
        "has the chance 1e-6): no treatment takes nearly all of what is wanted away"
    ),
    remedy=(
        "look whether the variant's client or service writes this log at all; metrics of what only "
        'one variant can have, such as clicks on a new button, need role = "diagnostic"'
    ),
)
def missing_outcomes(analysis: Analysis) -> list[RawCheck]:
    """Find outcome logs of which one variant has no rows."""
    findings = []
    for log, by_variant in read_audit(analysis.aggregates, OUTCOMES).items():
        differing = find_uneven_shares(analysis, {log: by_variant})
        lost = max((share.lacking for share in differing), default=0.0)
        slots = {"shares": describe_shares(analysis.experiment, differing)}
        # Of what should not happen, such as errors, one variant may well have none; of what nothing
        # is decided by, it may have none by design.
        reads = [metric for metric in analysis.metrics if reads_log(metric, log)]
        wanted = tuple(
            metric.name
            for metric in reads
            if metric.direction.sign > 0 and metric.role != "diagnostic"
        )
        names = wanted or tuple(metric.name for metric in reads)
        worst: Literal["warn", "fail"] = "fail" if wanted else "warn"
        findings.append(RawCheck(lost, metrics=names, worst=worst, slots=slots))
    return findings
