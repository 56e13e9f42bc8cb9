"""Recommend what to do next: roll out, stop, or run on, and for how long."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from abeval.report.tables import ROLES, VerdictLine, read_interval
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import MetricInfo, Result
from abeval.results.effects import Row
from abeval.results.trust import Verdict

if TYPE_CHECKING:
    from abeval.results.power import MetricOutlook, PowerOutlook

_BEST_FIRST = ("ship", "keep_running", "do_not_ship", "do_not_trust", "draft")
_MIN_UNITS = 30
"""Units that each variant needs to be judged (docs/results.md)."""

_OPEN = ("unclear", "too_little_data")

_NOT_BY_DAYS = (*codes.WITHOUT_SPREAD, "denominator_moved")
"""Reasons that more days do not remove."""


def rank(result: Result, verdict: Verdict) -> tuple[int, float]:
    """Rank a verdict by its decision, then by the gain of the first goal."""
    goals = [r for r in result.scorecard if r.variant == verdict.variant and r.role == "goal"]
    lift = goals[0].lift if goals else None
    sign = -1.0 if goals and goals[0].direction == "decrease" else 1.0
    return _BEST_FIRST.index(verdict.decision), -sign * (lift or 0.0)


class Step(NamedTuple):
    """A recommendation for a variant: a word for programs, and a text.

    The words are `ship`, `second_choice`, `do_not_ship`, `keep_control`, `run_on`, `new_test` (the
    planned one has ended), `define` (a goal or a margin), `choose` (between a margin and stopping),
    `repair` and `answer`.
    """

    word: str
    text: str


ORDER = "Variants by verdict, best first"
"""The order of lines and rows, where there are several variants."""

_FOLLOWS = {
    "run_on": ", RUN ON",
    "new_test": ", TEST ANEW",
    "keep_control": ", STOP",
    "do_not_ship": ", STOP",
}
"""Word of a step → how the headline of an undecided variant ends."""


def sort_verdicts(result: Result) -> list[Verdict]:
    """List the verdicts, best first."""
    return sorted(result.verdicts, key=lambda verdict: rank(result, verdict))


def sort_rows(result: Result, rows: Iterable[Row]) -> list[Row]:
    """Sort rows by role, then by metric, then by variant, best first.

    Metrics have the order of the result, variants that of their verdicts.
    """
    roles = [role for role, _, _ in ROLES]
    metrics = list(dict.fromkeys(row.metric for row in result.scorecard))
    order = {verdict.variant: index for index, verdict in enumerate(sort_verdicts(result))}

    def rank_row(row: Row) -> tuple[int, int, int]:
        return roles.index(row.role), metrics.index(row.metric), order.get(row.variant, 0)

    return sorted(rows, key=rank_row)


def write_verdicts(
    result: Result, outlook: "PowerOutlook | None"
) -> tuple[tuple[VerdictLine, ...], str]:
    """Write a line per variant, best first, and once what holds for all of them.

    Where the verdicts are the same, there is one line, without a variant.
    """
    verdicts = sort_verdicts(result)
    alike = len({verdict.sentence for verdict in verdicts}) == 1
    common = [] if alike else [n for n in verdicts[0].notes if all(n in v.notes for v in verdicts)]
    lines = tuple(
        VerdictLine(
            verdict.variant,
            verdict.decision,
            _write_headline(result, verdict, step.word),
            codes.write_reason(verdict, common),
            action=step.text,
        )
        for verdict in verdicts
        for step in [recommend_step(result, outlook, verdict)]
    )
    if alike and len(lines) > 1 and len({line.word for line in lines}) == 1:
        return (lines[0]._replace(variant=""),), ""
    return lines, codes.write_notes(common)


def _write_headline(result: Result, verdict: Verdict, step: str) -> str:
    """Write the decision in capitals, with the caution that belongs to it."""
    word = codes.describe_code(verdict.decision).upper()
    if verdict.decision == "keep_running":
        return word + _FOLLOWS.get(step, "")
    guards = any(r.role == "guardrail" and r.variant == verdict.variant for r in result.scorecard)
    # Without a guardrail nothing was watched for harm, which the reader must know at once.
    return word + ", NO GUARDRAIL SET" * (verdict.decision == "ship" and not guards)


def write_next_step(result: Result | None, outlook: "PowerOutlook | None" = None) -> str:
    """Write the recommendation for the best variant."""
    if result is None or not result.verdicts:
        return ""
    return recommend_step(result, outlook, sort_verdicts(result)[0]).text


def recommend_step(result: Result, outlook: "PowerOutlook | None", verdict: Verdict) -> Step:
    """Recommend a step for one variant."""
    if empty := [fmt.quote_name(v.name) for v in result.experiment.variants if v.units == 0]:
        why = "were units assigned to it, and how does the log write its name?"
        return Step("repair", f"Find out why no unit is in {fmt.join_items(empty)}: {why}")
    best, variant = sort_verdicts(result)[0], fmt.quote_name(verdict.variant)
    match verdict.decision:
        case "ship" if verdict.variant != best.variant:
            gains = f"{fmt.quote_name(best.variant)} gains more."
            return Step("second_choice", f"Keep {variant} as the second choice: {gains}")
        case "ship":
            now = result.schedule
            early = f" before the planned end: look {now.look} of {now.looks} allows it"
            return Step("ship", f"Roll out {variant}{early * (now.next_look is not None)}.")
        case "do_not_ship":
            variant_rows = [row for row in result.scorecard if row.variant == verdict.variant]
            worse = [r for r in variant_rows if r.status == "worse" and r.role != "diagnostic"]
            names = fmt.join_items([fmt.quote_name(result.label(row.metric)) for row in worse])
            what = f"{names} by segment and day" if names else "what got worse"
            word, rejection = _describe_rejection(result, verdict.variant)
            return Step(word, f"{rejection}. Look at {what} before a new attempt.")
        case "keep_running":
            return _settle(outlook, result, verdict.variant)
        case "do_not_trust":
            judged = {row.metric for row in result.scorecard if row.role != "diagnostic"}
            failed = [c for c in result.trust if c.status == "fail" and c.touches(judged)]
            remedy = next((f"{fmt.capitalize_first(c.remedy)}. " for c in failed if c.remedy), "")
            return Step("repair", f"{remedy}Decide nothing before the failed check is understood.")
        case "draft":
            right = "if the file is right, take it out of `questions`; if not, correct the file"
            return Step("answer", f"Answer each question: {right} first. Then analyze again.")


def _describe_rejection(result: Result, variant: str) -> tuple[str, str]:
    """Recommend not to ship a variant: keep control, unless another one ships."""
    if sort_verdicts(result)[0].decision == "ship":
        return "do_not_ship", f"Do not roll out {fmt.quote_name(variant)}"
    return "keep_control", f"Keep {fmt.quote_name(result.experiment.control)}"


def _settle(outlook: "PowerOutlook | None", result: Result, variant: str) -> Step:
    """Recommend what decides a variant that is still undecided."""
    rows = [row for row in result.scorecard if row.variant == variant]
    if not any(row.role == "goal" for row in rows):
        return Step("define", 'Make a metric the goal: role = "goal".')
    gained = any(row.role == "goal" and row.status == "better" for row in rows)
    # After a gain only a guardrail can hold the decision up; before it, only a goal.
    holding = [row for row in rows if row.role == ("guardrail" if gained else "goal")]
    waiting = [r for r in holding if r.status in _OPEN and r.reason not in _NOT_BY_DAYS]
    if not waiting and any(row.reason == "denominator_moved" for row in holding):
        why = "more days do not settle a ratio whose denominator moved."
        return Step("define", f"Judge by totals per unit: {why}")
    word, rejection = _describe_rejection(result, variant)
    if not waiting:
        return Step(word, f"{rejection}: no goal got better.")
    # A row with a detectable effect says how much longer the test must run.
    row = next((row for row in waiting if row.mde is not None), waiting[0])
    question = _Question(result, row, outlook)
    more, run_on = ("new_test", "Test anew") if question.is_over else ("run_on", "Run on")
    if row.units_needed is not None:
        needed = f"{row.units_needed:,} units ({result.experiment.unit}) a variant are needed"
        if row.reason == "too_few_units":
            more, run_on = "new_test", "Test anew with more"
        return Step(more, f"{run_on}: {needed}; with fewer no test of {question.name} holds.")
    # The smaller of the two groups is named: it is the one that lacks units.
    least, small = min((row.units_control, result.experiment.control), (row.units, variant))
    # A randomisation test holds its level for any number of units.
    if least < _MIN_UNITS and "randomisation" not in (row.method or ""):
        few = f"{fmt.quote_name(small)} has {least}"
        needs = f"needs at least {_MIN_UNITS} to be tested, and far more to be decided"
        plan = "Plan a new test with more" if question.is_over else "Run on to have more"
        return Step(more, f"Too few units: {few}. {question.name} {needs}. {plan}.")
    if row.status == "too_little_data":
        size = f": about {question.size} to see {question.target}" if question.size else ""
        return Step(more, f"{run_on}{size}. {question.name} has too little data.")
    return (
        _settle_guardrail(question)
        if row.role == "guardrail"
        else _settle_goal(question, word, rejection)
    )


@dataclass(frozen=True)
class _Question:
    """The row that holds a decision up, and what more days would show."""

    result: Result
    row: Row
    outlook: "PowerOutlook | None"

    @property
    def name(self) -> str:
        """Name the metric, and its variant if there are several."""
        several = len(self.result.verdicts) > 1
        metric = fmt.quote_name(self.result.label(self.row.metric))
        return f"{metric} of {fmt.quote_name(self.row.variant)}" if several else metric

    @property
    def ahead(self) -> "MetricOutlook | None":
        """Return the outlook of the row: the effects detectable after more days."""
        if self.outlook is None:
            return None
        return self.outlook.find(self.row.metric, self.row.variant)

    @property
    def planned_days(self) -> float:
        """Return the planned length in days; 0 if unknown."""
        return 0.0 if self.outlook is None else self.outlook.planned_days or 0.0

    @property
    def target(self) -> str:
        """Write the next smaller effect to look for; empty without an outlook."""
        return "" if self.ahead is None else fmt.format_plus_minus(self.ahead.target)

    @property
    def size(self) -> str | None:
        """Write the days, clusters or units that the target needs."""
        if self.ahead is None:
            return None
        if not self.clusters or self.row.mde is None or not self.ahead.target:
            return describe_size(self.ahead)
        # The standard error falls with the root of the clusters.
        now, times = self.row.units_control + self.row.units, self.row.mde / self.ahead.target
        return f"{math.ceil(now * times**2):,} {self.clusters} in all"

    @property
    def clusters(self) -> str:
        """Name the clusters if they are too few for more days to help; else empty."""
        few = min(self.row.units_control, self.row.units) < _MIN_UNITS
        drawn = few and "randomisation" in (self.row.method or "")
        return f"clusters ({self.result.experiment.unit})" * drawn

    @property
    def has_ended(self) -> bool:
        """Tell whether the log reaches the last day of the period."""
        end, days = self.result.experiment.end, [row.cell for row in self.result.daily]
        if end is None or not days:
            return False
        return datetime.fromisoformat(max(days)) + timedelta(days=1) >= datetime.fromisoformat(end)

    @property
    def until(self) -> str:
        """Write until when the plan runs; empty if it is over or there is none."""
        look = None if self.outlook is None else self.outlook.next_look
        info = self.result.experiment
        if self.has_ended:
            return ""
        if look is not None:
            return f"Look again {'at' if 'units' in look else 'on'} {look}, the next planned look"
        if info.end is None:
            return ""
        # The end is exclusive: midnight belongs to the day after the last one.
        day = (datetime.fromisoformat(info.end) - timedelta(microseconds=1)).date()
        way = ", and look on any day up to" if info.looks == "always_valid" else " to"
        return f"Run on{way} the planned end, {day}"

    @property
    def is_over(self) -> bool:
        """Tell whether the test has ended and must not run on."""
        # Always-valid intervals allow more days; a fixed plan that runs on is a second look.
        return self.has_ended and self.result.experiment.looks != "always_valid"

    @property
    def new_test_note(self) -> str:
        """Write what running longer requires once the planned test has ended."""
        if self.is_over:
            return ", in a new test"
        return ", for which this test may run on" * self.has_ended


def _settle_goal(question: _Question, word: str, rejection: str) -> Step:
    seen = f"{fmt.format_plus_minus(question.row.mde)} of {question.name}"
    if question.until and word != "do_not_ship":
        points = question.ahead.points if question.ahead else ()
        # The outlook has points at certain days; the planned end is usually among them.
        at_end = dict(points).get(question.planned_days)
        then = "" if at_end is None else f", {fmt.format_plus_minus(at_end)} at the planned end"
        more = f" More days bring no {question.clusters}: assign more of them."
        more *= bool(question.clusters)
        return Step("run_on", f"{question.until}: it can detect {seen} so far{then}.{more}")
    stop = rejection
    if word != "do_not_ship":
        stop = f"Stop and {rejection[:1].lower()}{rejection[1:]}"
    if question.row.mde is None:
        return Step(word, f"{stop}: {question.name} did not get better.")
    if question.size is None and question.clusters:
        more = f"smaller effects take more {question.clusters}, not more days"
        return Step(word, f"{stop}: this test would have detected {seen}; {more}.")
    more = f"More days will not settle {question.target}"
    if question.size is not None:
        takes = f"{question.target} takes about {question.size}{question.new_test_note}"
        more = f"If smaller effects matter, {takes}"
    elif not question.target:
        more = "If smaller effects matter, plan a larger test"
    covariates = _list_covariates(question.result)
    if covariates and question.result.experiment.adjust == "none":
        uses = '[inference] adjust = "cuped" (of a table, --covariate)'
        more = f"With {covariates} from before, {uses} may detect smaller effects. {more}"
    return Step(word, f"{stop}. This test can detect {seen}. {more}.")


def _list_covariates(result: Result) -> str:
    """List the covariates from before the period, named by their checks."""
    names = [name.split(":")[1] for c in result.trust if (name := c.name).startswith("pre_period:")]
    return fmt.join_items([*dict.fromkeys(map(fmt.quote_name, names))])


def _settle_guardrail(question: _Question) -> Step:
    metric, name = question.result.info(question.row.metric), question.name
    if metric.within is not None:
        lead = f"{name}: a value outside {fmt.format_range(*metric.within)} is not ruled out."
        word = "run_on" if question.until else "choose"
        return Step(word, f"{lead} {_wait(question)}".rstrip())
    if metric.margin is None:
        return Step("define", f"Give {name} a margin: without one it cannot be shown to hold.")
    margin = fmt.format_margin(metric.margin, bool(metric.margin_relative), metric.unit)
    way = {"increase": "a drop of", "decrease": "a rise of"}.get(metric.direction, "a move away by")
    worst = _find_largest_loss(question.row, metric)
    possible = "" if worst is None else f" ({_format_margin(worst, metric)} still possible)"
    lead = f"{name}: {way} more than {margin} is not ruled out{possible}."
    days = None if question.ahead is None else question.ahead.target_days
    if question.until and days is not None and days <= question.planned_days:
        return Step("run_on", f"{lead} {_wait(question)}".rstrip())
    choices = []
    if worst is not None:
        # Rounded up to one digit.
        step = 10.0 ** math.floor(math.log10(worst))
        choices = [f"accept a margin of {_format_margin(math.ceil(worst / step) * step, metric)}"]
    if question.result.experiment.adjust == "none":
        choices.append("reduce variance (CUPED)")
    choice = fmt.capitalize_first(f"{', '.join(choices)}, or stop" if choices else "stop")
    return Step("choose", f"{lead} {_wait(question)}{choice}.")


def _wait(question: _Question) -> str:
    """Write how long it takes to prove that a harmless variant keeps the margin."""
    until = f"{question.until}. " if question.until else ""
    if question.outlook is None:
        return until
    if question.size is None:
        return f"{until}More days will not settle it. "
    if question.ahead is not None and question.ahead.more_days == 0.0:
        return f"{until}A variant that loses nothing would mostly have shown it by now. "
    takes = f"would take about {question.size}{question.new_test_note}"
    return f"{until}Ruling it out {takes}, if nothing is lost. "


def _find_largest_loss(row: Row, metric: MetricInfo) -> float | None:
    """Return the largest loss that the interval contains, in units of the margin."""
    _, low, high = read_interval(row, "lift" if metric.margin_relative else "difference")
    loss = {"increase": None if low is None else -low, "decrease": high}.get(metric.direction)
    return loss if loss is not None and loss > 0 else None


def _format_margin(size: float, metric: MetricInfo) -> str:
    return fmt.format_margin(float(f"{size:.2g}"), bool(metric.margin_relative), metric.unit)


def describe_size(ahead: "MetricOutlook") -> str | None:
    """Write the total days or units that a target needs; None if out of reach.

    Example:
        >>> from abeval.results.power import MetricOutlook
        >>> describe_size(MetricOutlook("ctr", 14.0, 0.14, (), 0.05, 111.4, None, "b", 23_874))
        '112 days in all (8 times as long, about 24,000 units)'
    """
    if ahead.days is None:
        units = ahead.target_units
        return None if units is None else f"{math.ceil(units):,} units in all"
    if ahead.target_days is None:
        return None
    # A whole number of days stays whole, whatever its last binary digit.
    days, times = math.ceil(ahead.target_days - 1e-6), ahead.target_days / ahead.days
    units = ahead.target_units
    size = f", about {float(f'{units:.2g}'):,.0f} units" if units else ""
    longer = f" ({times:.2g} times as long{size})" if times > 1 else ""
    return f"{fmt.format_count(days)} {'day' if days == 1 else 'days'} in all{longer}"
