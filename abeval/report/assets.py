"""Fill templates, and pack styles, scripts and data into a page."""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup, escape

from abeval.report.tables import (
    ROLES,
    choose_decisive_p,
    format_lift,
    format_margin,
    write_all_digits,
)
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import MetricInfo

if TYPE_CHECKING:
    import jinja2

_CLOSED, _END = "<!--closed-->", "<!--/closed-->"
"""Marks around what the browser builds only when it is opened."""

_PLACE = "<!--packed-->"
"""Where the compressed parts go."""

_ISLAND = re.compile(
    r'<script type="application/json" id="([^"]+)">(.*?)</script>\n?', flags=re.DOTALL
)


class Packed(NamedTuple):
    """A page without its closed parts: a numbered template stands for each.

    `parts` are by number, and may hold the templates of others; `figures` are id → JSON text.
    """

    page: str
    parts: tuple[str, ...]
    figures: dict[str, str]


def pack(page: str) -> str:
    """Compress the closed parts and figures of a page into one data script."""
    open_page, parts, figures = _take_apart(page)
    if not parts and not figures:
        return open_page.replace(_PLACE, "")
    figure_texts = ",".join(f"{json.dumps(name)}:{text}" for name, text in figures.items())
    data = f'{{"parts":{json.dumps(parts)},"figures":{{{figure_texts}}}}}'
    script = f'<script type="text/plain" id="packed">{_compress(data)}</script>'
    return open_page.replace(_PLACE, script)


def _take_apart(page: str) -> Packed:
    """Split a page into its open text, its closed parts and its figures.

    Names of the user are escaped in a page, so that none can be a comment or end a script.

    Example:
        >>> _take_apart("a<!--closed-->b<!--/closed-->c")
        Packed(page='a<template data-closed="0"></template>c', parts=('b',), figures={})
    """
    figures: dict[str, str] = dict(_ISLAND.findall(page))
    open_texts: list[list[str]] = [[]]
    parts: list[str] = []
    # Closed parts may be nested: the innermost one ends first.
    for token in re.split(f"({_CLOSED}|{_END})", _ISLAND.sub("", page)):
        if token == _CLOSED:
            open_texts.append([])
        elif token == _END:
            part = "".join(open_texts.pop())
            open_texts[-1].append(f'<template data-closed="{len(parts)}"></template>')
            parts.append(part)
        else:
            open_texts[-1].append(token)
    return Packed("".join(open_texts[0]), tuple(parts), figures)


def _compress(text: str) -> Markup:
    """Compress text to base64 of gzip, the same on every run."""
    # Without a time in its header, the same page always has the same bytes.
    return _encode(gzip.compress(text.encode("utf-8", "backslashreplace"), 9, mtime=0))


def _encode(data: bytes) -> Markup:
    return Markup(base64.b64encode(data).decode())  # noqa: S704 (base64 has no markup)


_HERE = Path(__file__).parent
# In a script element these could end it or open a comment; U+2028 and U+2029 end a line.
_UNSAFE = "<>&\u2028\u2029"


def escape_json(json_text: str) -> Markup:
    r"""Escape JSON so that it is safe inside a script element.

    Example:
        >>> print(escape_json('{"a": "</script>"}'))
        {"a": "\u003c/script\u003e"}
    """
    # A replacement of each is many times as fast as one `translate`.
    for char in _UNSAFE:
        json_text = json_text.replace(char, f"\\u{ord(char):04x}")
    return Markup(json_text)  # noqa: S704 (escaped above)


def write_security_policy(scripts: Sequence[str]) -> str:
    """Write a content-security policy that allows only these scripts, by hash."""
    digests = (_encode(hashlib.sha256(script.encode()).digest()) for script in scripts)
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@cache
def read_plotly() -> str:
    """Read plotly.js, the build with the basic traces."""
    return gzip.decompress(_read_plotly_gzip()).decode()


def _read_plotly_gzip() -> bytes:
    """Read the compressed script of Plotly that comes with abeval."""
    # The file is compressed already, because this takes longer than all the rest of a page.
    return (_HERE / "plotly" / "plotly-basic.min.js.gz").read_bytes()


def read_asset(name: str) -> str:
    """Read a file in this folder."""
    return (_HERE / name).read_text(encoding="utf-8")


def write_page_id(*names: str) -> str:
    """Write names as an id of the page; different names get different ids.

    Example:
        >>> write_page_id("daily", "a b"), write_page_id("daily", "a-b")
        ('daily-a.20.b', 'daily-a.2d.b')
    """
    # Replacing all signs alike would give `a b` and `a-b` one id.
    return "-".join(re.sub(r"[^A-Za-z0-9_]", lambda m: f".{ord(m[0]):x}.", name) for name in names)


_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Unicode's marks of embedding, override and isolation."""

_NUMBER = re.compile(r"[<+\-\u2212]?\d[\d.,\u202f]*(e-?\d+)?( ?%| pp| s| ms| days)?")


_MEASURED = re.compile(
    r"[+\u2212\u00b1]\d[\d.,\u202f]*(?: ?%| pp)?(?: \[[^\]]{1,60}\])?|\[[+\u2212\d][^\]]{1,60}\]"
)


def isolate_numbers(text: str) -> Markup:
    """Isolate the numbers of a sentence from names written right to left.

    Example:
        >>> print(isolate_numbers("a<b +1%"))
        a&lt;b <bdi>+1%</bdi>
    """
    escaped = str(escape(fmt.typeset_numbers(text)))
    # Beside Arabic or Hebrew a browser would move the sign to the other end.
    html = _MEASURED.sub(lambda number: f"<bdi>{number[0]}</bdi>", escaped)
    return Markup(html)  # noqa: S704 (escaped above)


def render(template: str, **values: object) -> str:
    """Fill a template; escape values and remove marks of writing direction."""
    return _DIRECTIONS.sub("\ufffd", _build_environment().get_template(template).render(**values))


def render_block(template: str, **values: object) -> Markup:
    """Fill a template, as a block of a part."""
    return Markup(render(template, **values))  # noqa: S704 (the template escapes)


def fill_macro(template: str, name: str, *values: object) -> Markup:
    """Fill a macro of a template, such as a small drawing."""
    drawn: Markup = getattr(_build_environment().get_template(template).module, name)(*values)
    return drawn


def render_page(template: str, *, has_figures: bool, **values: object) -> str:
    """Write a page with its styles, scripts and policy; Plotly if it has figures."""
    boot = "".join(read_asset(name) for name in ("choose.js", "long.js", "boot.js"))
    page = render(
        template,
        # Plotly is large: a page without figures does without it.
        policy=write_security_policy((read_plotly(), boot) if has_figures else (boot,)),
        style=Markup(read_asset("tokens.css") + read_asset("style.css")),  # noqa: S704 (our own file)
        boot=Markup(boot),  # noqa: S704 (our own files)
        plotly=_encode(_read_plotly_gzip()) if has_figures else "",
        **values,
    )
    return pack(page)


@cache
def _build_environment() -> "jinja2.Environment":
    # The tables of a terminal fill no template.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "said": isolate_numbers,
        "full": write_all_digits,
        "slug": write_page_id,
        "decisive_p": choose_decisive_p,
        "format_lift": format_lift,
        # The page's script unpacks it.
        "packed_url": lambda text: f"data:application/gzip;base64,{_compress(text)}",
        "metric_note": _write_metric_note,
        "num": fmt.typeset_numbers,
        "name": lambda text: escape(text).replace("_", Markup("_<wbr>")),
        "count": lambda number: fmt.typeset_numbers(fmt.format_count(number)),
        "p": fmt.format_p_value,
        "capitalize_first": fmt.capitalize_first,
        "words": codes.describe_code,
        "direction": codes.describe_direction,
        "moment": lambda text: text.removesuffix(" 00:00:00"),
        "margin": lambda metric: format_margin(metric).removeprefix("margin "),
        "level": fmt.format_level,
        "several": lambda rows: len({row.variant for row in rows}) > 1,
        "tone": lambda row: _TONES.get(row.status, "plain"),
        "sig": lambda value: "" if value is None else fmt.typeset_numbers(f"{value:.3g}"),
    }
    environment.globals["role_titles"] = ROLES
    environment.tests["numeric"] = lambda text: _NUMBER.fullmatch(text) is not None
    return environment


_TONES = {"better": "good", "non_inferior": "good", "worse": "bad", "untrusted": "bad"}


def _write_metric_note(metric: MetricInfo) -> str:
    """Write unit and direction, as shown under a metric's name."""
    unit = f"{metric.unit}, " if metric.unit and metric.unit not in fmt.RATE_UNITS else ""
    return f"{unit}{codes.describe_direction(metric.direction)}"
