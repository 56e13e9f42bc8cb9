"""A ramp, a layer of exclusive experiments, and a hundred independent layers.

    python -m benchmarks.calibration.layers --units 1000000

Counts the enrolled units that a ramp moves, the units in two exclusive experiments, and the pairs
of a hundred layers whose independence is rejected, for abeval's hash and for GrowthBook's first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from abeval.assignment import SLOTS, Assignment
from abeval.assignment.plan import Layer, Plan
from abeval.assignment.platforms import GrowthBook
from abeval.audit import independence
from abeval.results.trust import Independence

HALVES = {"a": 1.0, "b": 1.0}
LAYER_UNITS = 20_000


def moved_by_ramp(units: Sequence[str]) -> dict[float, int]:
    """Traffic → enrolled units that changed or left when it was reached."""
    plan = Plan(Assignment("ramp", HALVES), traffic=0.1)
    before, moved = np.asarray(plan.rule().variants(units), dtype=object), {}
    for traffic in (0.2, 0.5):
        plan = replace(plan, traffic=traffic)
        after = np.asarray(plan.rule().variants(units), dtype=object)
        enrolled = pd.notna(before)
        moved[traffic] = int((before[enrolled] != after[enrolled]).sum())
        before = after
    return moved


def in_two(units: Sequence[str]) -> tuple[list[int], int]:
    """Units in each of four exclusive experiments of a layer, and in more than one."""
    names = [f"experiment_{i}" for i in range(4)]
    quarter = SLOTS // 4
    layer = Layer("layer", {n: (i * quarter, (i + 1) * quarter) for i, n in enumerate(names)})
    counts = np.zeros(len(units), dtype=int)
    sizes = []
    for name in names:
        rule = Plan(Assignment(name, HALVES), layer=(layer, name)).rule()
        present = pd.notna(np.asarray(rule.variants(units), dtype=object))
        sizes.append(int(present.sum()))
        counts += present
    return sizes, int((counts > 1).sum())


def layers(
    units: Sequence[str], first_of_growthbook: bool, number: int = 100
) -> Sequence[Independence]:
    """Every pair of so many layers."""
    dealt: dict[str, pd.Series[str]] = {}
    for k in range(number):
        if first_of_growthbook:
            settings = GrowthBook(platform="growthbook", seed=f"layer-{k}", version=1)
            variants = settings.rule(HALVES).variants(units)
        else:
            variants = Plan(Assignment(f"layer-{k}", HALVES)).rule().variants(units)
        dealt[str(k)] = pd.Series(list(variants), list(units), dtype=object)
    return independence(dealt)


def lines(number: int) -> Iterator[str]:
    """What was counted."""
    units = [f"user-{i}" for i in range(number)]
    for traffic, moved in moved_by_ramp(units).items():
        yield f"ramp to {traffic:.0%}: {moved} of {number:,} units moved"
    sizes, twice = in_two(units)
    yield f"layer: {sizes} units, {twice} in two experiments"
    for first in (False, True):
        pairs = layers(units[:LAYER_UNITS], first)
        rejected = np.mean([(pair.p_value or 0.0) < 0.05 for pair in pairs])
        sure = sum((pair.p_adjusted or 0.0) < 0.01 for pair in pairs)
        name = "GrowthBook's first hash" if first else "abeval"
        yield f"{name}: p < .05 in {rejected:.2%} of {len(pairs):,} pairs; {sure} after Holm"


def main() -> None:
    """Print what was counted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.layers")
    parser.add_argument("--units", type=int, default=1_000_000)
    for line in lines(parser.parse_args().units):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
