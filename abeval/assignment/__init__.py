"""Which unit is in which variant: by abeval's own hash, in layers, or by another platform's scheme.

| module | what is in it |
|---|---|
| `hashes` | hashes of a text |
| `ids` | the text of a unit id |
| `split` | variants that share 1,000,000 slots |
| `plan` | overrides, holdouts, sticky units, layers and traffic before the split |
| `draws` | unit → number → range: what every platform does, in Python and SQL |
| `platforms` | GrowthBook, Unleash, PlanOut, … as draws and ranges; a module per hash |
| `randomness` | are slots used evenly, and layers independent? |
"""

from abeval.assignment.draws import SLOTS, SUB_BUCKETS, md5_60, slot, sub_bucket, unit_text
from abeval.assignment.plan import (
    Assigned,
    Assignment,
    Explanation,
    Holdout,
    Layer,
    Placement,
    Plan,
    SlotRange,
)

__all__ = [
    "SLOTS",
    "SUB_BUCKETS",
    "Assigned",
    "Assignment",
    "Explanation",
    "Holdout",
    "Layer",
    "Placement",
    "Plan",
    "SlotRange",
    "md5_60",
    "slot",
    "sub_bucket",
    "unit_text",
]
