"""What is closed in a page, and the data of its figures, compressed: built when it is opened.

`templates.py` hands over a whole page. `boot.js` reads what comes back.
"""

import base64
import gzip
import json
import re
from typing import NamedTuple

from markupsafe import Markup

CLOSED, END = "<!--closed-->", "<!--/closed-->"
"""What stands between them is built when its details are opened."""

PLACE = "<!--packed-->"
"""Where the compressed parts go."""

_ISLAND = re.compile(
    r'<script type="application/json" id="([^"]+)">(.*?)</script>\n?', flags=re.DOTALL
)


class Packed(NamedTuple):
    """A page without what is closed.

    Attributes:
        page: The rest; a template with a number stands for each closed part.
        parts: HTML of the closed parts, by number; a part may hold the templates of others.
        figures: Id → JSON text of a figure.
    """

    page: str
    parts: tuple[str, ...]
    figures: dict[str, str]


def pack(page: str) -> str:
    """The page with its closed parts and figures compressed into one script of data."""
    rest, parts, figures = taken_apart(page)
    if not parts and not figures:
        return rest.replace(PLACE, "")
    drawn = ",".join(f"{json.dumps(name)}:{text}" for name, text in figures.items())
    data = f'{{"parts":{json.dumps(parts)},"figures":{{{drawn}}}}}'
    script = f'<script type="text/plain" id="packed">{compressed(data)}</script>'
    return rest.replace(PLACE, script)


def taken_apart(page: str) -> Packed:
    """The page, what is closed in it, and its figures.

    Names of the user are escaped in a page, so that none can be a comment or end a script.

    Example:
        >>> taken_apart("a<!--closed-->b<!--/closed-->c")
        Packed(page='a<template data-closed="0"></template>c', parts=('b',), figures={})
    """
    figures: dict[str, str] = dict(_ISLAND.findall(page))
    open_texts: list[list[str]] = [[]]
    parts: list[str] = []
    for token in re.split(f"({CLOSED}|{END})", _ISLAND.sub("", page)):
        if token == CLOSED:
            open_texts.append([])
        elif token == END:
            part = "".join(open_texts.pop())
            open_texts[-1].append(f'<template data-closed="{len(parts)}"></template>')
            parts.append(part)
        else:
            open_texts[-1].append(token)
    return Packed("".join(open_texts[0]), tuple(parts), figures)


def compressed(text: str) -> Markup:
    """Text as base64 of gzip, the same on every run."""
    data = gzip.compress(text.encode("utf-8", "backslashreplace"), 9, mtime=0)
    return Markup(base64.b64encode(data).decode())  # noqa: S704 (base64 has no markup)
