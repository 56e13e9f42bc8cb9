"""Scores in half precision: few values are left, and most of the order is lost."""

from __future__ import annotations

import numpy as np

from abeval.simulate.world import Floats
from tests.worlds.plants.steps import Plant, Random, Served, Signals, Steps
from tests.worlds.plants.steps import serve as serve_right
from tests.worlds.plants.traffic import Traffic

_OFFSET = 601.0
_SIGNIFICANT_BITS = 8
_GAIN = 0.4


def _view(traffic: Traffic, known: Signals, rng: Random) -> Floats:
    """The candidate knows a little more than the baseline, less than the rounding takes."""
    del traffic, rng
    return known.first + _GAIN * known.second


def _serve(traffic: Traffic, baseline: Floats, candidate: Floats, rng: Random) -> Served:
    """The log odds are a difference of two large sums of 16-bit floats (bfloat16)."""
    rounded = rounded_to_bits(candidate + _OFFSET, _SIGNIFICANT_BITS) - _OFFSET
    return serve_right(traffic, baseline, rounded, rng)


def rounded_to_bits(values: Floats, bits: int) -> Floats:
    """Values as floats of so many significant bits have them.

    >>> rounded_to_bits(np.array([601.9, 3.01]), 8)
    array([600.      ,   3.015625])
    """
    step = 2.0 ** (np.floor(np.log2(np.abs(values))) + 1 - bits)
    nearest: Floats = np.round(values / step) * step
    return nearest


HALF_PRECISION = Plant(
    "half_precision",
    "half_precision",
    "The server adds up 16-bit floats of large size, so that the served scores have few values and "
    "most of the order is lost.",
    Steps(view=_view, serve=_serve),
)
