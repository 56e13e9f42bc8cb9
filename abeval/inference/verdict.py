"""Decide on each variant, and say it in one sentence.

Ship only if no failed trust check touches a goal or a guardrail, a goal is better, no goal is
worse, and every guardrail is proven to hold (Spotify's rule; Schultzberg et al. 2024,
arXiv:2402.11609). A guardrail that is merely not significant has not passed. All guardrails must
hold, so each is tested at the full level. Any of them can stop a variant, so "worse" is corrected
for their number (`families.py`).
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from abeval.inference.comparison import Key
from abeval.inference.families import HELD
from abeval.results import Check, Decision, MetricInfo, Row, Verdict, codes
from abeval.results import format as fmt

# Stands in for a metric without a definition: no unit, no margin.
_UNKNOWN = MetricInfo("", "", "", "", "", "", margin=None, margin_relative=None)


class _VerdictInput(NamedTuple):
    """What the decision on one variant rests on."""

    goals: list[Row]
    guardrails: list[Row]
    failed: list[Check]
    metrics: Mapping[str, MetricInfo]
    moved: Mapping[Key, str]
    compared: int

    def metric(self, row: Row) -> MetricInfo:
        return self.metrics.get(row.metric, _UNKNOWN)

    def name(self, row: Row) -> str:
        """Return a metric's display name, quoted for a sentence."""
        return fmt.quote_name(self.metric(row).display_name or row.metric)

    def effect(self, row: Row) -> fmt.FormattedEffect:
        return fmt.effect(row, self.metric(row).unit)


def decide(
    trust: Sequence[Check],
    rows: Sequence[Row],
    metrics: Sequence[MetricInfo],
    moved: Mapping[Key, str] | None = None,
    early: str = "",
    questions: Sequence[str] = (),
) -> tuple[Verdict, ...]:
    """Return one verdict per variant, in the order of the scorecard.

    Args:
        trust: The trust checks, shared by all variants.
        rows: The scorecard.
        metrics: Definitions, for units and guardrail margins.
        moved: Text on how far moved denominators and their totals moved.
        early: Text that says that the log ends before the single planned look.
        questions: Open questions; with any, nothing is decided.

    Example:
        >>> from abeval.results.record import list_columns
        >>> check = Check("srm", "fail", 1e-6, 0.001, "the split is 52/48, planned 50/50")
        >>> blank = dict.fromkeys(list_columns(Row))
        >>> row = Row(**{**blank, "metric": "ctr", "role": "goal", "variant": "b"})
        >>> decide([check], [row], [])[0].sentence
        'DO NOT TRUST: srm (sample ratio mismatch): the split is 52/48, planned 50/50.'
    """
    judged = {row.metric for row in rows if row.role != "diagnostic"}
    all_failed = [check for check in trust if check.status == "fail"]
    failed = [check for check in all_failed if check.touches(judged)]
    if questions:
        besides = f"; {fmt.listing([c.name for c in all_failed])} failed" if all_failed else ""
        sentence = f"DRAFT: {codes.open_questions(questions)}{besides}"
        sentence += "" if sentence.endswith("?") else "."
        variants = dict.fromkeys(row.variant for row in rows)
        return tuple(Verdict(variant, "draft", sentence) for variant in variants)
    notes = f"; {early}, but only one look, at the end, is valid" if early else ""
    if other_failed := [check.name for check in all_failed if check not in failed]:
        notes += f"; {fmt.listing(other_failed)} failed, which touches other metrics only"
    if warned := [check.name for check in trust if check.status == "warn"]:
        notes += f"; note the warning on {fmt.listing(warned)}"
    compared = sum(row.role == "goal" and row.p_adjusted is not None for row in rows)
    by_name, verdicts = {metric.name: metric for metric in metrics}, []
    for variant in dict.fromkeys(row.variant for row in rows):
        goals, guardrails = (
            [row for row in rows if row.variant == variant and row.role == role]
            for role in ("goal", "guardrail")
        )
        case = _VerdictInput(goals, guardrails, failed, by_name, moved or {}, compared)
        decision, clause = _decision(case)
        sentence = f"{codes.describe_code(decision).upper()}: {clause}{'' if failed else notes}."
        verdicts.append(Verdict(variant, decision, sentence))
    return tuple(verdicts)


def _decision(case: _VerdictInput) -> tuple[Decision, str]:
    """Decide on a variant, and say what the decision rests on."""
    if case.failed:
        return "do_not_trust", _do_not_trust(case)
    gains = _gains(case)
    harms = [_harm(case, row) for row in (*case.goals, *case.guardrails) if row.status == "worse"]
    if harms:
        return "do_not_ship", fmt.listing(harms) + f", although {gains} got better" * bool(gains)
    if gains and all(row.status in HELD for row in case.guardrails):
        return "ship", _ship(case)
    return "keep_running", _keep_running(case)


def _do_not_trust(case: _VerdictInput) -> str:
    first, *rest = case.failed
    # The verdict is one sentence; the trust section has the whole message.
    sentence = re.split(r"\.\s+(?=[A-Z])", first.message)[0].rstrip(". ")
    also = f"; {fmt.listing([check.name for check in rest])} also failed" if rest else ""
    return f"{codes.check_name(first.name)}: {sentence}{also}"


def _ship(case: _VerdictInput) -> str:
    held = ", ".join(case.name(row) for row in case.guardrails)
    guard = (
        f", guardrails held ({held})"
        if held
        else "; caution: no guardrail was set, so harm to other metrics was not tested"
    )
    open_goals = [case.name(r) for r in case.goals if r.status != "better" and not _is_moved(r)]
    still = f"; {fmt.listing(open_goals)} not shown to be better" if open_goals else ""
    return f"{_gains(case)}{guard}{still}{_note_moved_goals(case)}"


def _keep_running(case: _VerdictInput) -> str:
    if not case.goals:
        return "no metric is a goal, so there is nothing to decide on"
    gains = _gains(case)
    if not gains:
        return _open_goals(case)
    waiting = [_waiting(case, row) for row in case.guardrails if row.status not in HELD]
    return f"{gains}, but {fmt.listing(waiting)}{_note_moved_goals(case)}"


# Reasons of an unclear row that say more than its interval.
_HAS_WORDS = ("denominator_moved", "not_after_correction")

# Open goals that a sentence names at most; the scorecard has all.
_MOST_GOALS = 4


def _gains(case: _VerdictInput) -> str:
    """Name the goals that are better; empty where none is."""
    better = [_describe_row(case, row) for row in case.goals if row.status == "better"]
    return fmt.listing(better) if better else ""


def _describe_row(case: _VerdictInput, row: Row) -> str:
    effect, moved = case.effect(row), case.moved.get((row.metric, row.variant))
    name = "guardrail " * (row.role == "guardrail") + case.name(row)
    moved_text = "" if moved is None or _is_moved(row) else f" ({moved})"
    return f"{name} {effect.text}{moved_text}" if effect else name


def _is_moved(row: Row) -> bool:
    return row.reason == "denominator_moved"


def _note_moved_goals(case: _VerdictInput) -> str:
    """Name goals whose denominator moved, so that they cannot decide."""
    return "".join(f"; {_explain_moved_ratio(case, row)}" for row in case.goals if _is_moved(row))


def _explain_moved_ratio(case: _VerdictInput, row: Row) -> str:
    """Explain a ratio whose denominator moved."""
    return (
        f"{_describe_row(case, row)} cannot decide: {case.moved.get((row.metric, row.variant), '')}"
    )


def _harm(case: _VerdictInput, row: Row) -> str:
    """Describe a worse row: worse only, or beyond its margin."""
    text, metric = _describe_row(case, row), case.metric(row)
    if metric.within is not None:
        return f"{text} lies outside {fmt.format_range(*metric.within)}"
    ends = (row.difference_low, row.difference, row.difference_high)
    if metric.margin_relative:
        ends = (row.lift_low, row.lift, row.lift_high)
    sign = -1 if row.direction == "increase" else 1
    harm = sorted(sign * end for end in ends if end is not None)
    if metric.margin is None or row.role != "guardrail" or len(harm) < 3:
        return f"{text} is worse"
    margin = _margin(metric)
    if harm[0] > metric.margin:
        return f"{text} lies wholly beyond its {margin} margin"
    likely = "likely but not proven" if harm[1] > metric.margin else "not ruled out"
    return f"{text} is worse, and a loss beyond its {margin} margin is {likely}"


def _margin(metric: MetricInfo) -> str | None:
    """Write the margin in words; None if there is none."""
    if metric.margin is None:
        return None
    return fmt.margin(metric.margin, bool(metric.margin_relative), metric.unit)


def _waiting(case: _VerdictInput, row: Row) -> str:
    """Say why a guardrail has not passed yet."""
    if _is_moved(row):
        return _explain_moved_ratio(case, row)
    if not case.effect(row) or row.status != "unclear":
        return _no_number(case, row)
    metric = case.metric(row)
    if metric.within is not None:
        return (
            f"{_describe_row(case, row)} could still lie outside {fmt.format_range(*metric.within)}"
        )
    margin = _margin(metric)
    still = "has no margin" if margin is None else f"could still break its {margin} margin"
    return f"{_describe_row(case, row)} {still}"


def _open_goals(case: _VerdictInput) -> str:
    """Name undecided goals with their intervals, then the other goals."""
    wide = {
        case.name(row): effect.span
        for row in case.goals
        if row.status == "unclear" and row.reason not in _HAS_WORDS and (effect := case.effect(row))
    }
    # Only the first says the verb.
    verbs = ["could be anywhere ", *[""] * len(wide)]
    spans = [f"{name} {verb}{wide[name]}" for name, verb in zip(wide, verbs, strict=False)]
    if len(spans) > _MOST_GOALS + 1:
        spans[_MOST_GOALS:] = [f"{len(spans) - _MOST_GOALS} more goals are as open"]
    settled = [
        _describe_settled_goal(case, row) for row in case.goals if case.name(row) not in wide
    ]
    return ", ".join([*spans, *settled])


def _describe_settled_goal(case: _VerdictInput, row: Row) -> str:
    effect = case.effect(row)
    if _is_moved(row):
        return _explain_moved_ratio(case, row)
    if effect and row.reason == "not_after_correction":
        way = "lower" if (row.difference or 0) < 0 else "higher"
        return (
            f"{case.name(row)} looks {way} ({effect.estimate}), but not after correcting for "
            f"{case.compared} comparisons (p {fmt.p_value(row.p_adjusted)})"
        )
    if effect and row.status in HELD:
        return f"{_describe_row(case, row)} is {codes.describe_code(row.status)}"
    return _no_number(case, row)


def _no_number(case: _VerdictInput, row: Row) -> str:
    what = {"too_little_data": "has too little data", "untrusted": "is not to be trusted"}
    name = "guardrail " * (row.role == "guardrail") + case.name(row)
    why = f" ({codes.describe_code(row.reason)})" if row.reason else ""
    if row.status == "too_little_data" and row.reason in codes.WITHOUT_SPREAD:
        return f"{name} does not vary{why}"
    missing = "is unclear" if case.effect(row) else "has no effect estimate"
    return f"{name} {what.get(row.status, missing)}{why}"
