"""Two tests on the same units, whose effects multiply, or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import abeval

UNITS = np.array([f"u{i}" for i in range(6_000)])


def shop(**more: Any) -> abeval.LoadedExperiment:
    entries: dict[str, Any] = {
        "variants": {"control": {}, "treatment": {}},
        "metrics": [
            {"name": "spend", "role": "goal"},
            {"name": "visits", "role": "guardrail", "margin": 0.05},
        ],
    }
    return abeval.define(
        name="shop",
        unit="user",
        control="control",
        logs={"units": {}},
        trust={"aa_runs": 0},
        engine={"threads": 1},
        **entries | more,
    )


def drawn(
    interaction: float, seed: int = 0, ids: np.ndarray = UNITS
) -> tuple[pd.DataFrame, pd.Series]:
    """Rows of units with an effect of .1 of each of two tests, and one of both together."""
    random = np.random.default_rng(seed)
    a, b = random.integers(0, 2, (2, len(ids)))
    mean = 10 * (1 + 0.1 * a) * (1 + 0.1 * b) * (1 + interaction * a * b)
    frame = pd.DataFrame(
        {
            "user": ids,
            "variant": np.where(a, "treatment", "control"),
            "spend": mean * random.gamma(4, 0.25, len(ids)),
            "visits": random.poisson(5, len(ids)),
        }
    )
    return frame, pd.Series(np.where(b, "new", "old"), ids)


def drawn_skewed(seed: int, ids: np.ndarray, share: float = 0.05) -> tuple[pd.DataFrame, pd.Series]:
    """Units without any effect, of which 3 % buy for lognormal amounts; both tests are small."""
    random = np.random.default_rng(seed)
    a, b, buys = random.random((3, len(ids))) < np.array([[share], [share], [0.03]])
    amounts = buys * random.lognormal(3, 1, len(ids))
    names = np.where(a, "treatment", "control")
    frame = pd.DataFrame({"user": ids, "variant": names, "spend": amounts})
    return frame, pd.Series(np.where(b, "new", "old"), ids)
