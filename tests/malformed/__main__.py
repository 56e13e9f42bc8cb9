"""Run inputs with mistakes in them, and say how many of each family ended how.

    python -m tests.malformed [--seed 1] [--count 500] [--only FAMILY] [--first 0]
    python -m tests.malformed damage [DRAWS] [FORMAT...]
    python -m tests.malformed kills [--moments 40] [--only COMMAND] [--seed 1]

Input `n` of a family and a seed is always the same: `--only FAMILY --seed S --first n --count 1`
runs it again. It fails if an input ends as none may.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

FAMILIES = ("experiments", "files", "frames", "options", "results", "tools", "long")
"""Modules of this package; each has `run(seed, count)`, which gives records of how inputs ended."""

ON_REQUEST = ("cut",)
"""Those that run only by their name."""


WITH_TABLES = ("damage", "kills")
"""Modules of this package with a `main(arguments)` and a table of their own."""


def main() -> int:
    """Run the families: 0 if every input ended as it may."""
    if (name := next(iter(sys.argv[1:]), "")) in WITH_TABLES:
        return int(import_module(f"tests.malformed.{name}").main(sys.argv[2:]))
    parser = argparse.ArgumentParser(prog="python -m tests.malformed", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500, help="inputs, over all families")
    parser.add_argument("--first", type=int, default=0, help="number of the first of a family")
    parser.add_argument("--only", choices=(*FAMILIES, *ON_REQUEST), action="append")
    chosen = parser.parse_args()
    families = chosen.only or FAMILIES
    rows, faults = [], 0
    for i, name in enumerate(families):
        count = chosen.count // len(families) + (i < chosen.count % len(families))
        more = {"first": chosen.first} if chosen.first else {}
        records = []
        for record in import_module(f"tests.malformed.{name}").run(chosen.seed, count, **more):
            records.append(record)
            if not record.ok:
                said = record.message
                said = said if len(said) < 2_000 else f"{said[:500]}\n  […]\n{said[-1_000:]}"
                print(f"{name} {record.name}\n  exit code {record.code}: {said}")  # noqa: T201
                sys.stdout.flush()
        bad = sum(not record.ok for record in records)
        refused = sum(record.ok and record.code == 2 for record in records)
        slowest = max(record.seconds for record in records)
        shown = (len(records), refused, len(records) - refused - bad, bad, f"{slowest:.1f}")
        rows.append(f"| {name} | {' | '.join(map(str, shown))} |")
        faults += bad
    print("|---|--:|--:|--:|--:|--:|", *rows, sep="\n")  # noqa: T201
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
