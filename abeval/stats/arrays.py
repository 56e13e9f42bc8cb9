"""Array types that the statistics share, and the check that values are finite.

Imported wherever a signature has arrays: by `stats/`, and by rooms that hand it their arrays.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abeval.stats.records import Refusal

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


def finite(
    values: ArrayLike, message: str = "an infinite or missing value; drop it or fill it first"
) -> Floats:
    """Values as doubles, of the same shape.

    Args:
        values: Numbers of any shape.
        message: Of the refusal.

    Raises:
        Refusal: `not_finite` for an infinite or missing value.

    Example:
        >>> finite([1, 2]).tolist()
        [1.0, 2.0]
    """
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise Refusal("not_finite", message)
    return array
