"""Find logs of which one variant lacks the rows: from a day on, or altogether."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from abeval.aggregates.aggregates import GroupRows
from abeval.aggregates.audit_arrays import CLUSTERS
from abeval.aggregates.breaks import DAYS, IMPRESSIONS, OUTCOMES, VALUES, name_values
from abeval.inference.compare import Analysis
from abeval.inference.trust.audits import (
    SHOWN,
    WEEK,
    describe_shares,
    find_losses,
    find_uneven_shares,
    read_audit,
    sum_day_windows,
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
    """A break in the rows of one variant, against those of the other variant.

    `lost` is the share of rows that the variant loses, and `text` describes the rows in words.
    `sure` is the difference of the shares that the rows from a day on are of all, as far as it is
    sure.
    """

    lost: float
    sure: float
    variant: str
    value: str
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
    """Find a day on which impressions, clicks or outcomes of one variant break off.

    Rows of one variant that suddenly begin are found too.
    """
    audits = [name for name in analysis.aggregates.audits if name.startswith(DAYS)]
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
    """Find the breaks of a log, the worst first.

    Cells of segments are searched only if all units together have no break.
    """
    for segments in ([""], analysis.experiment.segments):
        found = [
            found_break
            for segment in segments
            for found_break in _list_breaks(analysis, log, segment, _CHANCE / audits)
        ]
        if found:
            return sorted(found, key=lambda found_break: -found_break.lost)
    return []


def _list_breaks(analysis: Analysis, log: str, segment: str, chance: float) -> list[_Break]:
    """List the surest break of each variant in each cell of a segment."""
    cells = analysis.aggregates.audits.get(f"{DAYS}{log}:{segment}", ())
    compared = sum(2 * (len(cell.times) - 1) for cell in cells)
    level = chance / max(1, compared) / len(analysis.experiment.treatments)
    found = [
        found_break
        for cell in cells
        for length in (1, WEEK)
        for found_break in _find_cell_breaks(analysis, log, segment, cell, length, level)
    ]
    # A week that loses some of its rows may be surer than the day that loses all: it comes later.
    found.sort(key=lambda found_break: (found_break.lost < _FAIL, -found_break.sure))
    surest = dict[tuple[str, str], _Break]()
    for found_break in found:
        surest.setdefault((found_break.variant, found_break.value), found_break)
    return list(surest.values())


def _find_cell_breaks(
    analysis: Analysis, log: str, segment: str, cell: GroupRows, length: int, chance: float
) -> Iterator[_Break]:
    """Find the days from which on a variant lacks rows: of a day, or of a week."""
    after, before = (sum_day_windows(cell.rows, *days)[1:] for days in ((0, length), (-WEEK, 0)))
    where = f" ({segment} = {cell.value!r})" if segment else ""
    since = "on" if length == 1 else "in the week from"
    for loss in find_losses(analysis, after, before, _WARN, chance):
        if not differs_together(*loss.sums, CLUSTERS, chance):
            continue
        first = cell.times[loss.day + 1].astype("M8[D]")
        base, treatment = (
            _describe_rows(sums, is_value=log.startswith(VALUES)) for sums in loss.sums
        )
        text = (
            f"{log}{where} {since} {first} and in the week before it: "
            f"{loss.variant} {treatment} and {analysis.experiment.control} {base}"
        )
        yield _Break(loss.lost, loss.sure, loss.variant, cell.value, text)


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
