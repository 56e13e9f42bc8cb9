"""Colours that everyone can tell apart and read: computed, in the light and in the dark page."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import abeval
from abeval.report import assets
from abeval.report.figures import (
    COLOURS,
    EFFECT_AXIS,
    GREY,
    GRID,
    LAYOUT,
    SYMBOLS,
    choose_colour,
    fade_colour,
    number_variants,
)
from abeval.report.page import render_study
from abeval.results.study import Study
from tests import builders, sample
from tests.report.pages import RESULTS, figures, html, page, result, words

# How a reader without one kind of cones sees linear sRGB: Machado, Oliveira and Fernandes (2009),
# "A Physiologically-based Model for Simulation of Color Vision Deficiency", severity 1.0.
VISION = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
# IEC 61966-2-1: linear sRGB to XYZ, white D65.
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
Vector = NDArray[np.float64]


def linear(colour: str) -> Vector:
    """sRGB of `#rrggbb` without its gamma."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: Vector) -> Vector:
    """CIE L*a*b* (1976) of linear sRGB."""
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / TO_XYZ.sum(axis=1)
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: str, other: str, vision: str) -> float:
    """ΔE of CIE 1976 as it is seen: the straight distance in Lab."""
    seen = [lab(VISION[vision] @ linear(colour)) for colour in (one, other)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def contrast(one: str, other: str) -> float:
    """WCAG 2.2: the contrast ratio of two opaque colours."""
    light, dark = sorted((float(TO_XYZ[1] @ linear(c)) for c in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def mixed(colour: str, below: str, opacity: float) -> str:
    pairs = zip(*([int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in (colour, below)), strict=True)
    return "#" + "".join(f"{round(opacity * a + (1 - opacity) * b):02x}" for a, b in pairs)


def tokens() -> dict[str, dict[str, str]]:
    """Mode → name → colour, of the page's style."""
    dark = (
        assets.read_asset("style.css")
        .split("@media (prefers-color-scheme: dark) {")[1]
        .split("@")[0]
    )
    texts = {"light": assets.read_asset("tokens.css"), "dark": dark.split("\n}\n")[0]}
    read = {m: dict(re.findall(r"--([\w-]+): (#\w{6})", text)) for m, text in texts.items()}
    variants = {f"v{i}" for i in range(len(COLOURS))}
    assert read["light"].keys() - read["dark"].keys() == variants
    assert read["dark"].keys() <= read["light"].keys()
    return {"light": read["light"], "dark": read["light"] | read["dark"]}


TOKENS = tokens()


def test_the_measures_are_those_of_their_sources() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#0072B2", "#ffffff") == pytest.approx(5.19, abs=0.01)
    assert lab(linear("#ff0000")) == pytest.approx([53.24, 80.09, 67.20], abs=0.02)
    # What the palette was before: orange and olive were one colour without red cones.
    assert distance("#C46A00", "#8A7A00", "protanopia") < 1
    for matrix in VISION.values():
        assert matrix.sum(axis=1) == pytest.approx([1, 1, 1], abs=1e-5)  # white stays white


@pytest.mark.parametrize("vision", VISION)
def test_any_two_variants_are_told_apart(vision: str) -> None:
    assert len(set(COLOURS)) == len(set(SYMBOLS)) == 6
    seen = {pair: distance(*pair, vision) for pair in itertools.combinations(COLOURS, 2)}
    closest = min(seen, key=lambda pair: seen[pair])
    assert seen[closest] >= 15, (closest, seen[closest])


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_marks_stand_out_and_words_can_be_read(mode: str) -> None:
    tokens = TOKENS[mode]
    marks = {*COLOURS, GREY, tokens["good"], tokens["bad"], tokens["warn"], tokens["muted"]}
    # The line at zero lets some of the page through.
    opacity = float(
        re.search(r"line\.zero[^{]*\{[^}]*opacity: ([\d.]+)", assets.read_asset("tokens.css"))[1]
    )  # type: ignore[index]
    marks.add(mixed(tokens["muted"], tokens["bg"], opacity))
    assert {m: contrast(m, tokens["bg"]) for m in marks if contrast(m, tokens["bg"]) < 3} == {}
    for word in ("fg", "muted", "good", "bad", "warn"):
        assert contrast(tokens[word], tokens["bg"]) >= 4.5, word
    for word in ("good", "bad", "warn"):
        assert contrast(tokens[word], tokens[f"{word}-soft"]) >= 4.5, word
        assert contrast(tokens["fg"], tokens[f"{word}-soft"]) >= 4.5, word
    for word in ("fg", "muted"):
        assert contrast(tokens[word], tokens["plain-soft"]) >= 4.5, word
        assert contrast(tokens[word], tokens["panel"]) >= 4.5, word


def test_a_tooltip_can_be_read_on_every_mark() -> None:
    label = LAYOUT["hoverlabel"]
    assert contrast(label["font"]["color"], label["bgcolor"]) >= 4.5
    for mode in TOKENS.values():
        # The label ends where its border is, on the dark page too.
        assert (
            max(
                contrast(str(LAYOUT["hoverlabel"][k]), mode["bg"])
                for k in ("bgcolor", "bordercolor")
            )
            >= 3
        )


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_lift_can_be_read_on_every_shade_of_its_cell(mode: str) -> None:
    tokens, shades = TOKENS[mode], set()
    for element in page("three_variants").all("td"):
        if style := element.attributes.get("style", ""):
            shades.add(int(style.removeprefix("--heat:").removesuffix("%")))
    # Up to 20 % and more.
    for shade in {*shades, 10, 38}:
        assert 10 <= shade <= 38
        for word in ("good", "bad"):
            cell = mixed(tokens[word], tokens["bg"], shade / 100)
            assert contrast(tokens["fg"], cell) >= 4.5, (word, shade)


def drawn(part: Any) -> Iterator[str]:
    """Every colour of a figure's marks, lines and fills."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key != "hoverlabel":
                yield from drawn(value)
    elif isinstance(part, list):
        for value in part:
            yield from drawn(value)
    elif isinstance(part, str) and re.fullmatch(r"#[0-9a-fA-F]{6}|rgba?\([\d.,]+\)", part):
        yield part


GREYS = {GREY, GRID, "rgba(0,0,0,0)", "rgba(128,140,160,0.13)"}
"""Of lines of reference, the grid, the page below, weekends."""


@pytest.fixture(scope="module")
def of_all() -> Study:
    """Every kind of figure of a metric."""
    loaded = abeval.load(sample.FILE)
    metrics = ["ctr", "gauc"]
    return Study(
        analysis=sample.analysis(),
        time=loaded.windows(metrics=metrics, by=["weekday", "hour"]),
        aa=loaded.aa(runs=100, metrics=["ctr"]),
    )


@pytest.mark.parametrize("name", [*RESULTS])
def test_every_figure_draws_with_these(name: str) -> None:
    check_colours(html(name))


@pytest.mark.whole
def test_figures_over_time_draw_with_these(of_all: Study) -> None:
    text = render_study(of_all)
    check_colours(text)
    parts = {key.split("-")[0] for key in figures(text)}
    assert {"cumulative", "daily", "windows", "entry", "weekday", "hour", "aa", "srm"} <= parts


def check_colours(text: str) -> None:
    for figure in figures(text).values():
        colours = set(drawn(figure["data"])) | set(drawn(figure["layout"]))
        assert colours <= {*COLOURS, *map(fade_colour, COLOURS), *GREYS}
        tooltip = figure["layout"]["hoverlabel"]
        assert tooltip["bgcolor"] == LAYOUT["hoverlabel"]["bgcolor"]


def test_a_figure_of_effects_has_its_zero_in_grey() -> None:
    assert EFFECT_AXIS["zerolinecolor"] == GREY


def test_the_colours_of_figures_and_of_the_page_are_the_same() -> None:
    light = TOKENS["light"]
    assert [light[f"v{i}"] for i in range(len(COLOURS))] == [one.lower() for one in COLOURS]
    css = assets.read_asset("tokens.css")
    for place in range(12):
        (tone,) = re.findall(rf"\.v{place}\b[^{{}}]*\{{ --tone: var\(--(v\d)\); \}}", css)
        assert light[tone] == choose_colour(place).lower()


@pytest.mark.parametrize("name", ["ship", "three_variants"])
def test_a_variant_has_one_colour_on_all_of_a_page(name: str) -> None:
    """In the forest, in every table, in every figure; control has its own."""
    order = number_variants(result(name).experiment)
    assert order[result(name).experiment.control] == 0
    for variant, place in order.items():
        for cell in page(name).all("td"):
            if "variant" in cell.attributes.get("class", "").split() and words(cell) == variant:
                assert f"v{place}" in cell.attributes["class"].split()
        for glyph in page(name).all("svg"):
            if f", {variant}:" in glyph.attributes.get("aria-label", ""):
                assert f"v{place}" in glyph.attributes["class"].split()
        for figure in figures(html(name)).values():
            for trace in figure["data"]:
                if trace.get("name") == variant:
                    assert trace["marker"]["color"] == choose_colour(place)
                    assert trace.get("line", {}).get(
                        "color", choose_colour(place)
                    ) == choose_colour(place)
                if trace.get("name", "").startswith(f"{variant}, "):
                    assert trace["fillcolor"] == fade_colour(choose_colour(place))


def test_a_variant_keeps_its_colour_where_another_one_is_missing() -> None:
    """A metric that only the second variant has."""
    shown = builders.three_variants()
    alone = tuple(row for row in shown.daily if row.variant == "challenger")
    assert alone
    text = render_study(Study(analysis=replace(shown, daily=alone)))
    trace = figures(text)["daily-ctr"]["data"][0]
    assert trace["marker"]["color"] == choose_colour(
        number_variants(shown.experiment)["challenger"]
    )


def test_no_word_is_written_in_the_colour_of_a_variant() -> None:
    """A mark needs 3:1, a word 4.5:1, which orange on white does not have."""
    css = (
        assets.read_asset("style.css")
        + assets.read_asset("tokens.css")
        + assets.read_asset("summary.css")
    )
    assert re.findall(r"(?<![\w-])color: var\(--(?:tone|v\d)\)", css) == []
