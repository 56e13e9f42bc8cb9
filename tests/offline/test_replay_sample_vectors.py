"""Blends, parts and viewports on the sample: numbers of scikit-learn and ir_measures.

`vectors/sample.json` is made of the logs by `tests/offline/sample_vectors.py`, without abeval.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

import abeval
from abeval.results.replay import ReplayResult
from tests.offline.frames import VECTORS
from tests.sample import FILE

pytestmark = pytest.mark.whole


MODELS = {"score_baseline": "baseline", "blend": "blend"}
VIEWPORT = "case device when 'phone' then 5 when 'tablet' then 8 else 10 end"
PARTS = {
    "phone": "device = 'phone'",
    "first week": "time < '2026-09-21'",
    "second week": "time >= '2026-09-21'",
    "top": "position <= 10",
}


@cache
def vectors() -> dict[str, Any]:
    return json.loads((VECTORS / "sample.json").read_text())


@cache
def replayed() -> ReplayResult:
    whole, own = vectors()["whole"]["blend"], vectors()["viewport"]["blend"]
    models = {
        "baseline": {"score": "score_baseline"},
        "blend": {"score": "0.3 * score_candidate + 0.7 * score_baseline"},
    }
    variants = {"control": {"model": "baseline"}, "treatment": {"model": "blend"}}
    loaded = abeval.load(FILE).replace(models=models, variants=variants)
    # Its policy: ids as text between equal scores, zero without a relevant item.
    return loaded.replay(
        metrics=[*whole, *own], k=[f"viewport: {VIEWPORT}"], where=PARTS, compat="trec"
    )


@pytest.mark.parametrize("score", MODELS)
def test_an_alpha_blend_has_the_numbers_of_the_libraries(score: str) -> None:
    for metric, value in vectors()["whole"][score].items():
        row = replayed().row(metric, MODELS[score], "pooled")
        assert row.value == pytest.approx(value, abs=1e-11), metric


@pytest.mark.parametrize("score", MODELS)
@pytest.mark.parametrize("part", PARTS)
def test_splits_stages_and_scenes_have_them_too(part: str, score: str) -> None:
    for metric, value in vectors()["parts"][part][score].items():
        row = replayed().row(metric, MODELS[score], part)
        if row.reason == "k_covers_list":
            assert (part, metric) in (("top", "precision@10"), ("top", "recall@10"))
            continue
        assert row.value == pytest.approx(value, abs=1e-11), metric


@pytest.mark.parametrize("score", MODELS)
def test_k_by_viewport_has_them_too(score: str) -> None:
    for metric, value in vectors()["viewport"][score].items():
        row = replayed().row(metric, MODELS[score], "pooled")
        assert row.value == pytest.approx(value, abs=1e-11), metric
