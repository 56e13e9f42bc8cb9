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

from abeval.report.assets import island
from abeval.report.page import page_html
from abeval.results.analysis import Result
from tests import builders

VOID = {"meta", "link", "br", "img", "input", "hr", "line", "circle", "path", "rect"}
RESULTS = {
    "ship": builders.ship,
    "do_not_ship": builders.do_not_ship,
    "untrusted": builders.untrusted,
    "three_variants": builders.three_variants,
    "refused": builders.refused,
    "hostile": builders.hostile,
}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    inside: tuple[Element, ...]
    text: str = ""


@dataclass
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
            element.text += data

    def all(self, tag: str, **attributes: str) -> list[Element]:
        wanted = {k.rstrip("_"): v for k, v in attributes.items()}
        return [
            e
            for e in self.elements
            if e.tag == tag and all(e.attributes.get(k) == v for k, v in wanted.items())
        ]


@cache
def html(name: str) -> str:
    return page_html(RESULTS[name]())


@cache
def page(name: str) -> Page:
    return parse(whole(html(name)))


def whole(text: str) -> str:
    """A page with what it builds when it is opened, and its figures where they are drawn."""
    match = re.search(r'<script type="text/plain" id="packed">([^<]*)</script>', text)
    if match is None:
        return text
    data = json.loads(gzip.decompress(base64.b64decode(match[1])))
    text = text.replace(match[0], "")
    template = r'<template data-closed="(\d+)"></template>'
    while re.search(template, text):
        text = re.sub(template, lambda place: data["parts"][int(place[1])], text)
    for name, figure in data["figures"].items():
        holder = f'data-figure="{name}"'
        at = text.index("</div>", text.index(holder)) + len("</div>")
        script = (
            f'<script type="application/json" id="{name}">{island(json.dumps(figure))}</script>'
        )
        text = f"{text[:at]}{script}{text[at:]}"
    return text


def figures(text: str) -> dict[str, Any]:
    """Id → figure, of a page."""
    scripts = parse(whole(text)).all("script", type="application/json")
    return {e.attributes["id"].removeprefix("figure-"): json.loads(e.text) for e in scripts}


@cache
def result(name: str) -> Result:
    return RESULTS[name]()


def parse(text: str) -> Page:
    parsed = Page()
    parsed.feed(text)
    parsed.close()
    assert not parsed.open, f"left open: {[e.tag for e in parsed.open]}"
    return parsed


def words(element: Element) -> str:
    """The text of an element, its layout's blanks collapsed; thin spaces in numbers stay."""
    return re.sub(r"[ \n]+", " ", element.text).strip(" \n")
