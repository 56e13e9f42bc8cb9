"""Runs the inputs, and prints how many of each class ended how."""

from __future__ import annotations

import argparse
from collections import Counter

from benchmarks.malformed.corpus import sample
from benchmarks.malformed.run import run


def main() -> None:
    """Run the inputs, and print how many of each class ended how."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_600, help="inputs to run")
    parser.add_argument("--seed", type=int, default=1, help="of the choice")
    chosen = parser.parse_args()
    ends: dict[str, Counter[str]] = {}
    for case in sample(chosen.count, chosen.seed):
        end = run(case)
        ends.setdefault(case.kind, Counter())[end.word] += 1
        if not end.is_fine:
            print(
                f"{end.word}: {case.kind}: {case.name!r}\n  {end.said.strip()[-300:]}", flush=True
            )
    print("\n| class | inputs | refused | result | otherwise |\n|---|---|---|---|---|")
    for kind, words in sorted(ends.items()):
        fine = words["refused"], words["result"]
        print(f"| {kind} | {words.total()} | {fine[0]} | {fine[1]} | {words.total() - sum(fine)} |")


if __name__ == "__main__":
    main()
