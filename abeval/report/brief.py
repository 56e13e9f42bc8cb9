"""Write an analysis in at most 4 kB of JSON, for a program that reads many."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from abeval.report.next_step import action, rank
from abeval.results import Row, Verdict, codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.trust import worst_first

if TYPE_CHECKING:
    from abeval.results.power import PowerOutlook

SCHEMA = "abeval-brief/1"
"""The version of the JSON: another number where a field goes or changes its meaning."""

MOST_BYTES = 4096


class _Room(NamedTuple):
    """How many effects, variants and checks there are, and letters of a text."""

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
"""From much to little: the first that fits is taken."""


def brief_json(result: Result, outlook: "PowerOutlook | None" = None) -> str:
    """Write question, decision, why, effects, trust, what would change it, and the next step.

    Lifts are fractions; a result that is not to be trusted shows none. What is not shown is counted
    in `left_out`; `full` says where it is. Goals come first, then guardrails, and the best variant.

    Example:
        >>> import abeval
        >>> text = brief_json(abeval.load("sample_logs/experiment.toml").analyze())
        >>> json.loads(text)["decisions"][0]["decision"], len(text.encode()) <= 4096
        ('ship', True)
    """
    texts = (json_text(_content(result, outlook, room)) for room in _ROOMS)
    return next(text for text in texts if len(text.encode()) <= MOST_BYTES)


def json_text(content: Mapping[str, object]) -> str:
    r"""Write JSON in one line; what is not printable is escaped, so that no name hides or turns.

    Example:
        >>> json_text({"name": f"数{chr(0x202E)}left"})
        '{"name":"数\\u202eleft"}'
    """
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def _content(result: Result, outlook: "PowerOutlook | None", room: _Room) -> dict[str, object]:
    info = result.experiment
    ordered = sorted(result.verdicts, key=lambda verdict: rank(result, verdict))
    judged = [row for role in ("goal", "guardrail") for row in result.scorecard if row.role == role]
    shown = judged[: room.effects] if result.trusted else []
    unmet = worst_first(result.trust, "fail", "warn")

    def cut(text: str) -> str:
        return text if len(text) <= room.letters else f"{text[: room.letters - 1]}…"

    goals = dict.fromkeys(result.label(row.metric) for row in judged if row.role == "goal")
    others = [variant.name for variant in info.variants if variant.name != info.control]
    question = info.hypothesis or (
        f"{'Is' if len(others) == 1 else 'Are'} {fmt.listing(others)} better than {info.control} "
        f"by {fmt.listing([*goals])}?"
    )
    return {
        "schema": SCHEMA,
        "experiment": cut(info.shown),
        "question": cut(question),
        "so_far": cut("; ".join(filter(None, (info.dates, result.progress)))),
        "decisions": [
            {
                "variant": cut(one.variant),
                "decision": one.decision,
                "why": cut(one.sentence.partition(": ")[2]),
                "would_change": cut(_would_change(result, one)),
                "next": cut(action(result, outlook, one)),
            }
            for one in ordered[: room.variants]
        ],
        "effects": [
            {
                "metric": cut(result.label(row.metric)),
                "variant": cut(row.variant),
                "role": row.role,
                **_effect(row),
            }
            for row in shown
        ],
        "trust": {
            **{
                status: sum(check.status == status for check in result.trust)
                for status in ("pass", "warn", "fail", "skipped")
            },
            "unmet": [
                {"check": cut(one.name), "status": one.status, "message": cut(one.message)}
                for one in unmet[: room.checks]
            ],
        },
        "left_out": {
            "effects": len(judged) - len(shown),
            "variants": max(len(ordered) - room.variants, 0),
            "checks": max(len(unmet) - room.checks, 0),
        },
        "full": {"json": "--json FILE", "at": ["/verdicts", "/scorecard", "/trust", "/notes"]},
    }


def _effect(row: Row) -> dict[str, object]:
    """Write the numbers of a row that has them, to four digits, with the p that decides."""
    numbers = {
        "lift": row.lift,
        "low": row.lift_low,
        "high": row.lift_high,
        "difference": row.difference if row.lift is None else None,
        "p": row.p_value if row.p_adjusted is None else row.p_adjusted,
    }
    known = {name: float(f"{one:.4g}") for name, one in numbers.items() if one is not None}
    return {**known, "status": row.status, **({} if row.reason is None else {"reason": row.reason})}


def _would_change(result: Result, verdict: Verdict) -> str:
    """Say what would make another decision of this one."""
    rows = [row for row in result.scorecard if row.variant == verdict.variant]

    def named(role: Sequence[str], status: Sequence[str]) -> str:
        own = (row for row in rows if row.role in role and row.status in status)
        return fmt.listing([result.label(row.metric) for row in own][:5])

    match verdict.decision:
        case "ship":
            held = named(["guardrail"], ["better", "non_inferior", "equivalent"])
            guard = f", harm of {held} beyond its margin" if held else ""
            return f"{named(['goal'], ['better'])} not better any more{guard}, a failed check"
        case "do_not_ship":
            return f"{named(['goal', 'guardrail'], ['worse'])} mended, in a new test"
        case "keep_running":
            waiting = named(["goal", "guardrail"], ["unclear", "too_little_data"])
            return f"more data on {waiting}" if waiting else "a goal that gets better"
        case "do_not_trust":
            failed = [check.name for check in result.trust if check.status == "fail"]
            return f"{fmt.listing(failed[:5])} explained or mended"
        case "draft":
            return codes.open_questions(result.questions)
