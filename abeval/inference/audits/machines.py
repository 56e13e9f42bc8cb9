"""Units that no person can be, and how much of each variant is theirs.

`inference/trust/checks.py` lists the check; `aggregates/audit_arrays.py` says what a machine is.
"""

from collections.abc import Mapping

from abeval.inference.compare import Analysis
from abeval.inference.trust.audits import cells_of, listing, percent
from abeval.inference.trust.finding import Limits, Words, graded, skipped
from abeval.results import Check
from abeval.stats.faults import Sums

NAME = "bots"

_COMMON, _MANY = 0.05, 20
"""If more of the units with many lists have them at regular distances, the product is so."""

_REASON = (
    "by how much the share of a variant's impressions, or clicks, that machines make differs from "
    "control's: units whose lists come at one distance (of 50 or more, three of five within a "
    "fifth of their median), or that are active in 22 hours of a day, as no person is"
)


def machine_check(analysis: Analysis) -> Check:
    """Whether machines make more of one variant than of control, or less."""
    cells = dict(cells_of(analysis.aggregates, "machine"))
    if not cells:
        message = "without times, or with [privacy] min_units, units are not looked at one by one"
        return skipped(NAME, message)
    gaps = cells.pop("gap")
    regular = sum(gap.clusters for gap in gaps.values())
    looked_at = sum(gap.x for gap in gaps.values())
    if regular > max(_MANY, _COMMON * looked_at):
        return skipped(NAME, "lists come at regular distances by themselves, to many units")
    machines = sum(sums.clusters for sums in cells["impressions"].values())
    units = sum(map(analysis.aggregates.units_of, analysis.experiment.variants))
    if machines > _COMMON * units:
        return skipped(NAME, "units that are active by the clock are no exception in this log")
    spread = {name: _spread(analysis, of_variant) for name, of_variant in cells.items()}
    worst = max(spread, key=lambda name: spread[name])
    words = Words(
        f"machines make no more of one variant than of another: {_counted(cells['impressions'])}",
        f"units that no person can be (bots): {_counted(cells[worst])}; of all {worst} they make "
        f"{_made(cells[worst])}{_every(gaps)}",
        "look for crawlers, monitors, test accounts, and ids that many people share (guests); "
        "leave them out alike in all variants, by what was known before the assignment",
    )
    options = analysis.experiment.trust
    limits = Limits(options.difference_warn, options.difference_fail, _REASON)
    return graded(NAME, spread[worst], limits, words)


def _share(sums: Sums) -> float:
    return sums.y / sums.x if sums.x else 0.0


def _spread(analysis: Analysis, of_variant: Mapping[str, Sums]) -> float:
    """The largest difference between control's share and another variant's."""
    control = _share(of_variant[analysis.experiment.control])
    return max(abs(_share(sums) - control) for sums in of_variant.values())


def _counted(of_variant: Mapping[str, Sums]) -> str:
    return ", ".join(f"{variant} {sums.clusters:,}" for variant, sums in of_variant.items())


def _made(of_variant: Mapping[str, Sums]) -> str:
    """How much they make of each variant."""
    return listing([f"{percent(_share(sums))} in {name}" for name, sums in of_variant.items()])


def _every(gaps: Mapping[str, Sums]) -> str:
    """The usual distance of their lists, in the variant that has most of them."""
    most = max(gaps.values(), key=lambda sums: sums.clusters)
    return f"; a list about every {most.y / 1000:,.0f} seconds" if most.clusters else ""
