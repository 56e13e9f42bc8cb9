"""The result of the checks alone: whether the log and the split can be believed.

`inference/trust/check.py` fills it; `cli/commands.py` prints it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from abeval.results import Account, Check, ExperimentInfo
from abeval.results.record import Record, frame, named
from abeval.results.trust import SplitDay, SplitPlace

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class CheckResult(Record):
    """What the trust checks say, without a scorecard.

    Attributes:
        experiment: What was checked, and its units by variant.
        trust: Every check.
        accounting: What became of every row that was read.
        notes: What a reader must know beside them.
        split_days: Units by day of entry, and the test of the split that may be read every day.
        split_places: Days, hours and segments by how plainly the split differs within them.
    """

    experiment: ExperimentInfo
    trust: tuple[Check, ...]
    accounting: tuple[Account, ...]
    notes: tuple[str, ...]
    split_days: tuple[SplitDay, ...] = ()
    split_places: tuple[SplitPlace, ...] = ()

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the checks that failed."""
        return tuple(check.name for check in self.trust if check.status == "fail")

    def __getitem__(self, name: str) -> Check:
        """The check of a name."""
        return named(self.trust, "name", name)

    def to_frame(self) -> "pd.DataFrame":
        """One row per check."""
        return frame(self.trust, Check)
