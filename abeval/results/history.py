"""A history of experiments: its rows, what was added to it, and the prior that it gives.

`history/` fills these records; `cli/history.py` prints them. What a history says of metrics is in
`history_report.py`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from abeval.results.record import Record, frame

if TYPE_CHECKING:
    import pandas as pd

Source = Literal["analysis", "replay", "windows", "noise"]
Change = Literal["added", "replaced", "unchanged"]
Side = Literal["offline", "online", "early", "late"]


@dataclass(frozen=True)
class HistoryRow:
    """One metric of one variant in one experiment, as the history file keeps it.

    Attributes:
        experiment: Its name.
        source: The result that it comes from: `analysis`, `replay`, `windows`; or `noise`, which
            has no effects but `shared`.
        digest: Of the content of that result, and of what was said of it when it was added.
        variant: The variant compared with control; of a replay, the model compared with control's.
        control: The variant, or the model, that it is compared with.
        model: The model that the variant serves; None where the experiment names none.
        metric: Its id.
        side: `offline`; `online`, over the whole experiment; `early` and `late`, over some days.
        traffic: The variant whose traffic an offline metric is of, or `pooled`; else None.
        window: Such as `first 3 days`; None for the whole experiment.
        start: First day (ISO), if known.
        end: Last day, if known; of an analysis, the day after.
        role: Of an online metric; None for an offline one.
        direction: Which way is better: `increase`, `decrease`, `toward VALUE`, or None.
        scale: Of the effect: `lift` (a fraction of control) or `difference`.
        value_control: The metric's value in control.
        value: Its value in the variant.
        effect: Its effect, raw sign.
        low: Lower end of its interval at `1 - alpha`.
        high: Upper end.
        se: Its standard error, from the interval.
        p_value: Two-sided, of no effect.
        alpha: Of the interval.
        units_control: Units of control.
        units: Units of the variant; of a replay, of the traffic.
        trusted: Whether no failed check touches the metric.
        reason: Why numbers are missing; else None.
        decision: Of the verdict on the variant; None without one.
        shipped: Whether the variant was shipped: by the verdict, or as stated when it was added.
        shared: Measure of the same experiment → correlation of its error with that of this one.
    """

    experiment: str
    source: Source
    digest: str
    variant: str
    control: str
    model: str | None
    metric: str
    side: Side
    traffic: str | None
    window: str | None
    start: str | None
    end: str | None
    role: str | None
    direction: str | None
    scale: Literal["lift", "difference"]
    value_control: float | None
    value: float | None
    effect: float | None
    low: float | None
    high: float | None
    se: float | None
    p_value: float | None
    alpha: float
    units_control: int | None
    units: int
    trusted: bool
    reason: str | None
    decision: str | None
    shipped: bool
    shared: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class AddedSource:
    """One result that was added.

    Attributes:
        source: `analysis`, `replay`, `windows` or `noise`.
        change: `added`; `replaced`, if the history had other rows of it; `unchanged`.
        rows: Rows of the result.
        replaced: Rows that they took the place of.
        without_effect: Rows that have no effect with a standard error; no statistic uses them.
    """

    source: Source
    change: Change
    rows: int
    replaced: int
    without_effect: int


@dataclass(frozen=True, repr=False)
class Added(Record):
    """What a call of `History.add` changed.

    Attributes:
        history: The file.
        experiment: Its name.
        sources: The results that were added.
        experiments: Experiments that the history now has.
    """

    history: str
    experiment: str
    sources: tuple[AddedSource, ...]
    experiments: int

    def to_frame(self) -> "pd.DataFrame":
        """One row per result."""
        return frame(self.sources, AddedSource)


@dataclass(frozen=True, repr=False)
class HistoryPrior(Record):
    """The normal prior of a lift that past experiments give.

    Attributes:
        metric: Its id.
        mean: Mean of true lifts, as a fraction.
        sd: Standard deviation of the next true lift.
        mean_low: Lower end of the interval of the mean.
        mean_high: Upper end.
        sd_low: Lower end of the interval of the standard deviation.
        sd_high: Upper end.
        effects: Lifts that it was fitted to.
        experiments: Their experiments.
    """

    metric: str
    mean: float
    sd: float
    mean_low: float
    mean_high: float
    sd_low: float
    sd_high: float
    effects: int
    experiments: int

    @property
    def toml(self) -> str:
        """As `[inference] prior` takes it."""
        return f"{{ mean = {self.mean:.4g}, sd = {self.sd:.4g} }}"
