"""Hold the results of an analysis, of its checks, and of all pairs."""

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from abeval.results import effects
from abeval.results import format as fmt
from abeval.results.record import DrawnRecord, Frozen, Tabled, read_back, write_csv
from abeval.results.trust import AAMetric, Check, Influence, SplitDay, SplitPlace, Verdict
from abeval.views import view

if TYPE_CHECKING:
    import pandas as pd

    from abeval.results.agreement import Agreement
    from abeval.results.replay import ReplayResult


class VariantInfo(Frozen):
    """A variant: its planned share, its model, and its analysed units."""

    name: str
    weight: float
    model: str | None
    units: int


class ExperimentInfo(Frozen):
    """The experiment, as its file describes it."""

    name: str
    unit: str
    control: str
    timezone: str
    start: str | None
    end: str | None
    pre_start: str | None
    pre_end: str | None
    alpha: float
    variants: tuple[VariantInfo, ...]
    family: str = "holm"
    looks: str = "fixed"
    adjust: str = "none"
    questions: tuple[str, ...] = ()
    title: str | None = None
    hypothesis: str | None = None
    owner: str | None = None
    link: str | None = None

    @property
    def display_name(self) -> str:
        """Return the display name: the title, else the name."""
        return self.title or self.name

    @property
    def dates(self) -> str:
        """Format the period: days, or times with their zone; empty without one.

        Example:
            >>> plan = "x", "user", "a", "UTC", "2026-09-01", "2026-09-15", None, None, 0.05, ()
            >>> ExperimentInfo(*plan).dates
            '2026-09-01 to 2026-09-14'
        """
        if self.start is None or self.end is None:
            return ""
        first, end = datetime.fromisoformat(self.start), datetime.fromisoformat(self.end)
        if {first.time(), end.time()} != {time.min}:
            return f"{first} to {end} ({self.timezone})"
        # The end of a period is exclusive.
        last = end - timedelta(days=1)
        return f"{first:%Y-%m-%d} to {last:%Y-%m-%d}" if first < last else f"{first:%Y-%m-%d}"


class Schedule(Frozen):
    """How far the experiment is: its day and its look.

    `last` is the last local day of the log, day number `day` of `days` planned days. They are None
    without times or a planned end. Looks are None if none are planned. A look that is not `on_plan`
    comes after `look - 1` planned looks. `next_look` is a day, or a number of units.
    """

    last: str | None = None
    day: int | None = None
    days: int | None = None
    look: int | None = None
    looks: int | None = None
    on_plan: bool = True
    next_look: str | None = None


class Ramp(Frozen):
    """Entry days in a row with one traffic split.

    `start` is the first local day, or the local time at which the split was planned to begin;
    `end` is the last local day, included. `weights` are planned ones, None without
    `[[assignment.splits]]`. `shares` are shares of the units
    that entered.
    """

    start: str
    end: str
    shares: Mapping[str, float]
    weights: Mapping[str, float] | None = None


class MetricInfo(Frozen):
    """The definition of a metric.

    `within` is the margin of a guardrail whose value must lie in a range, else None. `label` is
    what people call it, empty where that is its name. `query` is the file in `queries/` that sums
    it by unit, empty where none does: `abeval tools sql EXPERIMENT METRIC` has the whole statement.
    """

    name: str
    kind: str
    formula: str
    unit: str
    direction: str
    role: str
    margin: float | None
    margin_relative: bool | None
    within: tuple[float, float] | None = None
    label: str = ""
    description: str = ""
    query: str = ""

    @property
    def display_name(self) -> str:
        """Return the display name: the label, else the name."""
        return self.label or self.name


class LeftOut(effects.VariantRecord):
    """How many rows or units a metric leaves out, or counts `as_zero`."""

    what: str
    count: int
    as_zero: bool = False


class ClusterCost(Frozen):
    """The intra-cluster correlation of a metric, and its cost.

    Attributes:
        icc: Intra-cluster correlation.
        design_effect: Number of units over the number of independent units with the same precision.
        worth: Number of independent units with the same precision.
    """

    metric: str
    clusters: int
    units: int
    icc: float
    design_effect: float
    worth: float


class SlotQuarter(Frozen):
    """The effect of the previous slot's variant in a quarter of a slot.

    Attributes:
        start: Start of the quarter, in minutes since the slot began; `end` is its end.
        value: The metric over this quarter of all slots.
        difference: The metric after a treatment slot minus that after a control slot. Only slots of
            the same cluster, time of day and own variant are compared. `difference_low` and
            `difference_high` are the ends of its interval.
    """

    metric: str
    start: float
    end: float
    value: float
    difference: float
    difference_low: float
    difference_high: float
    p_value: float


class Worth(effects.VariantRecord):
    """What a goal's total would change by if all traffic of the test had the variant.

    The difference per unit, times the units of all variants, over the days of the log. Of a ratio,
    the difference times the denominators of all variants, which are taken not to change. Without
    times, of the whole log.

    Attributes:
        what: What adds up, such as `clicks`, in `unit`.
        same: Of a ratio, the denominator that stays the same, such as `impressions`; else empty.
        days: Days of the log, parts of days included; None without times.
        control: The total if all traffic had control.
        change: Its change, with the interval of the difference.
        expected: The change after shrinking the lift towards past ones; None without a history.
        past: Number of past effects behind `expected`.
    """

    what: str
    unit: str
    same: str
    days: float | None
    control: float
    change: float
    change_low: float
    change_high: float
    expected: float | None = None
    expected_low: float | None = None
    expected_high: float | None = None
    past: int | None = None


class Account(Frozen):
    """Rows of one log: `read = used + the sum of set_aside`."""

    log: str
    read: int
    used: int
    set_aside: tuple[tuple[str, int], ...]


SCHEMA_VERSION = "1"


class Result(Tabled[effects.Row], DrawnRecord):
    """Everything that an analysis computes and its report shows."""

    ROWS: ClassVar = ("scorecard", "metric", "variant")

    schema_version: str
    experiment: ExperimentInfo
    verdicts: tuple[Verdict, ...]
    trust: tuple[Check, ...]
    scorecard: tuple[effects.Row, ...]
    metrics: tuple[MetricInfo, ...]
    daily: tuple[effects.SliceRow, ...]
    segments: tuple[effects.SliceRow, ...]
    left_out: tuple[LeftOut, ...]
    accounting: tuple[Account, ...]
    notes: tuple[str, ...]
    adjustments: tuple[effects.Adjustment, ...] = ()
    segment_tests: tuple[effects.SegmentTest, ...] = ()
    segment_contrasts: tuple[effects.SegmentContrast, ...] = ()
    boundaries: tuple[effects.Boundary, ...] = ()
    family_intervals: tuple[effects.FamilyInterval, ...] = ()
    aa: tuple[AAMetric, ...] = ()
    ramps: tuple[Ramp, ...] = ()
    influence: tuple[Influence, ...] = ()
    split_days: tuple[SplitDay, ...] = ()
    split_places: tuple[SplitPlace, ...] = ()
    cuts: tuple[effects.CutRow, ...] = ()
    cut_splits: tuple[effects.CutSplit, ...] = ()
    without_cuts: tuple[effects.NoCut, ...] = ()
    spreads: tuple[effects.Distribution, ...] = ()
    quantile_effects: tuple[effects.QuantileEffect, ...] = ()
    unit_aucs: tuple[effects.UnitAucs, ...] = ()
    catalogue_uses: tuple[effects.CatalogueUse, ...] = ()
    ranges: tuple[effects.RangeRow, ...] = ()
    cluster_costs: tuple[ClusterCost, ...] = ()
    slot_quarters: tuple[SlotQuarter, ...] = ()
    schedule: Schedule = Schedule()
    worth: tuple[Worth, ...] = ()

    @property
    def progress(self) -> str:
        """Describe the day, the look and the next look of the experiment.

        Before the last look it says whether an early stop is allowed. Each boundary is for one
        metric alone, before the correction for several metrics.
        """
        return ", ".join(self._describe_stages())

    def _describe_stages(self) -> list[str]:
        """Describe the day, this look and the next one, as far as they exist."""
        now, parts = self.schedule, list[str]()
        if now.day is not None:
            parts.append(f"day {now.day}" + (f" of {now.days}" if now.days else ""))
        if now.look is not None:
            look = f"look {now.look}" if now.on_plan else f"an unplanned look after {now.look - 1}"
            text = f"{look} of {now.looks}{self._describe_look()}"
            # At the end only the verdict matters; the evidence has the boundary.
            is_final = now.look == now.looks and now.next_look is None
            parts.append(f"final look ({now.look} of {now.looks})" if is_final else text)
        decisions = {verdict.decision for verdict in self.verdicts}
        # A variant that ships early ends the test, and so do losses of all.
        is_over = "ship" in decisions or decisions == {"do_not_ship"}
        if now.next_look is not None and not is_over:
            parts.append(f"next look {'at ' * ('units' in now.next_look)}{now.next_look}")
        return parts

    @property
    def so_far(self) -> str:
        """Describe `progress` with the dates seen; empty without either."""
        dates, last = self.experiment.dates, self.schedule.last
        if self.schedule.day is None or not dates:
            return "; ".join(filter(None, (dates, self.progress)))
        first, _, end = dates.partition(" to ")
        # The planned end is news only while the log has not reached it.
        seen = dates if last in (first, end) else f"{first} to {last}, planned to {end}"
        day, *looks = self._describe_stages()
        return ", ".join([f"{day} ({seen})", *looks])

    def _describe_look(self) -> str:
        """Describe how near its boundary the nearest or deciding metric is."""
        judged = {row.metric for row in self.scorecard if row.role != "diagnostic"}
        decided = {v.variant for v in self.verdicts if v.decision in ("ship", "do_not_ship")}
        # If a decision was reached, only the boundaries behind it matter.
        deciding = [b for b in self.boundaries if b.crossed and b.variant in decided]
        bounds = [b for b in deciding or self.boundaries if b.metric in judged]
        if not bounds or not self.trusted:
            return ""
        # The metric that is nearest to crossing, or farthest across.
        near = max(bounds, key=lambda bound: abs(bound.z) / bound.boundary)
        variant_text = f" of {fmt.quote_name(near.variant)}" if len(self.verdicts) > 1 else ""
        name, side = fmt.quote_name(self.label(near.metric)), "below" if near.crossed else "above"
        text = (
            f": {name}{variant_text} p {fmt.format_z_p_value(near.z, 2)} is {side} its "
            f"boundary {fmt.format_z_p_value(near.boundary)}"
        )
        if self.schedule.next_look is None:
            return text
        if decided:
            return f"{text}, so an early stop is allowed"
        return f"{text}, {'but nothing is decided, ' * near.crossed}so no early stop yet"

    def info(self, metric: str) -> MetricInfo:
        """Return a metric's definition; an empty one if the result has none."""
        blank = MetricInfo(metric, "mean", "", "", "increase", "diagnostic", None, None)
        return next((info for info in self.metrics if info.name == metric), blank)

    def label(self, metric: str) -> str:
        """Return a metric's display name: its label, else its name."""
        return self.info(metric).display_name

    @property
    def questions(self) -> tuple[str, ...]:
        """Return open questions; a result with any is a draft."""
        return self.experiment.questions

    @property
    def trusted(self) -> bool:
        """Tell whether no failed check touches a goal or guardrail."""
        judged = {row.metric for row in self.scorecard if row.role != "diagnostic"}
        return not any(check.status == "fail" and check.touches(judged) for check in self.trust)

    def cuts_frame(self) -> "pd.DataFrame":
        """Return the effects by cut, one row per metric, variant and cell."""
        return self._frame("cuts")

    def to_csv(self) -> str:
        """Return the scorecard as CSV text, in which no cell is a formula."""
        return write_csv(self.scorecard, effects.Row)

    def compare(self, replay: "ReplayResult") -> "Agreement":
        """Set this analysis beside a replay of the same experiment.

        Causes that only the logs can show are not checked; `LoadedExperiment.agree` reads them.

        Raises:
            ValueError: The replay is of another experiment.

        Example:
            >>> import abeval
            >>> sample = abeval.load("sample_logs/experiment.toml")
            >>> agreement = sample.analyze().compare(sample.replay(metrics=["auc"]))
            >>> agreement.rows[0].standing
            'conflict'
        """
        agreement: Agreement = view("comparison")(self, replay)
        return agreement


def result_from_dict(raw: dict[str, Any]) -> Result:
    """Read a result back from its JSON; ValueError if of another version."""
    return read_back(raw, Result, SCHEMA_VERSION)


def build_schema() -> dict[str, Any]:
    """Build the JSON Schema (2020-12) of an analysis as `--json` writes it.

    Example:
        >>> build_schema()["properties"]["schema_version"]
        {'const': '1'}
    """
    from pydantic import TypeAdapter

    schema = TypeAdapter(Result).json_schema(mode="serialization")
    schema["properties"] |= {
        "schema_version": {"const": SCHEMA_VERSION},
        "digest": {"type": "string", "description": "Shows whether a field was changed."},
    }
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, **schema, "title": f"abeval analyze, version {SCHEMA_VERSION}"}


class CheckResult(Tabled[Check]):
    """What the trust checks say, without a scorecard."""

    ROWS: ClassVar = ("trust", "name")
    TABLES: ClassVar = "short:tabulate_checks"

    experiment: ExperimentInfo
    trust: tuple[Check, ...]
    accounting: tuple[Account, ...]
    notes: tuple[str, ...]
    split_days: tuple[SplitDay, ...] = ()
    split_places: tuple[SplitPlace, ...] = ()

    @property
    def questions(self) -> tuple[str, ...]:
        """Return open questions; a result with any is a draft."""
        return self.experiment.questions

    @property
    def failed_checks(self) -> tuple[str, ...]:
        """Return the names of the checks that failed."""
        return tuple(check.name for check in self.trust if check.status == "fail")


class Pair(Frozen):
    """One variant against another on one metric, `variant - base`."""

    base: str
    variant: str
    units_base: int
    units: int
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    lift: float | None
    p_value: float | None
    p_adjusted: float | None
    reason: str | None


class Pairwise(Tabled[Pair]):
    """All pairs of variants on one metric; `family` is how p-values are adjusted."""

    ROWS: ClassVar = ("pairs", "variant", "base")
    TABLES: ClassVar = "short:tabulate_pairs"

    metric: str
    values: tuple[tuple[str, float | None], ...]
    family: str
    alpha: float
    pairs: tuple[Pair, ...]
    trust: tuple[Check, ...]
    questions: tuple[str, ...] = ()

    def matrix(self) -> "pd.DataFrame":
        """Return adjusted p-values, variants × variants, NaN on the diagonal."""
        import pandas as pd

        names = [name for name, _ in self.values]
        table = pd.DataFrame(np.nan, index=names, columns=names)
        for pair in self.pairs:
            if pair.p_adjusted is not None:
                # A pair is tested once, and the p-value holds both ways.
                table.loc[pair.base, pair.variant] = pair.p_adjusted
                table.loc[pair.variant, pair.base] = pair.p_adjusted
        return table
