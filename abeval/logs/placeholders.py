"""Find ids that stand for no unit, such as `anonymous`, and have many rows."""

import re
from collections.abc import Mapping

import numpy as np

from abeval.engines.sql import Engine, read_int
from abeval.logs.cells import LogCells
from abeval.logs.unit_arrays import find_rows

_FACT = "placeholder:"

_WORDS = re.compile(
    # Words that stand for nobody, also in brackets.
    r"[<(\[]?(|-|null|none|nan|na|n/a|nil|undefined|unknown|missing|empty|default|anon|anonymous|"
    r"guest|visitor|not[ _-]?set|no[ _-]?id|no[ _-]?user|user)[>)\]]?"
    # Numbers and UUIDs of one digit.
    r"|-1|[0-]+|9{5,}|f{8}(-f{4}){3}-f{12}"
    # MD5, SHA-1 and SHA-256 of an empty text.
    r"|d41d8cd98f00b204e9800998ecf8427e|da39a3ee5e6b4b0d3255bfef95601890afd80709"
    r"|e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

# An id of many units has many times the rows of one; of a short log, each unit has many.
_TIMES, _SHARE = 10, 0.005


def count_placeholder_rows(engine: Engine, cells: LogCells) -> dict[str, int]:
    """Count the impressions of the period by ids that stand for no unit, as facts.

    Only ids with half a per cent of the rows, and ten times as many as is usual, are looked at.
    """
    rows = find_rows(cells.counts & cells.in_period)
    counts = np.bincount(cells.unit[rows], cells.sums["c_1"][rows], len(cells.hashes))
    least = max(_SHARE * counts.sum(), _TIMES * counts[counts > 0].mean()) if counts.any() else 0
    heavy = np.flatnonzero(counts >= least) if least else np.zeros(0, dtype=np.intp)
    if not heavy.size:
        return {}
    hashes = ", ".join(map(str, cells.hashes[heavy].tolist()))
    names = engine.rows(
        "select unit_hash, cast(logged_id as varchar) from logged_names "
        f"where unit_hash in ({hashes})"
    )
    by_hash = dict(
        zip(cells.hashes[heavy].tolist(), counts[heavy].astype(int).tolist(), strict=True)
    )
    return {
        f"{_FACT}{name}": by_hash[read_int(unit_hash)]
        for unit_hash, name in names
        if _WORDS.fullmatch(str(name).strip().lower())
    }


def parse_placeholder_rows(facts: Mapping[str, int]) -> dict[str, int]:
    """Read the counts of `count_placeholder_rows` from facts, most rows first."""
    counts = {n.removeprefix(_FACT): rows for n, rows in facts.items() if n.startswith(_FACT)}
    return dict(sorted(counts.items(), key=lambda count: (-count[1], count[0])))
