"""Assign units to variants: by abeval's hash, in layers, or as platforms do."""

from abeval.assignment.draws import SLOTS, SUB_BUCKETS, md5_60, slot, sub_bucket, unit_text
from abeval.assignment.plan import Assignment, Holdout, Layer, Plan

__all__ = ["SLOTS", "SUB_BUCKETS", "Assignment", "Holdout", "Layer", "Plan"]
__all__ += ["md5_60", "slot", "sub_bucket", "unit_text"]
