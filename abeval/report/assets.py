"""What every page of the report is made with: styles, scripts, and the policy that names them."""

import base64
import gzip
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from markupsafe import Markup

HERE = Path(__file__).parent
# Inside a script element these could end it, or open a comment; U+2028/9 end a line of script.
_UNSAFE = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def island(json_text: str) -> Markup:
    r"""JSON text that can stand in a script element whatever its strings say.

    Example:
        >>> print(island('{"a": "</script>"}'))
        {"a": "\u003c/script\u003e"}
    """
    return Markup(json_text.translate(_UNSAFE))  # noqa: S704 (escaped in this line)


def data_url(kind: str, text: str) -> str:
    """A file that the page carries along."""
    data = base64.b64encode(text.encode("utf-8", "backslashreplace")).decode()
    return f"data:{kind};base64,{data}"


def policy(scripts: Sequence[str]) -> str:
    """A content-security policy that names the page's scripts by hash and allows no address."""
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def plotly() -> str:
    """The figure library."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


@cache
def packed_plotly() -> str:
    """The figure library, packed."""
    return base64.b64encode(gzip.compress(plotly().encode(), 9, mtime=0)).decode()


def text(name: str) -> str:
    """A file of this folder."""
    return (HERE / name).read_text(encoding="utf-8")
