"""Hold the result of an analysis of interleaved lists, as frozen records."""

from typing import ClassVar

from abeval.results import format as fmt
from abeval.results.analysis import Account, ExperimentInfo
from abeval.results.effects import Status
from abeval.results.record import Frozen, PageRecord, Tabled
from abeval.results.trust import Check, Verdict
from abeval.views import view


class PreferenceRow(Frozen):
    """How much more credit a ranker has than another one.

    Attributes:
        base: The ranker that `ranker` is compared with.
        units: Units whose actions were credited to either.
        preference: (credit − credit of the base) / (sum of both), from −1 to 1; `low` and `high`
            are the ends of its interval. None with a `reason`.
        p_adjusted: P-value after Holm over goals × pairs of rankers; None for other metrics.
        won: Units with more credit for the ranker; `lost`: with more credit for the base.
        lists_won: Lists with more credit for the ranker; `lists_lost`: for the base. None for
            events that happen after the list.
        units_needed: Units with credit that are needed to detect a preference of this size with 80
            % power.
        few_units_decide: Whether one unit has more than a tenth of all credit, so that it decides.
    """

    metric: str
    role: str
    direction: str
    base: str
    ranker: str
    units: int
    credit_base: float
    credit: float
    won: int
    lost: int
    tied: int
    lists_won: int | None = None
    lists_lost: int | None = None
    lists_tied: int | None = None
    preference: float | None = None
    low: float | None = None
    high: float | None = None
    se: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    method: str | None = None
    units_needed: float | None = None
    status: Status = "unclear"
    reason: str | None = None
    few_units_decide: bool = False

    @property
    def preference_text(self) -> str:
        """Format the preference with its interval; empty without one.

        Example:
            >>> counts = 900, 475.0, 525.0, 300, 250, 350, 9, 8, 7
            >>> names = "clicks", "goal", "increase", "a", "b"
            >>> row = PreferenceRow(*names, *counts, 0.05, 0.01, 0.1)
            >>> row.preference_text
            '+5.0% [+1.0%, +10.0%]'
        """
        # A preference is a share of credit, so it is formatted as a lift.
        value, low, high = self.preference, self.low, self.high
        return written.text if (written := fmt.format_lift(value, low, high)) else ""


INTERLEAVING_SCHEMA_VERSION = "1"


class InterleavingResult(Tabled[PreferenceRow], PageRecord):
    """Which ranker users prefer, of those whose items share each list.

    Attributes:
        method: How lists were drafted.
        alike: Impressions of items that all rankers would have shown there; they count for no
            ranker.
    """

    ROWS: ClassVar = ("preferences", "metric", "ranker", "base")
    TABLES: ClassVar = "short:tabulate_preferences"

    experiment: ExperimentInfo
    method: str
    verdicts: tuple[Verdict, ...]
    preferences: tuple[PreferenceRow, ...]
    trust: tuple[Check, ...]
    units: int
    lists: int
    alike: int
    accounting: tuple[Account, ...]
    notes: tuple[str, ...]
    schema_version: str = INTERLEAVING_SCHEMA_VERSION

    @property
    def questions(self) -> tuple[str, ...]:
        """Return open questions; a result with any is a draft."""
        return self.experiment.questions

    @property
    def trusted(self) -> bool:
        """Tell whether no trust check failed."""
        return not any(check.status == "fail" for check in self.trust)

    def to_markdown(self) -> str:
        """Write it for a pull request or a chat."""
        text: str = view("markdown")(self)
        return text
