"""Decide on each variant, and say it in one or two sentences.

The sentences have at most 45 words together. The first says what decides, the second what to bear
in mind. Few rows are named, more are counted.

Ship only if no failed trust check touches a goal or a guardrail, a goal is better, no goal is
worse, and every guardrail is proven to hold (Spotify's rule; Schultzberg et al. 2024,
arXiv:2402.11609). A guardrail that is merely not significant has not passed. All guardrails must
hold, so each is tested at the full level. Any of them can stop a variant, so "worse" is corrected
for their number (`families.py`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from abeval.inference.comparison import Key
from abeval.inference.families import HELD
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import MetricInfo
from abeval.results.effects import Row
from abeval.results.trust import Check, Decision, Verdict

# Stands in for a metric without a definition: no unit, no margin.
_UNKNOWN = MetricInfo("", "", "", "", "", "", margin=None, margin_relative=None)


class _VerdictInput(NamedTuple):
    """Hold what the decision on one variant rests on.

    `most` is the number of rows of each kind that are named.
    """

    goals: list[Row]
    guardrails: list[Row]
    failed: list[Check]
    metrics: Mapping[str, MetricInfo]
    moved: Mapping[Key, str]
    compared: int
    most: int

    def metric(self, row: Row) -> MetricInfo:
        return self.metrics.get(row.metric, _UNKNOWN)

    def name(self, row: Row) -> str:
        """Return a metric's display name, quoted for a sentence."""
        return fmt.quote_name(self.metric(row).display_name or row.metric)

    def effect(self, row: Row) -> fmt.FormattedEffect:
        return fmt.format_row_effect(row, self.metric(row).unit)


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
        besides = [f"{count_names([c.name for c in all_failed], 'check')} failed"]
        text = codes.open_questions(questions, MOST_QUESTIONS)
        variants = dict.fromkeys(row.variant for row in rows)
        own = besides if all_failed else []
        return tuple(codes.build_verdict(variant, "draft", text, own) for variant in variants)
    notes = [f"{early}, but only one look, at the end, is valid"] if early else []
    if other_failed := [check.name for check in all_failed if check not in failed]:
        notes += [f"{count_names(other_failed, 'check')} failed, for other metrics only"]
    if warned := [check.name for check in trust if check.status == "warn"]:
        notes += [f"{count_names(warned, 'check')} warned"]
    compared = sum(row.role == "goal" and row.p_adjusted is not None for row in rows)
    by_name, verdicts = {metric.name: metric for metric in metrics}, []
    for variant in dict.fromkeys(row.variant for row in rows):
        goals, guardrails = (
            [row for row in rows if row.variant == variant and row.role == role]
            for role in ("goal", "guardrail")
        )
        for most in (_MOST_ROWS, 1, 0):
            case = _VerdictInput(goals, guardrails, failed, by_name, moved or {}, compared, most)
            decision, clause, own_notes = _decide_on_variant(case)
            own_notes += notes * (not failed)
            verdict = codes.build_verdict(variant, decision, clause, own_notes)
            if len(verdict.sentence.split()) <= MOST_WORDS:
                break
        verdicts.append(verdict)
    return tuple(verdicts)


MOST_WORDS = 45
"""Words of a verdict that decides, at most."""

MOST_QUESTIONS = 2
"""Questions of a draft that come whole, each with its answer; others are counted."""

_MOST_ROWS = 2
"""Rows of a kind that a verdict names; it counts more of them."""


def count_names(names: Sequence[str], noun: str, most: int = 2) -> str:
    """Name a few things, and count more of them.

    Example:
        >>> count_names(["a", "b"], "goal"), count_names(["a", "b", "c"], "goal", 1)
        ('a and b', 'a and 2 more goals')
    """
    more = len(names) - most
    if more <= 0:
        return fmt.join_items(names)
    counted = f"{more} {'more ' * bool(most)}{noun}{'s' * (more > 1)}"
    return fmt.join_items([*names[:most], counted])


def _decide_on_variant(case: _VerdictInput) -> tuple[Decision, str, list[str]]:
    """Decide on a variant, say what the decision rests on, and what to bear in mind."""
    if case.failed:
        return "do_not_trust", _do_not_trust(case), _note_other_failures(case)
    gains = _name_gains(case)
    harms = [
        _describe_harm(case, row)
        for row in (*case.goals, *case.guardrails)
        if row.status == "worse"
    ]
    if harms:
        harmed = count_names(harms, "worse metric", max(case.most - bool(gains), 1))
        return "do_not_ship", harmed + f", although {gains} got better" * bool(gains), []
    moved = [_explain_moved_ratio(case, row) for row in case.goals if _is_moved(row)]
    if gains and all(row.status in HELD for row in case.guardrails):
        return "ship", *_explain_ship_decision(case, moved)
    if not case.goals:
        return "keep_running", "no metric is a goal, so there is nothing to decide on", []
    if not gains:
        return "keep_running", _open_goals(case), []
    waiting = [
        _explain_open_guardrail(case, row) for row in case.guardrails if row.status not in HELD
    ]
    least = count_names(waiting, "open guardrail", max(case.most - 1, 1))
    return "keep_running", f"{gains}, but {least}", moved[: case.most]


def _do_not_trust(case: _VerdictInput) -> str:
    first = case.failed[0]
    # The trust section has the whole message.
    sentence = re.split(r"\.\s+(?=[A-Z])", first.message)[0].rstrip(". ")
    return fmt.clip(f"{codes.check_name(first.name)}: {sentence}", 14 + 8 * case.most)


def _note_other_failures(case: _VerdictInput) -> list[str]:
    rest = [check.name for check in case.failed[1:]]
    return [f"{count_names(rest, 'check', case.most)} also failed"] if rest else []


def _explain_ship_decision(case: _VerdictInput, moved: Sequence[str]) -> tuple[str, list[str]]:
    names = [case.name(row) for row in case.guardrails]
    held = f"guardrails held ({', '.join(names)})"
    if len(names) > _MOST_ROWS:
        held = f"all {len(names)} guardrails held"
    unguarded = "Caution: no guardrail was set, so harm to other metrics was not tested"
    notes = [] if names else [unguarded]
    open_goals = [case.name(r) for r in case.goals if r.status != "better" and not _is_moved(r)]
    if open_goals:
        verb = "is" if len(open_goals) == 1 else "are"
        notes.append(f"{count_names(open_goals, 'goal', case.most)} {verb} not shown to be better")
    return _name_gains(case) + f", {held}" * bool(names), [*notes, *moved[: case.most]]


# Reasons of an unclear row that say more than its interval.
_HAS_WORDS = ("denominator_moved", "not_after_correction")


def _name_gains(case: _VerdictInput) -> str:
    """Name the goals that are better; empty where none is."""
    better = [_describe_row(case, row) for row in case.goals if row.status == "better"]
    return count_names(better, "goal", case.most) if better else ""


def _name_row(case: _VerdictInput, row: Row) -> str:
    return "guardrail " * (row.role == "guardrail") + case.name(row)


def _describe_move(case: _VerdictInput, row: Row) -> str:
    """Say by how much a value rose or fell, from the smaller to the larger end."""
    effect, rises = case.effect(row), (row.difference or 0.0) > 0
    ends = (effect.low, effect.high) if rises else (effect.high, effect.low)
    low, high = (end.lstrip("+-") for end in ends)
    return f"{'rose' if rises else 'fell'} by {low} to {high}{effect.unit}"


def _describe_row(case: _VerdictInput, row: Row) -> str:
    effect, moved = case.effect(row), case.moved.get((row.metric, row.variant))
    name = _name_row(case, row)
    moved_text = "" if moved is None or _is_moved(row) else f" ({moved})"
    return f"{name} {effect.text}{moved_text}" if effect else name


def _is_moved(row: Row) -> bool:
    return row.reason == "denominator_moved"


def _explain_moved_ratio(case: _VerdictInput, row: Row) -> str:
    """Explain a ratio whose denominator moved."""
    moved = case.moved.get((row.metric, row.variant), "")
    return f"{_describe_row(case, row)} cannot decide: {moved}"


def _describe_harm(case: _VerdictInput, row: Row) -> str:
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
    margin = _format_margin(metric)
    if harm[0] > metric.margin:
        return f"{_name_row(case, row)} {_describe_move(case, row)}, all beyond the {margin} margin"
    likely = "likely but not proven" if harm[1] > metric.margin else "not ruled out"
    return f"{text} is worse, and a loss beyond its {margin} margin is {likely}"


def _format_margin(metric: MetricInfo) -> str | None:
    """Write the margin in words; None if there is none."""
    if metric.margin is None:
        return None
    return fmt.format_margin(metric.margin, bool(metric.margin_relative), metric.unit)


def _explain_open_guardrail(case: _VerdictInput, row: Row) -> str:
    """Say why a guardrail has not passed yet."""
    if _is_moved(row):
        return _explain_moved_ratio(case, row)
    if not case.effect(row) or row.status != "unclear":
        return f"{_name_row(case, row)} {_explain_no_number(case, row)}"
    metric = case.metric(row)
    margin = _format_margin(metric)
    still = "has no margin" if margin is None else f"could still break its {margin} margin"
    if metric.within is not None:
        still = f"could still lie outside {fmt.format_range(*metric.within)}"
    return f"{_describe_row(case, row)} {still}"


def _open_goals(case: _VerdictInput) -> str:
    """Describe the goals of a variant for which no goal is better.

    A few goals are named, the others are counted.
    """
    wide = {
        case.name(row): effect.span
        for row in case.goals
        if row.status == "unclear" and row.reason not in _HAS_WORDS and (effect := case.effect(row))
    }
    # Only the first says the verb.
    verbs = ["could be anywhere ", *[""] * len(wide)]
    spans = [f"{name} {verb}{wide[name]}" for name, verb in zip(wide, verbs, strict=False)]
    if (more := len(spans) - case.most) > 0:
        which = "more " * bool(case.most) + ("goal is" if more == 1 else "goals are")
        spans[case.most :] = [f"{more} {which} undecided"]
    chance = [r for r in case.goals if case.effect(r) and r.reason == "not_after_correction"]
    others: dict[str, list[str]] = {}
    for row in case.goals:
        if case.name(row) not in wide and row not in chance:
            subject, predicate = _describe_settled_goal(case, row)
            others.setdefault(predicate, []).append(subject)
    settled = [
        f"{count_names(names, 'goal', max(case.most, 1))} "
        f"{_conjugate_predicate(predicate, len(names))}"
        for predicate, names in others.items()
    ]
    return ", ".join([*spans, *_describe_chance(case, chance), *settled])


def _describe_chance(case: _VerdictInput, rows: Sequence[Row]) -> Iterator[str]:
    """Say that goals look better or worse, but not after the correction."""
    if len(rows) == 1:
        (row,) = rows
        way = "lower" if (row.difference or 0) < 0 else "higher"
        yield (
            f"{case.name(row)} looks {way} ({case.effect(row).estimate}), but not after correcting "
            f"for {case.compared} comparisons (p {fmt.format_p_value(row.p_adjusted)})"
        )
    elif rows:
        lower = sum((row.difference or 0) < 0 for row in rows)
        ways = [(len(rows) - lower, "higher"), (lower, "lower")]
        (first, way), *rest = [pair for pair in ways if pair[0]]
        text = f"{first} {'goal looks' if first == 1 else 'goals look'} {way}"
        text += "".join(f" and {count} {other}" for count, other in rest)
        yield f"{text}; none survives correction for {case.compared} comparisons"


def _conjugate_predicate(predicate: str, count: int) -> str:
    """Make a verb agree with several subjects."""
    plural = {"has": "have", "is": "are", "does": "do"}
    verb, _, rest = predicate.partition(" ")
    return predicate if count == 1 else f"{plural.get(verb, verb)} {rest}"


def _describe_settled_goal(case: _VerdictInput, row: Row) -> tuple[str, str]:
    """Return what is said of a goal as subject and predicate."""
    if _is_moved(row):
        subject = _describe_row(case, row)
        return subject, f"cannot decide: {case.moved.get((row.metric, row.variant), '')}"
    if case.effect(row) and row.status in HELD:
        return _describe_row(case, row), f"is {codes.describe_code(row.status)}"
    return case.name(row), _explain_no_number(case, row)


def _explain_no_number(case: _VerdictInput, row: Row) -> str:
    """Say why a row has no number to judge, as a predicate."""
    what = {"too_little_data": "has too little data", "untrusted": "is not to be trusted"}
    why = f" ({codes.describe_code(row.reason)})" if row.reason else ""
    if row.status == "too_little_data" and row.reason in codes.WITHOUT_SPREAD:
        return f"does not vary{why}"
    missing = "is unclear" if case.effect(row) else "has no effect estimate"
    return f"{what.get(row.status, missing)}{why}"
