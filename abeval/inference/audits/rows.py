"""Checks of rows by variant: nulls, positions that lists lack, duplicates, rows set aside.

`inference/trust/checks.py` lists them. A share must differ between variants for sure: its value is
the near end of an interval for the difference, whose chance of an error is 1e-6 over all cells of
the check. So these checks need no part of the budget of false alarms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from abeval.inference.compare import Analysis
from abeval.inference.trust.audits import (
    Cells,
    Uneven,
    by_segment,
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

_CLICKS_WARN, _CLICKS_FAIL = 0.95, 0.98

_LARGE = 10

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


class ShareCheck(NamedTuple):
    """A check of shares that are alike in all variants, unless there is a fault.

    Attributes:
        name: Its id.
        audit: What is counted for it.
        cells: Cells of the audit → what they are, in words; all cells by their name without any.
        calm: What it says where the shares are alike.
        alarm: What it says before the cells where they are not.
        remedy: Likely causes, and where to look.
        worst: `fail`; `large`, to fail from ten times the difference on that others fail at, and
            to warn from that one on; or `warn`, never to fail, for what the treatment may move.
        columns: Canonical columns that a fault would touch; it touches all rows without any.
        segments: Whether the audit also has cells of each segment.
        tells: Whether it tells the share of every variant in any case, after the words of `alarm`.
        level: Whether it warns as well where rows of one variant are too many (`rows_warn`).
        beside: An audit whose values it tells as well where it does not pass, and what they are.
        absent: Why it is skipped where nothing is counted for it; it is left out without a reason.
    """

    name: str
    audit: str
    cells: Mapping[str, str]
    calm: str
    alarm: str
    remedy: str
    worst: Literal["fail", "large", "warn"] = "fail"
    columns: frozenset[str] = frozenset()
    segments: bool = False
    tells: bool = False
    level: bool = False
    beside: tuple[str, str] = ("", "")
    absent: str = ""


SHARE_CHECKS = (
    ShareCheck(
        "duplicates_by_variant",
        "duplicate",
        {"": "duplicate rows"},
        "duplicate rows: the shares are alike in all variants",
        "duplicate rows: the shares are not alike",
        "look for events sent twice by the variant's client, or loaded twice",
    ),
    ShareCheck(
        "set_aside_by_variant",
        "set_aside",
        {},
        "rows set aside: the shares are alike in all variants",
        "rows set aside: the shares are not alike",
        "look at how the variant's events get their unit, their time and their exposure",
    ),
    ShareCheck(
        "repeated_clicks",
        "click_again",
        {"": "all clicks"},
        "as many clicks repeat another one on the same impression within ten seconds in all "
        "variants",
        "clicks are logged again within ten seconds of another on the same impression, in one "
        "variant more than in the other",
        "look at the client of the variant: an event that is sent twice, a handler that is bound "
        "twice, or a retry; count a click of an impression once, in sums and in dwell",
        worst="large",
        columns=CLICK_COLUMNS,
        segments=True,
        beside=("clicks_each", "clicks per clicked impression"),
    ),
    ShareCheck(
        "clicks_before",
        "click_delay",
        {"early": ""},
        "no click came before its impression",
        "clicks before their impression",
        "look at the clocks of the two services, and at the join: the key may be of another list",
        columns=CLICK_COLUMNS,
        tells=True,
        level=True,
        absent="without a log of clicks with times nobody knows how long after it a click came",
    ),
    ShareCheck(
        "click_delay",
        "click_delay",
        {
            "late": "later than the attribution window",
            "same": "in the same millisecond as the impression",
            "unknown": "without a time",
        },
        "clicks come as late after their impression in all variants, but for what an effect does",
        "clicks are odd in one variant",
        "look at clicks that are sent in batches, and at a default in place of their time",
        worst="warn",
        columns=CLICK_COLUMNS,
    ),
    ShareCheck(
        "list_start",
        "list_start",
        {"0": "lists from position 0 on", "2": "lists without their first position"},
        "lists begin at the same position in all variants",
        "lists of one variant begin at another position",
        "where one variant counts from 0, add 1 to its positions (the file's `first_position` is "
        "of all rows); where the first position is missing, look for rows lost or filtered on "
        "their way, such as an item that is shown and not logged",
        worst="large",
        columns=frozenset({"position"}),
    ),
    ShareCheck(
        "lists_again",
        "list_repeat",
        {"at once": "lists again within ten seconds, to the same unit"},
        "lists are not logged again within seconds, or alike in all variants",
        "lists with the same items in the same order are logged again within ten seconds",
        "look for requests that are sent again (a retry, a timeout that is too short) and logged "
        "each time under another id: impressions and lists per unit are too many",
        worst="large",
    ),
    ShareCheck(
        "repeated_lists",
        "list_repeat",
        {
            "one": "one and the same list",
            "of others": "lists that another unit gets too",
            "again": "the unit's last list once more",
        },
        "lists are repeated as often in all variants",
        "one variant serves the same items in the same order again and again",
        "look for a cache without the user, or the time, in its key, and for a fallback in place "
        "of the ranker: the effect is of what was served",
        worst="warn",
    ),
    ShareCheck(
        "silent_units",
        "silent",
        {},
        "",
        "exposed units without an impression",
        "if an exposure is logged when a list is shown, look for lists that were not logged",
        worst="warn",
        tells=True,
    ),
)
"""Checks that differ in nothing but in what is counted, and in words."""


def audit_checks(analysis: Analysis) -> list[Check]:
    """Every check of shares of rows."""
    if not analysis.aggregates.audits:
        return [skipped("audits", _NOT_AUDITED)]
    plain = {one.name: check for one in SHARE_CHECKS for check in _share_check(analysis, one)}
    if analysis.experiment.of_units:
        checks = [_nulls(analysis), *_only(plain, "duplicates_by_variant")]
    else:
        checks = [
            *_holes(analysis),
            *_only(plain, "list_start", "lists_again"),
            _nulls(analysis),
            *_only(plain, "duplicates_by_variant", "set_aside_by_variant", "repeated_clicks"),
            *_only(plain, "clicks_before", "click_delay", "repeated_lists"),
            *_missing_clicks(analysis),
            *_served(analysis),
            *_only(plain, "silent_units"),
        ]
    # These also judge each variant's own share, of however few units.
    own = ("clicks_before", "served")
    return [one if one.name.startswith(own) else without_few(analysis, one) for one in checks]


def _only(checks: Mapping[str, Check], *names: str) -> list[Check]:
    return [checks[name] for name in names if name in checks]


def _share_check(analysis: Analysis, check: ShareCheck) -> list[Check]:
    """The check, where these logs have what it counts."""
    counted = cells_of(analysis.aggregates, check.audit)
    names = {cell: check.cells.get(cell, cell) for cell in check.cells or counted}
    cells = {cell: counted[cell] for cell in names if cell in counted}
    if not counted and not _is_whole(analysis, check.audit):
        return [skipped(check.name, check.absent)] if check.absent else []
    differing = [one._replace(cell=names[one.cell]) for one in uneven(analysis, cells)]
    if check.segments:
        differing += by_segment(analysis, check.audit)
        differing.sort(key=lambda one: -one.difference.sure)
    value, limit = most(differing), _limits_of(analysis, check.worst)
    least = value / 2 if check.segments else min(limit.warn, value)
    told = whole_shares(cells) if check.tells else {}
    shown = [one for one in differing if one.difference.sure >= least]
    words = _told(check, told, len(cells)) if told else _words(analysis, check, shown)
    metrics = touched(analysis.metrics, check.columns) if check.columns else None
    result = graded(check.name, value, limit, words, metrics)
    high = max(told.values(), default=0.0) >= analysis.experiment.trust.rows_warn
    return [_warned(result, check.level and high, words)]


def _told(check: ShareCheck, told: Mapping[str, float], cells: int) -> Words:
    """The share of every variant."""
    listed = ", ".join(f"{variant} {percent(share)}" for variant, share in told.items())
    within = "; compared within the stretches of one split" if cells > 1 else ""
    message = f"{check.alarm}: {listed}{within}"
    calm = check.calm if check.calm and not any(told.values()) else message
    return Words(calm, message, check.remedy)


def _words(analysis: Analysis, check: ShareCheck, shown: Sequence[Uneven]) -> Words:
    """The cells that differ."""
    audit, what = check.beside
    beside = shares(cells_of(analysis.aggregates, audit), "")
    listed = ", ".join(f"{variant} {mean:.2f}" for variant, mean in beside.items())
    more = f"; {what}: {listed}" if beside else ""
    alarm = f"{check.alarm}: {described(analysis.experiment, shown)}{more}"
    return Words(check.calm, alarm, check.remedy)


def _is_whole(analysis: Analysis, audit: str) -> bool:
    """Whether nothing is counted because there is nothing wrong: no row is repeated, or lost."""
    looked_for = "duplicates" in analysis.aggregates.facts
    return audit == "set_aside" or (audit == "duplicate" and looked_for)


def _limits_of(analysis: Analysis, worst: str) -> Limits:
    options = analysis.experiment.trust
    if worst == "large":
        fail = min(1.0, _LARGE * options.difference_fail)
        return Limits(options.difference_fail, fail, _WHY)
    return limits(analysis, movable=worst == "warn")


_NOT_AUDITED = (
    "the log is not audited by variant: sums have no rows to audit, and rows without a unit say "
    "nothing of who they are of"
)


def _holes(analysis: Analysis) -> list[Check]:
    """Positions that lists lack between the first and the last that they have."""
    aggregates = analysis.aggregates
    whole = cells_of(aggregates, "holes")
    if not whole:
        message = "without request_id and position it is unknown whether lists are whole"
        return [skipped("list_holes", message)]
    by_place = uneven(analysis, cells_of(aggregates, "holes_at"))
    of_segments = by_segment(analysis, "holes")
    everywhere = shares(whole, "")
    natural = min(everywhere.values(), default=0.0) >= _NATURAL_HOLES
    value = most([*uneven(analysis, whole), *by_place, *of_segments])
    listed = ", ".join(f"{name} {percent(share)}" for name, share in everywhere.items())
    lengths = shares(cells_of(aggregates, "list_length"), "")
    long = ", ".join(f"{name} {length:.1f}" for name, length in lengths.items())
    message = (
        f"positions that lists lack between their first and their last: {listed}, of so many "
        f"positions a list: {long}"
    )
    words = Words(
        message,
        f"{message}{_where(analysis, by_place, of_segments)}",
        "look for rows lost between the service and the log, for one device or slot of the page",
    )
    return [graded("list_holes", value, limits(analysis, natural), words)]


def _where(analysis: Analysis, by_place: list[Uneven], of_segments: list[Uneven]) -> str:
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
    if of_segments:
        largest = of_segments[0].difference.sure
        parts.append(
            "most in "
            + described(
                analysis.experiment,
                [one for one in of_segments if one.difference.sure > largest / 2],
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


def _missing_clicks(analysis: Analysis) -> list[Check]:
    """Clicks that one variant all but lacks, in all or in one cell of a segment."""
    name, whole = "missing_clicks", cells_of(analysis.aggregates, "clicked")
    if not whole:
        return []
    every = [one._replace(cell="all rows") for one in uneven(analysis, whole)]
    lacking = sorted(
        (one for one in [*every, *by_segment(analysis, "clicked")] if one.worse > 0),
        key=lambda one: one.better / one.worse,
    )
    value = max((1 - one.better / one.worse for one in lacking), default=0.0)
    shown = [one for one in lacking if 1 - one.better / one.worse >= min(_CLICKS_WARN, value)]
    words = Words(
        "no variant lacks its clicks anywhere",
        "one variant has next to no clicks where the other has them: "
        f"{described(analysis.experiment, shown)} of the impressions are clicked",
        "look whether this client logs clicks at all, and whether their key is that of the "
        "impressions, such as after a release",
    )
    reason = (
        "the share of clicks that is lacking, where the difference is sure (an error has the "
        "chance 1e-6): no treatment takes nearly all clicks away"
    )
    metrics = touched(analysis.metrics, CLICK_COLUMNS)
    return [graded(name, value, Limits(_CLICKS_WARN, _CLICKS_FAIL, reason), words, metrics)]


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
