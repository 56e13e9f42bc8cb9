"""Every command with every optional part of an experiment: a result, or one message.

The parts are two-valued factors of an orthogonal array (Rao 1947, strength 2): in 16 worlds every
pair of factors has all four of its values.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from abeval.cli.main import app
from abeval.errors import AbevalError

FACTORS = (
    *("no_user", "no_time", "no_click_log", "cuts", "segments", "items", "exposures", "events"),
    *("training", "pre_period", "scores", "units", "assignment", "propensity", "position"),
)
WORLDS = [
    {name for mask, name in enumerate(FACTORS, start=1) if (world & mask).bit_count() % 2}
    for world in range(16)
]
"""The parts of each world: the parity of the common bits is an orthogonal array."""
