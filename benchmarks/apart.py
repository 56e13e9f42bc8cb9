"""Duplicates, a click log of its own and sessions, each against its own plainest SQL.

    python benchmarks/apart.py DIR [--impressions 20000000] [--runs 5]

Makes a log in DIR where there is none: impressions with copies among them, and clicks apart. What a
part costs abeval is the difference of two analyses, with it and without, each a whole process. The
plain SQL is one statement in a Python process that does nothing else; it only counts, sets nothing
aside and says nothing of what it left out.
"""

import argparse
import sys
from pathlib import Path

from process import in_turns, medians, run

ABEVAL = [sys.executable, "-m", "abeval"]

HEAD = """
name = "apart"
unit = "user_id"
control = "control"
[period]
start = 2026-09-14
end = 2026-09-28
[variants.control]
[variants.treatment]
[logs.impressions]
path = "impressions/*.parquet"
columns = { ts = "time" }
[cleaning]
duplicates = "%s"
[trust]
aa_runs = 0
[[metrics]]
name = "impressions_per_user"
"""
CLICKS = """
[[metrics]]
name = "ctr"
[[metrics]]
name = "dwell_per_user"
[logs.clicks]
path = "clicks.parquet"
columns = { ts = "time", dwell = "dwell_ms" }
dwell_unit = "ms"
"""
SESSIONS = """
[[metrics]]
name = "sessions_per_user"
"""
EXPERIMENTS = {
    "plain": HEAD % "unchecked",
    "duplicates": HEAD % "drop",
    "clicks": HEAD % "unchecked" + CLICKS,
    "sessions": HEAD % "unchecked" + SESSIONS,
}
"""The analysis without any of the three, and with each of them."""

PLAIN = {
    "duplicates": """
        select count(*) from (
          select impression_id from impressions group by impression_id having count(*) > 1
        )
    """,
    "clicks": """
        select sum(clicks), sum(dwell) from (
          select i.user_id, count(c.impression_id) as clicks, sum(c.dwell_ms) as dwell
          from impressions i
          left join 'clicks.parquet' c on i.impression_id = c.impression_id
          group by i.user_id
        )
    """,
    "sessions": """
        select sum(sessions) from (
          select user_id, count_if(gap is null or gap > interval 30 minutes) as sessions
          from (
            select user_id, time - lag(time) over (partition by user_id order by time) as gap
            from impressions
          )
          group by user_id
        )
    """,
}
ASK = """
import duckdb
duckdb.sql("create view impressions as from 'impressions/*.parquet'")
print(duckdb.sql('''{sql}''').fetchall())
"""


def commands(directory: Path) -> dict[str, list[str]]:
    """Name of each side and its command; writes the experiment files."""
    sides: dict[str, list[str]] = {}
    for name, text in EXPERIMENTS.items():
        file = directory / f"apart_{name}.toml"
        file.write_text(text)
        sides[f"abeval {name}"] = [*ABEVAL, "analyze", str(file)]
    for name, sql in PLAIN.items():
        sides[f"SQL {name}"] = [sys.executable, "-c", ASK.format(sql=sql)]
    return sides


def main() -> None:
    """Run every side in turns, print medians and differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--impressions", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    directory = given.directory.resolve()
    if not (directory / "impressions").exists():
        size = ["--impressions", str(given.impressions)]
        run([*ABEVAL, "tools", "simulate", str(directory), *size])
    costs = in_turns(commands(directory), given.runs, directory)
    seconds = medians(costs)
    for name, found in costs.items():
        print(f"{name:20s}{seconds[name]:8.2f} s{max(c.megabytes for c in found):8.0f} MB")
    for name in PLAIN:
        more = seconds[f"abeval {name}"] - seconds["abeval plain"]
        print(f"{name}: {more:.2f} s more, {more / seconds[f'SQL {name}']:.2f} x its plain SQL")


if __name__ == "__main__":
    main()
