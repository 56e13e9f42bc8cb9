"""Assign units to variants: by abeval's hash, in layers, or as platforms do."""

from abeval.assignment.draws import (
    SLOTS,
    SUB_BUCKETS,
    compute_slot,
    compute_sub_bucket,
    format_unit_id,
    md5_60,
)
from abeval.assignment.plan import Assignment, Holdout, Layer, Plan

__all__ = ["SLOTS", "SUB_BUCKETS", "Assignment", "Holdout", "Layer", "Plan"]
__all__ += ["compute_slot", "compute_sub_bucket", "format_unit_id", "md5_60"]
