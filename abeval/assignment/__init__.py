"""Which unit is in which variant: by abeval's own hash, in layers, or by another platform's scheme.

| module | what is in it |
|---|---|
| `draws` | unit → text → hash → number → range, in Python and SQL |
| `plan` | variants that share 1,000,000 slots; overrides, holdouts, sticky units, layers, traffic |
| `platforms` | GrowthBook, Unleash, PlanOut, … as draws and ranges |
"""

from abeval.assignment.draws import SLOTS, SUB_BUCKETS, md5_60, slot, sub_bucket, unit_text
from abeval.assignment.plan import Assignment, Holdout, Layer, Plan

__all__ = ["SLOTS", "SUB_BUCKETS", "Assignment", "Holdout", "Layer", "Plan"]
__all__ += ["md5_60", "slot", "sub_bucket", "unit_text"]
