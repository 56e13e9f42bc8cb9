"""Colours that everyone can tell apart and read: computed, in the light and in the dark page."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from abeval.report.effect_figures import _DIVERGING
from numpy.typing import NDArray

from abeval.report import assets
from abeval.report.figures import COLOURS, GREY, SYMBOLS, TOOLTIP
from tests.report.pages import RESULTS, figures, html

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
    dark = assets.text("style.css").split("@media (prefers-color-scheme: dark) {")[1].split("@")[0]
    texts = {"light": assets.text("tokens.css"), "dark": dark.split("\n}\n")[0]}
    read = {m: dict(re.findall(r"--([\w-]+): (#\w{6})", text)) for m, text in texts.items()}
    assert read["light"].keys() == read["dark"].keys()
    return read


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
    page = TOKENS[mode]
    marks = {*COLOURS, GREY, page["good"], page["bad"], page["warn"], page["muted"]}
    # The line at zero lets some of the page through.
    opacity = float(re.search(r"line\.zero \{[^}]*opacity: ([\d.]+)", assets.text("style.css"))[1])  # type: ignore[index]
    marks.add(mixed(page["muted"], page["bg"], opacity))
    assert {m: contrast(m, page["bg"]) for m in marks if contrast(m, page["bg"]) < 3} == {}
    for word in ("fg", "muted", "good", "bad", "warn"):
        assert contrast(page[word], page["bg"]) >= 4.5, word
    for word in ("good", "bad", "warn"):
        assert contrast(page[word], page[f"{word}-soft"]) >= 4.5, word
        assert contrast(page["fg"], page[f"{word}-soft"]) >= 4.5, word
    for word in ("fg", "muted"):
        assert contrast(page[word], page["plain-soft"]) >= 4.5, word
        assert contrast(page[word], page["panel"]) >= 4.5, word


def test_a_tooltip_can_be_read_on_every_mark() -> None:
    font: Any = TOOLTIP["font"]
    assert contrast(font["color"], str(TOOLTIP["bgcolor"])) >= 4.5
    for mode in TOKENS.values():
        # The label ends where its border is, on the dark page too.
        assert max(contrast(str(TOOLTIP[k]), mode["bg"]) for k in ("bgcolor", "bordercolor")) >= 3


def test_the_dot_of_a_heat_map_shows_on_every_cell() -> None:
    for _, cell in _DIVERGING:
        assert max(contrast(dot, cell) for dot in ("#ffffff", "#1c2430")) >= 3


def drawn(part: Any) -> Iterator[str]:
    """Every opaque colour of a figure's marks and lines."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key != "hoverlabel":
                yield from drawn(value)
    elif isinstance(part, list):
        for value in part:
            yield from drawn(value)
    elif isinstance(part, str) and re.fullmatch(r"#[0-9a-fA-F]{6}", part):
        yield part


@pytest.mark.parametrize("name", [*RESULTS])
def test_every_figure_draws_with_these(name: str) -> None:
    for figure in figures(html(name)).values():
        colours = set(drawn(figure["data"])) | set(drawn(figure["layout"]))
        assert colours <= {*COLOURS, GREY}
        tooltip = figure["layout"]["hoverlabel"]
        assert tooltip["bgcolor"] == TOOLTIP["bgcolor"]
