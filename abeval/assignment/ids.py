"""The text of a unit id that is hashed, and the refusal of ids whose text is not certain.

`split.py`, `plan.py` and `draws.py` call it for every id.
"""

from __future__ import annotations

import math
from uuid import UUID

import numpy as np

from abeval.errors import LogError


def unit_text(unit: object) -> str:
    """The text that is hashed: that of DuckDB's ``cast(id as varchar)``.

    Raises:
        LogError: the id is null, or of a type whose text engines do not agree on.

    >>> unit_text(123), unit_text("00123")
    ('123', '00123')
    """
    if isinstance(unit, str):
        return str(unit)
    if isinstance(unit, (int, np.integer, UUID)) and not isinstance(unit, bool):
        return str(unit)
    # The nulls of pandas by name, for it need not be imported.
    if unit is None or type(unit).__name__ in ("NAType", "NaTType"):
        raise LogError("a unit id is null", hint="drop rows without an id before assigning")
    if isinstance(unit, (float, np.floating)):
        raise _float_id(float(unit))
    raise LogError(
        f"unit id {unit!r} is of type {type(unit).__name__}", hint="cast ids to text or integer"
    )


def _float_id(unit: float) -> LogError:
    if math.isnan(unit):
        return LogError(
            "a unit id is NaN, so it is null or the ids are floats",
            hint="drop rows without an id, then cast ids to text or integer",
        )
    return LogError(
        f"unit id {unit!r} is a float",
        hint="cast ids to text or integer: 123 and 123.0 hash to different variants",
    )
