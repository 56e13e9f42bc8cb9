"""The Jinja templates of every page, with their filters.

`page.py` and the parts hand over the name of a template and its values.
"""

import re
from functools import cache

import jinja2
from markupsafe import Markup

from abeval.report import assets
from abeval.results import MetricInfo, codes
from abeval.results import format as fmt

_DIRECTIONS = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD)
"""Unicode's marks of embedding, override and isolation → the replacement character."""

_NUMBER = re.compile(r"[<+\-\u2212]?\d[\d.,\u202f]*(e-?\d+)?( ?%| pp)?")


def render(template: str, **values: object) -> str:
    """A filled template of this folder; every value is escaped.

    A mark that turns the direction of writing is shown as a replacement: a name must not reorder
    what stands beside it.
    """
    return _environment().get_template(template).render(**values).translate(_DIRECTIONS)


def render_page(template: str, *, draws: bool, **values: object) -> str:
    """A whole page with styles, scripts and their policy; Plotly only if it draws figures."""
    return assets.pack(whole_page(template, draws=draws, **values))


def whole_page(template: str, *, draws: bool, **values: object) -> str:
    """The page before what is closed in it is compressed."""
    boot = "".join(assets.text(name) for name in ("choose.js", "long.js", "boot.js"))
    return render(
        template,
        policy=assets.policy((assets.plotly(), boot) if draws else (boot,)),
        style=Markup(assets.text("tokens.css") + assets.text("style.css")),  # noqa: S704 (our own file)
        boot=Markup(boot),  # noqa: S704 (our own files)
        plotly=assets.packed_plotly() if draws else "",
        **values,
    )


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(assets.HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "num": fmt.typographic,
        "count": lambda number: fmt.typographic(fmt.count(number)),
        "percent": fmt.percent,
        "share": lambda number: fmt.MISSING if number is None else fmt.percent(number),
        "part": _part,
        "p": fmt.p_value,
        "sig": _significant,
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "words": codes.words,
        "direction": codes.direction_words,
        "moment": lambda text: text.removesuffix(" 00:00:00"),
        "margin": _margin,
        "measure": _measure,
        "split_verdict": _split_verdict,
    }
    environment.tests["numeric"] = lambda text: _NUMBER.fullmatch(text) is not None
    return environment


def _part(some: int, of: int) -> str:
    """A share in per cent; 100 % only if it is all of them."""
    if not of:
        return fmt.MISSING
    return fmt.percent(1.0) if some == of else f"{min(100 * some / of, 99.99):.2f}%"


def _significant(number: float | None, digits: int = 3) -> str:
    return fmt.MISSING if number is None else fmt.typographic(f"{number:.{digits}g}")


def _margin(metric: MetricInfo) -> str:
    return fmt.margin(metric.margin or 0.0, bool(metric.margin_relative), metric.unit)


def _measure(value: float | None) -> str:
    return "" if value is None else fmt.typographic(f"{value:.3g}")


def _split_verdict(sentence: str) -> tuple[str, str]:
    word, _, rest = sentence.partition(": ")
    return word, rest
