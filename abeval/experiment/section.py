"""The base of every section of the experiment file.

`model.py` and `trust.py` derive theirs from it.
"""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the experiment file: no unknown keys, no change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)
