"""Look up the usual meaning of names: columns, variants, files, types of rows."""

import re
from collections.abc import Collection, Mapping
from functools import cache

from abeval.packaged import load_toml_next_to

_TABLE = load_toml_next_to(__file__, "words.toml")

LISTS: Mapping[str, Mapping[str, int]] = {
    role: {word.replace("_", ""): rank for rank, word in enumerate(text.split())}
    for role, text in _TABLE.items()
}
"""Role → its words and their ranks; the first ones are the clearest."""


@cache
def split(name: str) -> tuple[str, ...]:
    """Split a name into words, in lower case.

    >>> split("testGroup-ID 2")
    ('test', 'group', 'id', '2')
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    # Vowels of Hindi and Bengali are marks of their own.
    return tuple(part for part in re.split(r"(?:[^\w\u0900-\u0dff]|_)+", spaced.lower()) if part)


def join_words(name: str) -> str:
    """Join the words of a name into one.

    >>> join_words("context.userID")
    'userid'
    """
    # Of a field such as `context.user_id` the last part counts; RecBole writes `user_id:token`.
    return "".join(split(name.rsplit(".", 1)[-1].partition(":")[0]))


def is_role_name(name: str, *roles: str) -> bool:
    """Tell whether a name, however written, is in the list of a role.

    >>> is_role_name("UserID", "unit"), is_role_name("number of users", "unit")
    (True, False)
    """
    return any(join_words(name) in LISTS[role] for role in roles)


def mentions_role(name: str, *roles: str) -> bool:
    """Tell whether a name, or one of its words, is in the list of a role.

    >>> mentions_role("revenue_before", "before"), mentions_role("prefix", "before")
    (True, False)
    """
    name_words = {join_words(name), *split(name)}
    return any(name_words & LISTS[role].keys() for role in roles)


def split_yes_no(values: Collection[str]) -> tuple[list[str], list[str]] | None:
    """Split values into spellings of yes and of no; None if a value is neither.

    >>> split_yes_no(["Yes", "no", "NO"]), split_yes_no(["yes", "maybe"]), split_yes_no(["yes"])
    ((['Yes'], ['no', 'NO']), None, None)
    """
    yes, no = (
        [v for v in values if v.strip().lower() in LISTS[answer]] for answer in ("yes", "no")
    )
    return (yes, no) if yes and no and len(yes) + len(no) == len(values) else None


def slugify_name(name: str) -> str:
    """Make the name of a metric from the name of a column.

    >>> slugify_name("Total ads"), slugify_name("7-day revenue")
    ('total_ads', 'x_7_day_revenue')
    """
    joined = "_".join(part for part in split(name) if part.isascii()) or "value"
    return joined if joined[0].isalpha() else f"x_{joined}"


def choose_name(taken: set[str], *names: str) -> str:
    """Choose the first free name, else the first name with a number; mark it taken.

    >>> choose_name({"spend", "spend_2"}, "spend")
    'spend_3'
    """
    numbered = (f"{names[0]}_{number}" for number in range(2, len(taken) + 3))
    choice = next(name for name in (*names, *numbered) if name not in taken)
    taken.add(choice)
    return choice
