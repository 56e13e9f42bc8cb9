"""A page taken apart by a parser that knows nothing of how it was made."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest

from abeval.report.assets import escape_json
from abeval.report.page import render_study
from abeval.results.analysis import Result
from abeval.results.study import build_study
from tests import builders

VOID = {"meta", "link", "br", "img", "input", "hr", "line", "circle", "path", "rect", "wbr"}
RESULTS = {
    "ship": builders.ship,
    "do_not_ship": builders.do_not_ship,
    "untrusted": builders.untrusted,
    "three_variants": builders.three_variants,
    "refused": builders.refused,
    "hostile": builders.hostile,
}


@dataclass(repr=False)
class Element:
    tag: str
    attributes: dict[str, str]
    inside: tuple[Element, ...]
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(repr=False)  # Elements name their ancestors: a failure would write for minutes.
class Page(HTMLParser):
    """Every element in order, each with its ancestors and all text inside it."""

    elements: list[Element] = field(default_factory=list)
    open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {k: v or "" for k, v in attrs}, tuple(self.open))
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
            self.open.pop()
        if tag in ("td", "th"):
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.pieces.append(data)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        wanted = {k.rstrip("_"): v for k, v in attributes.items()}
        return [
            e
            for e in self.elements
            if e.tag == tag and all(e.attributes.get(k) == v for k, v in wanted.items())
        ]


@cache
def html(name: str) -> str:
    return render_study(build_study(RESULTS[name]()))


@cache
def page(name: str) -> Page:
    return parse(whole(html(name)))


def whole(text: str) -> str:
    """A page with what it builds when it is opened, and its figures where they are drawn."""
    data = packed(text)
    if data is None:
        return text
    text = re.sub(r'<script type="text/plain" id="packed">[^<]*</script>', "", text)
    template = r'<template data-closed="(\d+)"></template>'
    while re.search(template, text):
        text = re.sub(template, lambda place: data["parts"][int(place[1])], text)
    for name, figure in data["figures"].items():
        holder = f'data-figure="{name}"'
        at = text.index("</div>", text.index(holder)) + len("</div>")
        data = escape_json(json.dumps(figure))
        script = f'<script type="application/json" id="{name}">{data}</script>'
        text = f"{text[:at]}{script}{text[at:]}"
    return text


def figures(text: str) -> dict[str, Any]:
    """Id → figure, of a page."""
    data = packed(text)
    drawn = {} if data is None else data["figures"]
    # A page that was made whole has them in place.
    scripts = re.findall(r'<script type="application/json" id="([^"]+)">(.*?)</script>', text)
    drawn |= {name: json.loads(figure) for name, figure in scripts}
    return {name.removeprefix("figure-"): figure for name, figure in drawn.items()}


def packed(text: str) -> dict[str, Any] | None:
    """The closed parts and figures that a page has compressed."""
    match = re.search(r'<script type="text/plain" id="packed">([^<]*)</script>', text)
    if match is None:
        return None
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(match[1])))
    return data


@cache
def result(name: str) -> Result:
    return RESULTS[name]()


def parse(text: str) -> Page:
    parsed = Page()
    parsed.feed(text)
    parsed.close()
    assert not parsed.open, f"left open: {[e.tag for e in parsed.open]}"
    return parsed


def close(numbers: Any) -> Any:
    """Numbers of a figure, to the four digits that a page keeps of them."""
    return pytest.approx(numbers, rel=5e-4)


def words(element: Element) -> str:
    """The text of an element, its layout's blanks collapsed; thin spaces in numbers stay."""
    return re.sub(r"[ \n]+", " ", element.text).strip(" \n")
