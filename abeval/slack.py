"""Write the brief of an analysis as a message for Slack."""

import html
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from abeval.errors import replace_unprintable
from abeval.results import codes
from abeval.results import format as fmt

# Slack refuses a message with a longer text.
_MOST_HEADER = 150
_MOST_TEXT = 3000


def build_message(brief: Mapping[str, Any]) -> dict[str, Any]:
    """Build a Slack message of a brief: header, sections and context (Block Kit).

    Names from logs stay text: they can mention nobody and link nowhere. A longer text than Slack
    takes is cut, with an ellipsis.

    Args:
        brief: What `abeval.brief.brief_json` writes, as a dictionary.

    Returns:
        `text`, for notifications, and `blocks`, as an incoming webhook takes them.

    Example:
        >>> import json
        >>> import abeval
        >>> from abeval.brief import write_brief_json
        >>> result = abeval.load("sample_logs/experiment.toml").analyze()
        >>> message = build_message(json.loads(write_brief_json(result)))
        >>> message["text"], [block["type"] for block in message["blocks"]]
        ('sample: ship treatment', ['header', 'section', 'section', 'context'])
    """
    answer = brief["answer"] or {"decision": "nothing to decide", "use": None}
    shipped = f" {answer['use']}" * (answer["decision"] == "ship")
    title = f"{brief['experiment']}: {codes.describe_code(answer['decision'])}{shipped}"
    trust = brief["trust"]
    counts = ", ".join(f"{trust[name]} {name}" for name in ("pass", "warn", "fail", "skipped"))
    unmet = [f"{check['check']}: {check['message']}" for check in trust["unmet"]]
    context = "\n".join((brief["so_far"], f"Trust checks: {counts}", *unmet))
    header = {"type": "plain_text", "text": _fit(title, _MOST_HEADER, is_escaped=False)}
    texts = filter(None, _write_sections(brief))
    blocks = [
        {"type": "header", "text": header},
        *({"type": "section", "text": _wrap_markdown(text)} for text in texts),
        {"type": "context", "elements": [_wrap_markdown(context)]},
    ]
    return {"text": _fit(title, _MOST_HEADER), "blocks": blocks}


def _write_sections(brief: Mapping[str, Any]) -> Iterator[str]:
    """Write a section for each variant, and one for all effects."""
    for item in brief["decisions"]:
        decision = codes.describe_code(item["decision"]).upper()
        yield f"*{item['variant']}: {decision}* {item['why']}\n*Next:* {item['next']}"
    yield "\n".join(map(_write_effect, brief["effects"])) or brief["about_effects"]


def _write_effect(effect: Mapping[str, Any]) -> str:
    """Write an effect in a line: metric, variant, role, size and status."""
    ends = effect.get("low"), effect.get("high")
    is_absolute = "difference" in effect
    form = fmt.format_difference if is_absolute else fmt.format_lift
    size = form(effect.get("difference" if is_absolute else "lift"), *ends).text
    status = codes.describe_code(effect["status"])
    return f"• {effect['metric']} ({effect['role']}, {effect['variant']}): {size}, {status}"


def _wrap_markdown(text: str) -> dict[str, str]:
    return {"type": "mrkdwn", "text": _fit(text, _MOST_TEXT)}


def _fit(text: str, most: int, is_escaped: bool = True) -> str:
    """Cut a text to what Slack takes, after `&`, `<` and `>` are escaped.

    Example:
        >>> _fit("<!channel> & all", 30), _fit("a long name", 8)
        ('&lt;!channel&gt; &amp; all', 'a long …')
    """
    # An unprintable character could hide text or turn its direction.
    shown = replace_unprintable(text)
    written = [html.escape(char, quote=False) if is_escaped else char for char in shown]
    ends = [*accumulate(map(len, written))]
    if not ends or ends[-1] <= most:
        return "".join(written)
    return "".join(char for char, end in zip(written, ends, strict=True) if end < most) + "…"
