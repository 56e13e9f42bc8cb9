"""Styles, scripts and data inside a page, and the security policy that names its scripts.

`templates.py` puts scripts and styles into every page with it; the pages embed their data.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from markupsafe import Markup

HERE = Path(__file__).parent
# In a script element these could end it or open a comment; U+2028 and U+2029 end a line.
_UNSAFE = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def island(json_text: str) -> Markup:
    r"""JSON text that is safe inside a script element, whatever its strings contain.

    Example:
        >>> print(island('{"a": "</script>"}'))
        {"a": "\u003c/script\u003e"}
    """
    return Markup(json_text.translate(_UNSAFE))  # noqa: S704 (escaped in this line)


def packed_url(text: str) -> str:
    """A compressed file inside the page, as a data URL; its scripts hand it out plain."""
    return f"data:application/gzip;base64,{compressed(text)}"


def policy(scripts: Sequence[str]) -> str:
    """A content-security policy that allows these scripts, by hash, and no address."""
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def plotly() -> str:
    """The figure library: plotly.js with the traces that a page draws."""
    return text("plotly/plotly-cartesian.min.js")


@cache
def packed_plotly() -> Markup:
    """The figure library, compressed, in base64."""
    return compressed(plotly())


def text(name: str) -> str:
    """The text of a file in this folder."""
    return (HERE / name).read_text(encoding="utf-8")
