"""A good experiment and its log, and what an input is: the good ones with something odd in them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import duckdb

FILE = """\
name = "t"
unit = "user_id"
control = "a"
[period]
start = 2024-01-01
end = 2024-01-04
[models.m]
score = "score"
[models.n]
score = "price"
[variants.a]
model = "m"
[variants.b]
model = "n"
[logs.impressions]
path = "log.parquet"
[[metrics]]
name = "ctr"
[[metrics]]
name = "spent"
value = "price"
"""
LOG = """
select
  i as impression_id, i // 5 as request_id, 'u' || (i // 5) as user_id, i % 37 as item_id,
  timestamp '2024-01-01' + interval (i * 600) second as ts,
  case when (i // 5) % 2 = 0 then 'a' else 'b' end as variant,
  cast(i % 5 + 1 as int) as position, cast(hash(i) % 7 = 0 as int) as click,
  (hash(i) % 50) * 1.0 as dwell, cast(hash(i * 7) % 1000 as double) / 1000 as score,
  cast(hash(i * 3) % 1000 as double) / 1000 as price
from range(400) t(i)
"""


@dataclass(frozen=True)
class Case:
    """One input.

    Attributes:
        kind: The class of the input.
        name: What is odd in it.
        arguments: Of the command; `{}` is the folder.
        files: Content by name, beside the good log and experiment file, or instead of them.
        links: Where links lead, by name.
    """

    kind: str
    name: str
    arguments: tuple[str, ...] = ("analyze", "{}/e.toml", "--json", "{}/o.json")
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)


@cache
def log_of(sql: str = LOG, suffix: str = ".parquet") -> bytes:
    """A log as the bytes of a file."""
    kind = {".csv": "csv", ".json": "json"}.get(suffix, "parquet")
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as con:
        path = Path(folder) / f"x{suffix}"
        con.execute(f"copy ({sql}) to '{path}' (format {kind})").fetchall()
        return path.read_bytes()
