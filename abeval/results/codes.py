"""Describe codes of statuses, decisions, reasons and directions in words."""

from collections.abc import Sequence

from abeval.results.trust import Check, Decision, Verdict

# Codes that are not simply words with underscores.
_STATUS_WORDS = {
    "non_inferior": "non-inferior",
    "too_little_data": "too little data",
    "do_not_ship": "do not ship",
    "keep_running": "undecided",
    "do_not_trust": "do not trust",
    "all_items_shown": "every item is shown in both variants",
    "zero_variance": "nothing varies",
    "too_skewed": "too little data for this metric's skew",
    "clustered": "not analysed by clusters of units",
    "switched": "not a ratio of sums over rows, which slots of time need",
}


def describe_code(code: str) -> str:
    """Describe the code of a status, decision or reason in words.

    Example:
        >>> describe_code("non_inferior"), describe_code("too_few_units")
        ('non-inferior', 'too few units')
    """
    return _STATUS_WORDS.get(code, code.replace("_", " "))


UNUSED = "Not used: "
"""Begins the note on unused logs; the first screen of a page shows it too."""

WITHOUT_SPREAD = ("zero_variance", "all_items_shown")
"""Reasons that more data would not change."""


def describe_status(code: str, why: str | None) -> str:
    """Describe a row's status in words; more data does not help if nothing varies.

    Example:
        >>> describe_status("too_little_data", "too_few_units")
        'too little data'
        >>> describe_status("too_little_data", "all_items_shown")
        'does not vary'
    """
    # More data would not help.
    if code == "too_little_data" and why in WITHOUT_SPREAD:
        return "does not vary"
    return describe_code(code)


def describe_reason(code: str | None, units_needed: int | None = None) -> str:
    """Describe a reason in words, with the units needed; empty without one.

    Example:
        >>> describe_reason("too_skewed", 4200)
        "too little data for this metric's skew: 4,200 units in the smaller variant would do"
    """
    if code is None or units_needed is None:
        return describe_code(code or "")
    return f"{describe_code(code)}: {units_needed:,} units in the smaller variant would do"


def check_text(check: Check) -> str:
    """Describe what a check measured and, if it fails, what to do.

    Example:
        >>> check_text(Check("srm", "warn", 0.005, 0.001, "uneven", remedy="look for lost units"))
        'uneven. What to do: look for lost units'
    """
    if check.status == "pass" or not check.remedy:
        return check.message
    return f"{check.message}. What to do: {check.remedy}"


def check_name(name: str) -> str:
    """Return a check's name, with its abbreviation spelled out.

    Example:
        >>> check_name("srm"), check_name("duplicates")
        ('srm (sample ratio mismatch)', 'duplicates')
    """
    return f"{name} (sample ratio mismatch)" if name == "srm" else name


def open_questions(questions: Sequence[str], most: int | None = None) -> str:
    """Describe the open questions of an experiment file; empty without any.

    After the first `most`, the others are counted.

    Example:
        >>> open_questions(["unit: is it user_id?", "is a control?"])
        '2 questions are open: (1) unit: is it user_id?; (2) is a control?'
        >>> open_questions(["unit: is it user_id?", "is a control?"], 1)
        '2 questions are open: (1) unit: is it user_id?; and 1 more question'
    """
    texts = [" ".join(question.split()).removesuffix(".") for question in questions]
    several = len(texts) > 1
    numbered = "; ".join(f"({n}) " * several + text for n, text in enumerate(texts[:most], start=1))
    if most is not None and most < len(texts):
        left = len(texts) - most
        numbered += f"; and {left} more question{'s' * (left > 1)}"
    verb = "questions are" if several else "question is"
    return f"{len(texts)} {verb} open: {numbered}" if texts else ""


def build_verdict(
    variant: str, decision: Decision, clause: str, notes: Sequence[str] = ()
) -> Verdict:
    """Write a verdict: the decision and why, then what to bear in mind.

    Example:
        >>> build_verdict("b", "ship", "ctr is better", ["duplicates warned"]).sentence
        'SHIP: ctr is better. Note: duplicates warned.'
    """
    ended = clause if clause.endswith(("?", "…")) else f"{clause}."
    sentence = f"{describe_code(decision).upper()}: {ended} {write_notes(notes)}".rstrip()
    return Verdict(variant, decision, sentence, tuple(notes))


def write_notes(notes: Sequence[str]) -> str:
    """Write what to bear in mind as a sentence; empty without notes."""
    label = "" if not notes or notes[0].startswith("Caution: ") else "Note: "
    return f"{label}{'; '.join(notes)}." if notes else ""


def write_reason(verdict: Verdict, without: Sequence[str] = ()) -> str:
    """Write the reason of a verdict, without its decision and the notes `without`."""
    reason = verdict.sentence.partition(": ")[2].removesuffix(write_notes(verdict.notes))
    left = write_notes([note for note in verdict.notes if note not in without])
    return f"{reason.rstrip()} {left}".rstrip()


def describe_direction(direction: str) -> str:
    """Describe which direction is better.

    Example:
        >>> describe_direction("decrease"), describe_direction("toward 1")
        ('lower is better', 'closer to 1 is better')
    """
    if direction.startswith("toward "):
        return f"closer to {direction.removeprefix('toward ')} is better"
    return "lower is better" if direction == "decrease" else "higher is better"
