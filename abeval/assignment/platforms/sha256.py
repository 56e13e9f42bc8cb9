"""Platforms that draw by SHA-256: Firebase, Statsig."""

from __future__ import annotations

from typing import Literal

from abeval.assignment.draws import Draw, Range, Rule, Stage, shares
from abeval.assignment.platforms import IN, Percent, Scheme, Weights


class Statsig(Scheme):
    """Statsig: sha256 over salt and id; 1,000 buckets of an experiment, 10,000 of a gate.

    Attributes:
        salt: The experiment's salt.
        gate: Salt and rule salt of the gate or allocation before it, if there is one.
        gate_percent: Per cent of units that pass that gate.
    """

    platform: Literal["statsig"]
    salt: str
    gate: tuple[str, str] | None = None
    gate_percent: Percent = 100.0

    def rule(self, weights: Weights) -> Rule:
        """The gate, then the split."""
        stages = [Stage(statsig_draw(self.salt), shares(weights, 1000))]
        if self.gate is not None:
            draw = Draw("sha256_64", ".".join(self.gate) + ".", modulus=10_000)
            stages.insert(0, Stage(draw, (Range(IN, 0, self.gate_percent * 100),)))
        return Rule(tuple(stages))


def statsig_draw(salt: str) -> Draw:
    """Statsig's user bucket, 0 to 999.

    >>> statsig_draw("f8aeba58-18fb-4f36-9bbd-4c611447a912").number("random")
    104
    """
    return Draw("sha256_64", f"{salt}.", modulus=1000)


class Firebase(Scheme):
    """Firebase Remote Config: sha256 over seed and id, in millionths of a per cent.

    Attributes:
        seed: Seed of the percent condition.
    """

    platform: Literal["firebase"]
    seed: str = ""

    def rule(self, weights: Weights) -> Rule:
        """The split; each condition is above its lower bound and at most its upper one."""
        ranges = shares(weights, 100_000_000)
        closed = tuple(Range(r.label, r.start + 1 if r.start else 0, r.stop + 1) for r in ranges)
        return Rule((Stage(firebase_draw(self.seed), closed),))


def firebase_draw(seed: str) -> Draw:
    """Firebase's micro-percentile, 0 to 99,999,999.

    >>> firebase_draw("1").number("one")
    64146488
    """
    return Draw("sha256", f"{seed}." if seed else "", modulus=100_000_000)
