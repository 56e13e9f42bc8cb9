"""Write statuses, decisions, reasons and directions as words."""

from collections.abc import Sequence

from abeval.results.trust import Check

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


def words(code: str) -> str:
    """Write a status, decision or reason as words.

    Example:
        >>> words("non_inferior"), words("too_few_units")
        ('non-inferior', 'too few units')
    """
    return _STATUS_WORDS.get(code, code.replace("_", " "))


UNUSED = "Not used: "
"""Begins the note on logs that nothing reads, which a first screen shows too."""

WITHOUT_SPREAD = ("zero_variance", "all_items_shown")
"""Reasons that more data would not mend."""


def status(code: str, why: str | None) -> str:
    """Write the status of a row as words: what cannot vary does not wait for more data.

    Example:
        >>> status("too_little_data", "too_few_units"), status("too_little_data", "all_items_shown")
        ('too little data', 'does not vary')
    """
    if code == "too_little_data" and why in WITHOUT_SPREAD:
        return "does not vary"
    return words(code)


def reason(code: str | None, units_needed: int | None = None) -> str:
    """Write a reason as words, with the units that would do; empty without one.

    Example:
        >>> reason("too_skewed", 4200)
        "too little data for this metric's skew: 4,200 units in the smaller variant would do"
    """
    if code is None or units_needed is None:
        return words(code or "")
    return f"{words(code)}: {units_needed:,} units in the smaller variant would do"


def check_text(check: Check) -> str:
    """Write what a check measured and, where it does not pass, what to do.

    Example:
        >>> check_text(Check("srm", "warn", 0.005, 0.001, "uneven", remedy="look for lost units"))
        'uneven. What to do: look for lost units'
    """
    if check.status == "pass" or not check.remedy:
        return check.message
    return f"{check.message}. What to do: {check.remedy}"


def check_name(name: str) -> str:
    """Write the name of a check; an abbreviation in words too.

    Example:
        >>> check_name("srm"), check_name("duplicates")
        ('srm (sample ratio mismatch)', 'duplicates')
    """
    return f"{name} (sample ratio mismatch)" if name == "srm" else name


def open_questions(questions: Sequence[str]) -> str:
    """Say which questions of an experiment file nobody has answered; without any, nothing.

    Example:
        >>> open_questions(["unit: is it user_id?", "is a control?"])
        '2 questions are open: (1) unit: is it user_id?; (2) is a control?'
    """
    asked = [" ".join(question.split()).removesuffix(".") for question in questions]
    several = len(asked) > 1
    listed = "; ".join(f"({n}) " * several + one for n, one in enumerate(asked, start=1))
    verb = "questions are" if several else "question is"
    return f"{len(asked)} {verb} open: {listed}" if asked else ""


def direction_words(direction: str) -> str:
    """Write which way is better.

    Example:
        >>> direction_words("decrease"), direction_words("toward 1")
        ('lower is better', 'closer to 1 is better')
    """
    if direction.startswith("toward "):
        return f"closer to {direction.removeprefix('toward ')} is better"
    return "lower is better" if direction == "decrease" else "higher is better"
