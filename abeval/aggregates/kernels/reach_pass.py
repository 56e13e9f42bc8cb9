"""Runs the reach kernel over the impressions of an experiment, block by block.

`collect.py` calls it in place of the query `catalogue/reach`, where the engine has arrays; it reads
the relations `impressions`, `units` and `experiment`.
"""

from collections.abc import Sequence
from contextlib import closing

import numpy as np

from abeval.aggregates.kernels.blocks import Blocks
from abeval.aggregates.kernels.reach import Keys, reach_of
from abeval.aggregates.kernels.reach import Reach as Met
from abeval.aggregates.reach import Reach, items_sql
from abeval.engines.protocol import ArrayEngine, whole_number
from abeval.engines.sql import numbered
from abeval.threads import in_threads

BLOCK = 1_000_000
"""Impressions of a block, about: some 50 MB while it is worked on."""

_ITEMS = """
select item_id, row_number() over (order by item_id) - 1 as item_number
from (select distinct item_id from impressions where in_period and item_id is not null) as shown
"""


def reach_table(
    engine: ArrayEngine, variants: Sequence[str], folder: str | None = None
) -> Reach | None:
    """What `catalogue/reach.sql` would return, from one pass over the impressions.

    Args:
        engine: Holds `impressions`, `units` and `experiment`.
        variants: Those of the experiment.
        folder: Where to keep what does not fit into memory.

    Returns:
        Its entries; None if groups, items and units do not fit into one 64-bit key. The caller then
        runs the query.
    """
    engine.table("item_numbers", _ITEMS)
    groups = whole_number(engine, "select item_groups from experiment") or 1
    rows = whole_number(engine, "select count(*) from impressions")
    units = whole_number(engine, "select coalesce(max(unit_id), 0) + 1 from units")
    items = [str(item) for (item,) in engine.rows(items_sql("item_numbers"))]
    packing, arms = Keys.of(len(items), units), groups * len(variants)
    if not packing.fits(arms):
        return None
    count = min(-(-max(rows, 1) // BLOCK), arms)
    with closing(Blocks(count, ["i8"], folder)) as blocks:
        for chunk in engine.chunks(_keys(variants, groups, packing)):
            key = np.asarray(chunk["key"], dtype=np.int64)
            blocks.add(packing.group(key) * count // arms, key)

        def work(number: int) -> Met:
            (key,) = blocks.read(number)
            return reach_of(key.astype(np.int64, copy=False), packing)

        parts = in_threads(work, range(count))
    group, item = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    # Others were shown only to units that are not analysed.
    is_shown = np.bincount(item, minlength=len(items)) > 0
    return Reach(
        variants=variants,
        items=[one for one, shown in zip(items, is_shown.tolist(), strict=True) if shown],
        variant=group // groups,
        item=(np.cumsum(is_shown) - 1)[item],
        item_group=group % groups,
        units=np.concatenate([part.units for part in parts]),
        impressions=np.concatenate([part.impressions for part in parts]),
    )


def _keys(variants: Sequence[str], groups: int, packing: Keys) -> str:
    variant = numbered("u.variant", variants)
    group = f"cast({variant} as bigint) * {groups} + u.sub_bucket % {groups}"
    return f"""
    select (({group}) * {1 << packing.item_bits} + n.item_number) * {1 << packing.unit_bits}
      + i.unit_id as key
    from impressions i
    join units u on i.unit_id = u.unit_id
    join item_numbers n on i.item_id = n.item_id
    where i.in_period
    """
