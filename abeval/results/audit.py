"""The result of an audit of the assignment: frozen records, with views as frames and as JSON.

`audit/run.py` fills it; `cli/commands.py` prints it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from abeval.assignment.randomness import Independence
from abeval.results.record import Record, frame

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Reassigned:
    """Units by their variant in the log and by the rule.

    Attributes:
        logged: Variant in the log.
        expected: Variant by the rule; None where it leaves the unit out of the experiment.
        units: How many.
    """

    logged: str
    expected: str | None
    units: int


@dataclass(frozen=True)
class AuditDay:
    """Units that came on one day.

    Attributes:
        day: Local day of their first impression; None without times.
        units: Units whose variant the log names.
        mismatches: Those that the rule puts elsewhere.
    """

    day: str | None
    units: int
    mismatches: int


@dataclass(frozen=True, repr=False)
class AuditResult(Record):
    """Whether a log's variants are those that the rule of assignment gives.

    Attributes:
        experiment: Its name.
        scheme: The platform, or `abeval`; None where the file has no [assignment].
        units: Units whose variant the log names.
        mismatches: Those that the rule puts elsewhere.
        rate: `mismatches / units`; None without units.
        low: Lower end of its 95 % interval (Clopper and Pearson 1934).
        high: Upper end.
        since: First day from which on mismatches are more frequent than before, if there is one.
        matrix: Units by logged and expected variant.
        days: By the day on which units came.
        pairs: This experiment and others, two by two.
        uniformity: P-value of the units being spread evenly over the slots of the last draw.
    """

    experiment: str
    scheme: str | None
    units: int
    mismatches: int
    rate: float | None
    low: float | None
    high: float | None
    since: str | None
    matrix: tuple[Reassigned, ...]
    days: tuple[AuditDay, ...]
    pairs: tuple[Independence, ...]
    uniformity: float | None

    def to_frame(self) -> "pd.DataFrame":
        """The table of logged against expected variants, one row a pair of them."""
        return frame(self.matrix, Reassigned)
