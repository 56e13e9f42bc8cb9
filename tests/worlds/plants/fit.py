"""The logistic regression of clicks on a model's view, by Newton's method.

`run.py` fits both models with it to the week before the test.
"""

from __future__ import annotations

import numpy as np

from abeval.simulate.visits import Bools
from abeval.simulate.world import Floats
from tests.worlds.plants.steps import Model

_STEPS = 25
_SMALL = 1e-10


def fitted(view: Floats, click: Bools) -> Model:
    """Intercept and slope of largest likelihood.

    >>> import numpy as np
    >>> view = np.array([0.0, 0.0, 0.0, 1.0, 1.0])
    >>> model = fitted(view, np.array([True, False, False, True, False]))
    >>> round(model.intercept, 4), round(model.slope, 4)
    (-0.6931, 0.6931)
    """
    columns = np.column_stack([np.ones_like(view), view])
    at = np.zeros(2)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-columns @ at))
        weighted = columns * (chance * (1 - chance))[:, None]
        step = np.linalg.solve(columns.T @ weighted, columns.T @ (click - chance))
        at = at + step
        if np.abs(step).max() < _SMALL:
            break
    return Model(float(at[0]), float(at[1]))
