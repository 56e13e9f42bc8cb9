"""Cuts as the page shows them: each as a segment is shown.

`analysis_parts.py` hands over a `Result`.
"""

from abeval.report.slices import SegmentView, slice_views
from abeval.results import SliceRow
from abeval.results.analysis import Result
from abeval.results.cuts import CutRow


def cut_views(result: Result) -> tuple[SegmentView, ...]:
    """Every cut as a segment is shown, with p after Holm; diagnostics in a view of their own."""
    return slice_views(result, [_as_slice(row) for row in result.cuts])


def _as_slice(row: CutRow) -> SliceRow:
    return SliceRow(
        metric=row.metric,
        variant=row.variant,
        slice=row.cut,
        cell=row.cell or "(none)",
        partial=False,
        units_control=row.units_control,
        units=row.units,
        control=row.control,
        treatment=row.treatment,
        difference=row.difference,
        difference_low=row.difference_low,
        difference_high=row.difference_high,
        lift=row.lift,
        lift_low=row.lift_low,
        lift_high=row.lift_high,
        p_value=row.p_adjusted,
        reason=row.reason,
    )
