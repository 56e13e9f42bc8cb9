"""Write an analysis in at most 4 kB of JSON, for programs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from abeval.report.next_step import recommend_step, sort_verdicts
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import MetricInfo, Result
from abeval.results.effects import Row
from abeval.results.trust import Verdict, select_checks

if TYPE_CHECKING:
    from abeval.results.power import PowerOutlook

SCHEMA = "abeval-brief/2"
"""Version of the JSON; it changes when a field is removed or changes its meaning."""

MOST_BYTES = 4096


class _Room(NamedTuple):
    """Most effects, variants and checks, and most letters of a text."""

    effects: int
    variants: int
    checks: int
    letters: int


_ROOMS = (
    *(_Room(n, 8, 5, 400) for n in (24, 16, 12, 8)),
    *(_Room(n, 6, 3, 160) for n in (8, 6, 4)),
    *(_Room(2, 3, 2, n) for n in (120, 60, 30)),
    _Room(0, 1, 0, 30),
)
"""Limits from generous to tight; the first that fits is used."""


def write_brief_json(
    result: Result, outlook: "PowerOutlook | None" = None, offline: Sequence[str] = ()
) -> str:
    """Write the decisions, reasons, effects and next steps of an analysis.

    The answer is of the whole experiment, the decisions are of its variants, best first. Lifts are
    fractions; a result that is not to be trusted shows none. What is not shown is counted in
    `left_out`; `full` says where it is. Where models were replayed, `offline` says what each
    variant's promised and what came.

    Example:
        >>> import abeval
        >>> text = write_brief_json(abeval.load("sample_logs/experiment.toml").analyze())
        >>> json.loads(text)["answer"], len(text.encode()) <= 4096
        ({'decision': 'ship', 'action': 'ship', 'use': 'treatment'}, True)
    """
    texts = (write_json_line(_build_content(result, outlook, offline, room)) for room in _ROOMS)
    return next(text for text in texts if len(text.encode()) <= MOST_BYTES)


def write_json_line(content: Mapping[str, object]) -> str:
    r"""Write JSON in one line, escaping what is not printable.

    Example:
        >>> write_json_line({"name": f"数{chr(0x202E)}left"})
        '{"name":"数\\u202eleft"}'
    """
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    # A name from a log must not hide text or turn its direction.
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def _build_content(
    result: Result, outlook: "PowerOutlook | None", offline: Sequence[str], room: _Room
) -> dict[str, object]:
    info = result.experiment
    steps = [(item, recommend_step(result, outlook, item)) for item in sort_verdicts(result)]
    judged = [row for role in ("goal", "guardrail") for row in result.scorecard if row.role == role]
    # Effects of a test that failed its checks would be read all the same.
    visible_rows = judged[: room.effects] if result.trusted else []
    metrics = {metric.name: metric for metric in result.metrics}
    units = [
        f"{fmt.format_count(item.units)} in {fmt.quote_name(item.name)}" for item in info.variants
    ]
    unmet = select_checks(result.trust, "fail", "warn")
    tally = Counter(check.status for check in result.trust)

    def cut(text: str) -> str:
        return text if len(text) <= room.letters else f"{text[: room.letters - 1]}…"

    answers = (
        {
            "decision": _write_decision_code(item),
            "action": step.word,
            "use": {"ship": cut(item.variant), "keep_control": cut(info.control)}.get(step.word),
        }
        for item, step in steps
    )
    return {
        "schema": SCHEMA,
        "experiment": cut(info.display_name),
        "question": cut(info.hypothesis or _write_question(result)),
        "so_far": cut(f"{result.so_far or 'no period is known'}; units: {', '.join(units)}"),
        "answer": next(answers, None),
        "decisions": [
            {
                "variant": cut(item.variant),
                "decision": _write_decision_code(item),
                "action": step.word,
                "why": cut(item.sentence.partition(": ")[2]),
                "would_change": cut(_describe_decision_change(result, item, step.word)),
                "next": cut(step.text),
            }
            for item, step in steps[: room.variants]
        ],
        **({"offline": [cut(line) for line in offline[: room.variants]]} if offline else {}),
        "about_effects": cut(_describe_effects(result, judged, len(visible_rows))),
        "effects": [
            {
                "metric": cut(result.label(row.metric)),
                "variant": cut(row.variant),
                "role": row.role,
                **_summarise_effect(row, metrics.get(row.metric)),
            }
            for row in visible_rows
        ],
        "trust": {
            **{status: tally[status] for status in ("pass", "warn", "fail", "skipped")},
            "unmet": [
                {"check": cut(item.name), "status": item.status, "message": cut(item.message)}
                for item in unmet[: room.checks]
            ],
            "not_checked": f"{tally['skipped']} of {len(result.trust)} checks: /trust says why",
        },
        "left_out": {
            "effects": len(judged) - len(visible_rows),
            "variants": max(len(steps) - room.variants, 0),
            "checks": max(len(unmet) - room.checks, 0),
        },
        "full": {"json": "--json FILE", "at": ["/verdicts", "/scorecard", "/trust", "/notes"]},
    }


def _write_question(result: Result) -> str:
    info = result.experiment
    goals = [metric for metric in result.metrics if metric.role == "goal"]
    names = [variant.name for variant in info.variants]
    treatments = [fmt.quote_name(name) for name in names if name != info.control]
    verb, control = "Is" if len(treatments) == 1 else "Are", fmt.quote_name(info.control)
    by = fmt.join_items([fmt.quote_name(metric.display_name) for metric in goals])
    return f"{verb} {fmt.join_items(treatments)} better than {control} by {by}?"


def _write_decision_code(verdict: Verdict) -> str:
    """Write the decision as a code: its words with underscores."""
    return codes.describe_code(verdict.decision).replace(" ", "_")


def _describe_effects(result: Result, judged: Sequence[Row], visible_count: int) -> str:
    """Describe the effects: their number, interval and p; or why there are none."""
    info = result.experiment
    metrics = len({row.metric for row in judged})
    other_count = len(result.metrics) - metrics
    counted = f"{visible_count} of {len(judged)} effects are here, of {metrics} goals or guardrails"
    counted += f"; {other_count} other metrics are in /scorecard" if other_count else ""
    if not result.trusted:
        return f"withheld, because a check failed: {counted}"
    tests = sum(row.role == "goal" and row.p_adjusted is not None for row in judged)
    after = f"after {info.family.capitalize()} over {tests} tests"
    after = "unadjusted" if info.family == "none" or tests < 2 else after
    draft = "a draft, nothing to decide on: " * bool(result.questions)
    numbers = f"low to high is the {fmt.format_level(info.alpha)} interval, p of goals is {after}"
    return f"{draft}{counted}; {numbers}"


def _summarise_effect(row: Row, metric: MetricInfo | None) -> dict[str, object]:
    """Write the numbers of a row to four digits, with the decisive p."""
    numbers = {"lift": row.lift, "low": row.lift_low, "high": row.lift_high}
    is_absolute = metric is not None and metric.margin is not None and not metric.margin_relative
    # A margin in the metric's unit is compared with the difference.
    if row.lift is None or is_absolute:
        ends = {"low": row.difference_low, "high": row.difference_high}
        numbers = {"difference": row.difference, **ends}
    numbers["p"] = row.p_value if row.p_adjusted is None else row.p_adjusted
    figures = {name: float(f"{x:.4g}") for name, x in numbers.items() if x is not None}
    holds = (
        {"holds_if": _write_guardrail_condition(metric)}
        if metric is not None and row.role == "guardrail"
        else {}
    )
    why = {} if row.reason is None else {"reason": row.reason}
    return {**figures, "good": row.direction, **holds, "status": row.status, **why}


def _write_guardrail_condition(metric: MetricInfo) -> str:
    """Write the condition on the interval under which a guardrail holds."""
    if metric.within is not None:
        return f"the value's interval lies in {fmt.format_range(*metric.within)}"
    if (margin := metric.margin) is None:
        return "better; it has no margin"
    return f"low > {-margin:g}" if metric.direction == "increase" else f"high < {margin:g}"


def _describe_decision_change(result: Result, verdict: Verdict, word: str) -> str:
    """Write what would change the decision."""
    rows = [row for row in result.scorecard if row.variant == verdict.variant]

    def list_metrics(role: Sequence[str], status: Sequence[str]) -> str:
        matches = (row for row in rows if row.role in role and row.status in status)
        return fmt.join_items([fmt.quote_name(result.label(row.metric)) for row in matches][:5])

    held = list_metrics(["guardrail"], ["better", "non_inferior", "equivalent"])
    guard = f", a loss of {held} beyond its margin" if held else ""
    waiting = list_metrics(["goal", "guardrail"], ["unclear", "too_little_data"])
    more = "more data" if word == "run_on" else "a new test, planned for smaller effects,"
    harmed = list_metrics(["goal", "guardrail"], ["worse"])
    failed = [codes.check_name(check.name) for check in result.trust if check.status == "fail"]
    return {
        "ship": (
            f"no gain any more in {list_metrics(['goal'], ['better'])}{guard}, or a failed check"
        ),
        "do_not_ship": f"a new test that shows no harm to {harmed}",
        "keep_running": f"{more} that settles {waiting}" if waiting else "a goal that gets better",
        "do_not_trust": f"the cause of {fmt.join_items(failed[:5])} mended, then a new analysis",
        "draft": "an analysis without open questions",
    }[verdict.decision]
