"""Compare shares of rows between variants: nulls, holes in lists, repeats, clicks.

A share must differ for sure: its value is the near end of an interval for the difference, whose
chance of an error is 1e-6 over all cells of the check. So these checks need no part of the budget
of false alarms.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.experiment.sections import TrustOptions
from abeval.inference.compare import Analysis
from abeval.inference.comparison import MIN_UNITS
from abeval.inference.trust.finding import CLICK_COLUMNS, Finding, Limits, skipped, touched
from abeval.results import format as fmt
from abeval.stats.faults import SURE, Sums, difference

Cells = Mapping[str, Mapping[str, Sums]]
"""Cell → variant → sums."""

SHOWN = 3
"""So many cells are listed in a message."""

_CLICKS_WARN, _CLICKS_FAIL = 0.95, 0.98

_LARGE = 10

_NATURAL_HOLES = 0.02
"""From here on lists lack positions by design, such as those that nobody scrolled to."""

_FIXED = frozenset({"request_id", "item_id", "position", "score"})
"""Columns that no treatment leaves empty: other items, or other clicks, may lack the others."""


class Uneven(NamedTuple):
    """A share that differs between control and another variant, at least by `sure`."""

    cell: str
    variant: str
    control: float
    treatment: float
    sure: float

    @property
    def worse(self) -> float:
        """Return the larger share."""
        return max(self.control, self.treatment)

    @property
    def lacking(self) -> float:
        """Return how much the smaller share lacks, as a part of the larger one."""
        return 1 - min(self.control, self.treatment) / self.worse


def cells_of(aggregates: Aggregates, audit: str, segment: str = "") -> Cells:
    """Return the sums of an audit, by segment if one is named; empty if these logs lack it."""
    cells: dict[str, dict[str, Sums]] = {}
    for one in aggregates.audit_rows.get(f"{audit}:{segment}" if segment else audit, ()):
        sums = Sums(one.clusters, one.y, one.x, one.y_y, one.y_x, one.x_x)
        cells.setdefault(one.cell, {})[one.variant] = sums
    return cells


def compared(analysis: Analysis) -> list[str]:
    """Return the variants that are compared with control: none where control has too few units."""
    experiment, units_of = analysis.experiment, analysis.aggregates.units_of
    names = experiment.treatments if units_of(experiment.control) >= MIN_UNITS else []
    return [variant for variant in names if units_of(variant) >= MIN_UNITS]


def without_few(analysis: Analysis, finding: Finding) -> Finding:
    """Name the variants with too few units, or skip a check that has none to compare."""
    counts = {v: analysis.aggregates.units_of(v) for v in analysis.experiment.variants}
    few = [f"{variant} has {n:,} units" for variant, n in counts.items() if n < MIN_UNITS]
    if not few or finding.value is None:
        return finding
    units = fmt.listing(few)
    if not compared(analysis):
        return skipped(f"{units}, and a comparison needs {MIN_UNITS}", finding.name)
    also = f"; {units} of the {MIN_UNITS} that a comparison needs"
    calm, alarm = finding.calm, finding.alarm or finding.calm
    return finding._replace(calm=calm + also, alarm=alarm + also)


def uneven(analysis: Analysis, cells: Cells, chance: float = SURE) -> list[Uneven]:
    """Return every cell in which a variant differs from control for sure, the most different first.

    `chance` is that any of them is called different although it is not.
    """
    control = analysis.experiment.control
    several = max(1, len(cells) * len(analysis.experiment.treatments))
    differ = [
        Uneven(cell, variant, *found)
        for cell, sums in cells.items()
        for variant in compared(analysis)
        if control in sums and variant in sums
        if (found := difference(sums[control], sums[variant], several, chance)) and found.sure > 0
    ]
    return sorted(differ, key=lambda one: -one.sure)


def by_segment(analysis: Analysis, audit: str) -> list[Uneven]:
    """Return the same of every cell of each segment, named such as `device = 'phone'`."""
    return [
        one._replace(cell=f"{name} = {one.cell!r}")
        for name in analysis.experiment.segments
        for one in uneven(analysis, cells_of(analysis.aggregates, audit, name))
    ]


def most(differing: Iterable[Uneven]) -> float:
    """Return the largest sure difference, 0 without one."""
    return max((one.sure for one in differing), default=0.0)


def shares(cells: Cells, cell: str = "") -> dict[str, float]:
    """Return the share of each variant in a cell."""
    of_cell = cells.get(cell, {})
    return {variant: sums.y / sums.x for variant, sums in of_cell.items() if sums.x}


def _whole_shares(cells: Cells) -> dict[str, float]:
    """Return the share of each variant over all cells."""
    variants = dict.fromkeys(variant for of_cell in cells.values() for variant in of_cell)
    whole = {v: [own[v] for own in cells.values() if v in own] for v in variants}
    sums = {v: (sum(one.y for one in own), sum(one.x for one in own)) for v, own in whole.items()}
    return {variant: y / x for variant, (y, x) in sums.items() if x}


def described(experiment: Experiment, differing: Sequence[Uneven]) -> str:
    """Return cells with both shares, such as `score (control 0.1 %, new 30.2 %)`."""
    listed = [
        f"{one.cell} ({experiment.control} {percent(one.control)}, "
        f"{one.variant} {percent(one.treatment)})"
        for one in differing[:SHOWN]
    ]
    more = len(differing) - SHOWN
    return fmt.listing(listed) + (f" and {more} more" if more > 0 else "")


def percent(value: float) -> str:
    """Return a share in percent, with a digit more where it is small."""
    return f"{value:.2%}" if value < 0.0995 else f"{value:.1%}"


def _percents(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{variant} {percent(share)}" for variant, share in shares.items())


Worst = Literal["fail", "large", "warn"]


def limits(options: TrustOptions, worst: Worst = "fail") -> tuple[Limits, str]:
    """Return from which sure difference on a check warns and fails, and why.

    `large` warns where others fail, and fails at ten times that; `warn` never fails.
    """
    sure = "a difference of the shares that is sure (an error has the chance 1e-6)"
    warn, fail = options.difference_warn, options.difference_fail
    if worst == "warn":
        why = f"{sure}; it never fails, because the treatment may make one"
        return Limits(fail, None), why
    why = f"{sure}: nothing that a treatment does to people makes one"
    return Limits(*((warn, fail) if worst == "fail" else (fail, min(1.0, _LARGE * fail)))), why


class Shares(NamedTuple):
    """Shares that are alike in all variants, unless there is a fault.

    Attributes:
        alarm: What is said before the cells where shares are not alike.
        cells: Cells of the audit → what they are, in words; all cells by their name without any.
        worst: As of `limits`.
        columns: Canonical columns that a fault would touch; all rows without any.
        tells: Whether the share of every variant is told in any case.
        level: Whether it warns as well where rows of one variant are too many (`rows_warn`).
        beside: An audit that is told as well where shares differ, and what its values are.
        absent: Why it is skipped where nothing is counted; it is left out without a reason.
    """

    audit: str
    calm: str
    alarm: str
    remedy: str
    cells: Mapping[str, str] = {}
    worst: Worst = "fail"
    columns: frozenset[str] = frozenset()
    segments: bool = False
    tells: bool = False
    level: bool = False
    beside: tuple[str, str] = ("", "")
    absent: str = ""

    def find(self, analysis: Analysis) -> list[Finding]:
        """Compare the shares, where these logs have what is counted."""
        options, counted = analysis.experiment.trust, cells_of(analysis.aggregates, self.audit)
        # Nothing is counted as well where no row is repeated, or lost.
        looked_for = self.audit == "duplicate" and "duplicates" in analysis.aggregates.facts
        if not (counted or looked_for or self.audit == "set_aside"):
            return [skipped(self.absent)] if self.absent else []
        names = self.cells or {cell: cell for cell in counted}
        cells = {cell: counted[cell] for cell in names if cell in counted}
        differing = [one._replace(cell=names[one.cell]) for one in uneven(analysis, cells)]
        if self.segments:
            differing += by_segment(analysis, self.audit)
            differing.sort(key=lambda one: -one.sure)
        value, (limit, reason) = most(differing), limits(options, self.worst)
        told = _whole_shares(cells) if self.tells else {}
        high = max(told.values(), default=0.0)
        if told:
            within = "; compared within the stretches of one split" if len(cells) > 1 else ""
            alarm = f"{self.alarm}: {_percents(told)}{within}"
        else:
            least = value / 2 if self.segments else limit.warn or 0.0
            shown = [one for one in differing if one.sure >= least]
            alarm = f"{self.alarm}: {described(analysis.experiment, shown)}{self._also(analysis)}"
        return [
            Finding(
                value,
                self.calm if self.calm and not high else alarm,
                alarm,
                limit,
                touched(analysis.metrics, self.columns) if self.columns else None,
                least="warn" if self.level and high >= options.rows_warn else "pass",
                reason=reason,
                remedy=self.remedy,
            )
        ]

    def _also(self, analysis: Analysis) -> str:
        audit, what = self.beside
        beside = shares(cells_of(analysis.aggregates, audit))
        listed = ", ".join(f"{variant} {mean:.2f}" for variant, mean in beside.items())
        return f"; {what}: {listed}" if beside else ""


SHARES = {
    "list_start": Shares(
        "list_start",
        "lists begin at the same position in all variants",
        "lists of one variant begin at another position",
        "where one variant counts from 0, add 1 to its positions (the file's `first_position` is "
        "of all rows); where the first position is missing, look for rows lost or filtered on "
        "their way, such as an item that is shown and not logged",
        {"0": "lists from position 0 on", "2": "lists without their first position"},
        "large",
        columns=frozenset({"position"}),
    ),
    "lists_again": Shares(
        "list_repeat",
        "lists are not logged again within seconds, or alike in all variants",
        "lists with the same items in the same order are logged again within ten seconds",
        "look for requests that are sent again (a retry, a timeout that is too short) and logged "
        "each time under another id: impressions and lists per unit are too many",
        {"at once": "lists again within ten seconds, to the same unit"},
        "large",
    ),
    "duplicates_by_variant": Shares(
        "duplicate",
        "duplicate rows: the shares are alike in all variants",
        "duplicate rows: the shares are not alike",
        "look for events sent twice by the variant's client, or loaded twice",
        {"": "duplicate rows"},
    ),
    "set_aside_by_variant": Shares(
        "set_aside",
        "rows set aside: the shares are alike in all variants",
        "rows set aside: the shares are not alike",
        "look at how the variant's events get their unit, their time and their exposure",
    ),
    "repeated_clicks": Shares(
        "click_again",
        "as many clicks repeat another one on the same impression within ten seconds in all "
        "variants",
        "clicks are logged again within ten seconds of another on the same impression, in one "
        "variant more than in the other",
        "look at the client of the variant: an event that is sent twice, a handler that is bound "
        "twice, or a retry; count a click of an impression once, in sums and in dwell",
        {"": "all clicks"},
        "large",
        columns=CLICK_COLUMNS,
        segments=True,
        beside=("clicks_each", "clicks per clicked impression"),
    ),
    "clicks_before": Shares(
        "click_delay",
        "no click came before its impression",
        "clicks before their impression",
        "look at the clocks of the two services, and at the join: the key may be of another list",
        {"early": ""},
        columns=CLICK_COLUMNS,
        tells=True,
        level=True,
        absent="without a log of clicks with times nobody knows how long after it a click came",
    ),
    "click_delay": Shares(
        "click_delay",
        "clicks come as late after their impression in all variants, but for what an effect does",
        "clicks are odd in one variant",
        "look at clicks that are sent in batches, and at a default in place of their time",
        {
            "late": "later than the attribution window",
            "same": "in the same millisecond as the impression",
            "unknown": "without a time",
        },
        "warn",
        columns=CLICK_COLUMNS,
    ),
    "repeated_lists": Shares(
        "list_repeat",
        "lists are repeated as often in all variants",
        "one variant serves the same items in the same order again and again",
        "look for a cache without the user, or the time, in its key, and for a fallback in place "
        "of the ranker: the effect is of what was served",
        {
            "one": "one and the same list",
            "of others": "lists that another unit gets too",
            "again": "the unit's last list once more",
        },
        "warn",
    ),
    "silent_units": Shares(
        "silent",
        "",
        "exposed units without an impression",
        "if an exposure is logged when a list is shown, look for lists that were not logged",
        worst="warn",
        tells=True,
    ),
}
"""Checks that differ in nothing but in what is counted, and in words."""


def list_holes(analysis: Analysis) -> Finding:
    """Compare how many positions lists lack between the first and the last that they have."""
    aggregates = analysis.aggregates
    whole = cells_of(aggregates, "holes")
    if not whole:
        return skipped("without request_id and position it is unknown whether lists are whole")
    by_place = uneven(analysis, cells_of(aggregates, "holes_at"))
    of_segments = by_segment(analysis, "holes")
    everywhere = shares(whole)
    lengths = shares(cells_of(aggregates, "list_length")).items()
    message = (
        f"positions that lists lack between their first and their last: {_percents(everywhere)}, "
        f"of so many positions a list: {', '.join(f'{name} {n:.1f}' for name, n in lengths)}"
    )
    where = _where(by_place)
    if of_segments:
        plain = [one for one in of_segments if one.sure > of_segments[0].sure / 2]
        where += f"; most in {described(analysis.experiment, plain)}"
    natural = min(everywhere.values(), default=0.0) >= _NATURAL_HOLES
    limit, reason = limits(analysis.experiment.trust, "warn" if natural else "fail")
    return Finding(
        most([*uneven(analysis, whole), *by_place, *of_segments]),
        message,
        message + where,
        limit,
        reason=reason,
        remedy="look for rows lost between the service and the log, for one device or slot of the "
        "page",
    )


def _where(by_place: Sequence[Uneven]) -> str:
    """Return the positions of most holes, if they are few."""
    if not by_place:
        return ""
    top = by_place[0].worse
    places = sorted({int(one.cell) for one in by_place if one.worse > top / 2})
    if len(places) > 10:
        return ""
    what = "position" if len(places) == 1 else "positions"
    return f"; most at {what} {fmt.listing([*map(str, places)])} (up to {percent(top)})"


def nulls(analysis: Analysis) -> Finding:
    """Compare how many values each column lacks."""
    experiment = analysis.experiment
    cells = cells_of(analysis.aggregates, "null")
    if not cells:
        return skipped("no column of the log can be null")
    differing = uneven(analysis, cells)
    fixed = [one for one in differing if one.cell in _FIXED]
    bad = fixed if most(fixed) >= experiment.trust.difference_warn else differing
    # Where only columns of items differ, the treatment may show other items.
    limit, reason = limits(experiment.trust, "warn" if bad and not fixed else "fail")
    return Finding(
        most(bad),
        f"nulls are as many in all variants, in each of {len(cells)} columns",
        f"nulls are not as many in all variants: {described(experiment, bad)}",
        limit,
        touched(analysis.metrics, {one.cell.lower() for one in bad}) if bad else None,
        reason=reason,
        remedy="look at the service that writes this column for the variant, such as a model that "
        "timed out or another version of the event",
    )


def missing_clicks(analysis: Analysis) -> list[Finding]:
    """Find clicks that one variant all but lacks, in all or in one cell of a segment."""
    whole = cells_of(analysis.aggregates, "clicked")
    if not whole:
        return []
    every = [one._replace(cell="all rows") for one in uneven(analysis, whole)]
    lacking = [one for one in (*every, *by_segment(analysis, "clicked")) if one.worse > 0]
    lacking.sort(key=lambda one: -one.lacking)
    shown = [one for one in lacking if one.lacking >= _CLICKS_WARN]
    return [
        Finding(
            max((one.lacking for one in lacking), default=0.0),
            "no variant lacks its clicks anywhere",
            "one variant has next to no clicks where the other has them: "
            f"{described(analysis.experiment, shown)} of the impressions are clicked",
            Limits(_CLICKS_WARN, _CLICKS_FAIL),
            touched(analysis.metrics, CLICK_COLUMNS),
            reason="the share of clicks that is lacking, where the difference is sure (an error "
            "has the chance 1e-6): no treatment takes nearly all clicks away",
            remedy="look whether this client logs clicks at all, and whether their key is that of "
            "the impressions, such as after a release",
        )
    ]


_SERVED = {"timeout": "a timeout", "fallback": "a fallback", "stale": "a stale model"}


def served(analysis: Analysis) -> list[Finding]:
    """Tell timeouts, fallbacks and stale models of each variant, where the log has them."""
    experiment, options = analysis.experiment, analysis.experiment.trust
    cells = cells_of(analysis.aggregates, "served")
    if not cells:
        why = "no column says which impressions had a timeout, a fallback or a stale model"
        is_served = any(variant.model for variant in experiment.variants.values())
        remedy = f"map {', '.join(_SERVED)} in [logs.impressions] columns, if the log has any"
        return [skipped(why, remedy=remedy * is_served)]
    found = []
    for cell, sums in cells.items():
        shown = shares(cells, cell)
        message = f"impressions with {_SERVED[cell]}: {_percents(shown)}"
        differs = most(uneven(analysis, {cell: sums})) >= options.difference_fail
        found.append(
            Finding(
                max(shown.values()),
                message,
                f"{message}: the effect is of what was served, not of what was meant",
                Limits(options.rows_warn, options.rows_fail),
                least="warn" if differs else "pass",
                name=f"served:{cell}",
                reason="these impressions dilute the effect by about their share",
                remedy="look at the latency of the variant's model and at when it was last "
                "deployed",
            )
        )
    return found
