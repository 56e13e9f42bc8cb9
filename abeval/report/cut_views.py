"""Cuts as the page shows them: each as a segment is shown.

`analysis_parts.py` hands over a `Result`.
"""

from dataclasses import fields
from typing import Any

from abeval.report.slices import SegmentView, slice_views
from abeval.results import SliceRow
from abeval.results.analysis import Result
from abeval.results.effects import CutRow


def cut_views(result: Result) -> tuple[SegmentView, ...]:
    """Every cut as a segment is shown, with p after Holm; diagnostics in a view of their own."""
    return slice_views(result, [_as_slice(row) for row in result.cuts])


def _as_slice(row: CutRow) -> SliceRow:
    own: dict[str, Any] = {"slice": row.cut, "cell": row.cell or "(none)", "partial": False}
    own["p_value"] = row.p_adjusted
    same = {field.name for field in fields(SliceRow)} - own.keys()
    return SliceRow(**own, **{name: getattr(row, name) for name in same})
