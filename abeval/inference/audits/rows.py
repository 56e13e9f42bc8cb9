"""Checks of rows by variant: nulls, positions that lists lack, duplicates, rows set aside.

`inference/trust/checks.py` lists them. A share must differ between variants for sure: its value is
the near end of an interval for the difference, whose chance of an error is 1e-6 over all cells of
the check. So these checks need no part of the budget of false alarms.
"""

from dataclasses import replace

from abeval.inference.audits.counts import (
    Cells,
    Uneven,
    cells_of,
    described,
    listing,
    most,
    percent,
    shares,
    uneven,
    whole_shares,
    without_few,
)
from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import (
    CLICK_COLUMNS,
    Limits,
    Words,
    graded,
    skipped,
    touched,
)
from abeval.results import Check

_OF_ITEMS = frozenset({"category", "propensity", "dwell"})
"""Columns that other items, or other clicks, may leave empty: the treatment can move them."""

_NATURAL_HOLES = 0.02
"""From here on lists lack positions by design, such as those that nobody scrolled to."""

_WHY = (
    "a difference of the shares that is sure (an error has the chance 1e-6): nothing that a "
    "treatment does to people makes one"
)
_WHY_MOVABLE = (
    "a difference of the shares that is sure (an error has the chance 1e-6); it never fails, "
    "because the treatment may make one"
)


def limits(analysis: Analysis, movable: bool = False) -> Limits:
    """From which sure difference on a check warns and fails."""
    options = analysis.experiment.trust
    if movable:
        return Limits(options.difference_fail, None, _WHY_MOVABLE)
    return Limits(options.difference_warn, options.difference_fail, _WHY)


def audit_checks(analysis: Analysis) -> list[Check]:
    """Every check of shares of rows."""
    if not analysis.aggregates.audits:
        return [skipped("audits", _NOT_AUDITED)]
    if analysis.experiment.of_units:
        checks = [_nulls(analysis), *_duplicates(analysis)]
    else:
        checks = [
            *_holes(analysis),
            _nulls(analysis),
            *_duplicates(analysis),
            *_set_aside(analysis),
            *_clicks(analysis),
            *_served(analysis),
            *_silent(analysis),
        ]
    return [one if _judges_shares(one) else without_few(analysis, one) for one in checks]


def _judges_shares(check: Check) -> bool:
    """Whether a check is also of each variant's own share, of however few units."""
    return check.name.startswith(("clicks_before", "served"))


_NOT_AUDITED = (
    "the log is not audited by variant: sums have no rows to audit, and rows without a unit say "
    "nothing of who they are of"
)


def _holes(analysis: Analysis) -> list[Check]:
    """Positions that lists lack between the first and the last that they have."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    whole = cells_of(aggregates, "holes")
    if not whole:
        message = "without request_id and position it is unknown whether lists are whole"
        return [skipped("list_holes", message)]
    by_place = uneven(analysis, cells_of(aggregates, "holes_at"))
    by_segment = [
        one._replace(cell=f"{name} = {one.cell!r}")
        for name in experiment.segments
        for one in uneven(analysis, cells_of(aggregates, f"holes:{name}"))
    ]
    everywhere = shares(whole, "")
    natural = min(everywhere.values(), default=0.0) >= _NATURAL_HOLES
    value = most([*uneven(analysis, whole), *by_place, *by_segment])
    listed = ", ".join(f"{name} {percent(share)}" for name, share in everywhere.items())
    lengths = shares(cells_of(aggregates, "list_length"), "")
    long = ", ".join(f"{name} {length:.1f}" for name, length in lengths.items())
    message = (
        f"positions that lists lack between their first and their last: {listed}, of so many "
        f"positions a list: {long}"
    )
    words = Words(
        message,
        f"{message}{_where(analysis, by_place, by_segment)}",
        "look for rows lost between the service and the log, for one device or slot of the page",
    )
    return [graded("list_holes", value, limits(analysis, natural), words)]


def _where(analysis: Analysis, by_place: list[Uneven], by_segment: list[Uneven]) -> str:
    """Where holes are: at few positions, in one cell of a segment."""
    parts = []
    if by_place:
        top = by_place[0].worse
        places = sorted({int(one.cell) for one in by_place if one.worse > top / 2})
        if len(places) <= 10:
            parts.append(
                f"most at {'position' if len(places) == 1 else 'positions'} "
                f"{listing([str(place) for place in places])} (up to {percent(top)})"
            )
    if by_segment:
        largest = by_segment[0].difference.sure
        parts.append(
            "most in "
            + described(
                analysis.experiment,
                [one for one in by_segment if one.difference.sure > largest / 2],
            )
        )
    return "".join(f"; {part}" for part in parts)


def _nulls(analysis: Analysis) -> Check:
    """Whether a column that is read is null for another share of the rows in some variant."""
    experiment = analysis.experiment
    cells = cells_of(analysis.aggregates, "null")
    if not cells:
        return skipped("nulls", "no column of the log can be null")
    differing = uneven(analysis, cells)
    fixed = [one for one in differing if not _is_movable(analysis, one.cell)]
    bad = fixed if most(fixed) >= experiment.trust.difference_warn else differing
    words = Words(
        f"nulls are as many in all variants, in each of {len(cells)} columns",
        f"nulls are not as many in all variants: {described(experiment, bad)}",
        "look at the service that writes this column for the variant, such as a model that timed "
        "out or another version of the event",
    )
    # Where only columns of items differ, the treatment may show other items.
    return graded(
        "nulls",
        most(bad),
        limits(analysis, movable=bool(bad) and not fixed),
        words,
        touched(analysis.metrics, {one.cell.lower() for one in bad}) if bad else None,
    )


def _is_movable(analysis: Analysis, column: str) -> bool:
    own = {"request_id", "item_id", "position", "score"}
    return column in _OF_ITEMS or column not in own


def _duplicates(analysis: Analysis) -> list[Check]:
    """Whether rows are repeated more often in some variant."""
    if "duplicates" not in analysis.aggregates.facts:
        return []
    cells = cells_of(analysis.aggregates, "duplicate")
    return [
        _plain(
            analysis,
            "duplicates_by_variant",
            cells,
            "duplicate rows",
            "look for events sent twice by the variant's client, or loaded twice",
        )
    ]


def _set_aside(analysis: Analysis) -> list[Check]:
    """Whether rows of a variant are set aside more often, for each reason."""
    cells = cells_of(analysis.aggregates, "set_aside")
    remedy = "look at how the variant's events get their unit, their time and their exposure"
    return [_plain(analysis, "set_aside_by_variant", cells, "rows set aside", remedy)]


def _plain(analysis: Analysis, name: str, cells: Cells, what: str, remedy: str) -> Check:
    """A check of shares that no treatment moves."""
    experiment = analysis.experiment
    differing = uneven(analysis, cells)
    named = [one._replace(cell=one.cell or what) for one in differing]
    words = Words(
        f"{what}: the shares are alike in all variants",
        f"{what}: the shares are not alike: {described(experiment, named)}",
        remedy,
    )
    return graded(name, most(differing), limits(analysis), words)


def _clicks(analysis: Analysis) -> list[Check]:
    """Clicks before their impression, and clicks that are odd in one variant."""
    cells = cells_of(analysis.aggregates, "click_delay")
    if not cells:
        message = "without a log of clicks with times nobody knows how long after it a click came"
        return [skipped("clicks_before", message)]
    metrics = touched(analysis.metrics, CLICK_COLUMNS)
    return [_before(analysis, cells, metrics), _delays(analysis, cells, metrics)]


def _before(analysis: Analysis, cells: Cells, metrics: tuple[str, ...] | None) -> Check:
    experiment = analysis.experiment
    own = {"before": cells.get("before", {})}
    shown = shares(own, "before")
    listed = ", ".join(f"{name} {percent(share)}" for name, share in shown.items())
    message = f"clicks before their impression: {listed}" if shown else "no click is before its"
    words = Words(
        message if shown else "no click came before its impression",
        message,
        "look at the clocks of the two services, and at the join: the key may be of another list",
    )
    check = graded("clicks_before", most(uneven(analysis, own)), limits(analysis), words, metrics)
    return _warned(check, max(shown.values(), default=0.0) >= experiment.trust.rows_warn, words)


def _delays(analysis: Analysis, cells: Cells, metrics: tuple[str, ...] | None) -> Check:
    """Late clicks, and clicks at the very time of their impression."""
    experiment = analysis.experiment
    own = {cell: cells[cell] for cell in ("late", "same", "unknown") if cell in cells}
    words_of = {
        "late": "later than the attribution window",
        "same": "in the same millisecond as the impression",
        "unknown": "without a time",
    }
    differing = [
        one._replace(cell=words_of[one.cell])
        for one in uneven(analysis, own)
        if one.difference.sure >= experiment.trust.difference_fail
    ]
    words = Words(
        "clicks come as late after their impression in all variants, but for what an effect does",
        f"clicks are odd in one variant: {described(experiment, differing)}",
        "look at clicks that are sent in batches, and at a default in place of their time",
    )
    return graded("click_delay", most(differing), limits(analysis, movable=True), words, metrics)


def _warned(check: Check, warns: bool, words: Words) -> Check:
    """The check, at least a warning."""
    if check.status != "pass" or not warns:
        return check
    return replace(check, status="warn", message=words.alarm)


def _served(analysis: Analysis) -> list[Check]:
    """Timeouts, fallbacks and stale models, where the log says so."""
    experiment = analysis.experiment
    cells = cells_of(analysis.aggregates, "served")
    return (
        [_not_as_meant(analysis, cell, {cell: cells[cell]}) for cell in cells]
        if cells
        else [
            skipped(
                "served",
                "no column says which impressions had a timeout, a fallback or a stale model: "
                f"map such a column in [logs.{experiment.logs.rows_name}] columns",
            )
        ]
    )


def _not_as_meant(analysis: Analysis, name: str, cells: Cells) -> Check:
    options = analysis.experiment.trust
    shown = shares(cells, name)
    listed = ", ".join(f"{variant} {percent(share)}" for variant, share in shown.items())
    message = f"impressions with {_SERVED[name]}: {listed}"
    words = Words(
        message,
        f"{message}: the effect is of what was served, not of what was meant",
        "look at the latency of the variant's model and at when it was last deployed",
    )
    reason = "these impressions dilute the effect by about their share"
    found = Limits(options.rows_warn, options.rows_fail, reason)
    check = graded(f"served:{name}", max(shown.values()), found, words)
    differs = most(uneven(analysis, cells)) >= options.difference_fail
    return _warned(check, differs, words)


_SERVED = {"timeout": "a timeout", "fallback": "a fallback", "stale": "a stale model"}


def _silent(analysis: Analysis) -> list[Check]:
    """Exposed units without an impression, compared within stretches of entry days."""
    cells = cells_of(analysis.aggregates, "silent")
    if not cells:
        return []
    shown = whole_shares(cells)
    listed = ", ".join(f"{variant} {percent(share)}" for variant, share in shown.items())
    message = f"exposed units without an impression: {listed}"
    if len(cells) > 1:
        message += "; compared within the stretches of one split"
    words = Words(
        message,
        message,
        "if an exposure is logged when a list is shown, look for lists that were not logged",
    )
    differing = uneven(analysis, cells)
    return [graded("silent_units", most(differing), limits(analysis, movable=True), words)]
