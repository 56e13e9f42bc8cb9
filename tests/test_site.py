"""The site: it builds with every link checked, and its search answers what people ask."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")
pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium"),
    pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="no zensical"),
]

QUESTIONS = {
    "peeking": "docs/peeking.html",
    "outliers": "docs/outliers.html",
    "revenue": "docs/outliers.html",
    "duplicates": "docs/trust.html#duplicates|docs/experiment-file.html#how-rows",
    "sample ratio mismatch": "docs/trust.html#sample-ratio",
    "bots": "docs/trust.html#duplicates-bots",
    "segments": "docs/many-metrics.html#segments",
    "sequential testing": "docs/peeking.html",
    "power": "docs/planning.html",
    "interleaving": "docs/interleaving.html",
    "gauc": "docs/methods.html#gauc",
    "ndcg without relevant items": "docs/methods.html#lists-without-relevant",
    "slack": "docs/programs.html#slack",
    "ci": "docs/programs.html",
    "holdout": "docs/experiment-file.html#assignment|docs/.*holdout",
    "novelty effect": "docs/time.html#novelty",
    "ratio metrics": "docs/many-metrics.html#ratio",
    "cuped": "docs/planning.html#cuped",
    "multiple variants": "docs/many-metrics.html#multiple-variants",
    "spark": "docs/data.html#spark",
}
"""What people type into the search box, and where the answer is."""

SEARCH = """async questions => {
    const worker = new Worker(WORKER);
    const ask = message => new Promise(done => {
        worker.onmessage = reply => done(reply.data);
        worker.postMessage(message);
    });
    const index = await (await fetch("search.json")).json();
    await ask({type: 0, data: index});
    const filter = {
        input: {type: "operator", data: {operator: "and", operands: []}},
        aggregation: {input: [{type: "term", data: {field: "tags"}}]},
    };
    const found = [];
    for (const input of questions) {
        const {items} = (await ask({type: 2, data: {input, filter}})).data;
        found.push(items.length ? index.items[items[0].id].location : "");
    }
    return found;
}"""
"""What the page does when somebody types, by the worker that the site has."""


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[Path, str]]:
    from benchmarks.site import build_site

    folder = build_site()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_it_has_the_sample_and_the_schemas(site: tuple[Path, str]) -> None:
    folder, _ = site
    assert "Roll out treatment" in (folder / "sample.html").read_text(encoding="utf-8")
    for name in ("experiment", "result"):
        schema = json.loads((folder / f"{name}.schema.json").read_text(encoding="utf-8"))
        assert schema["properties"]
    assert '<a href="sample.html">open it</a>' in (folder / "index.html").read_text("utf-8")


def test_its_search_answers_eighteen_of_twenty_questions_first(site: tuple[Path, str]) -> None:
    folder, address = site
    (worker,) = (folder / "assets/javascripts/workers").glob("search.*.js")
    script = SEARCH.replace("WORKER", json.dumps(str(worker.relative_to(folder))))
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(address)
        found = dict(zip(QUESTIONS, page.evaluate(script, [*QUESTIONS]), strict=True))
        browser.close()
    wrong = {asked: hit for asked, hit in found.items() if not re.match(QUESTIONS[asked], hit)}
    assert len(QUESTIONS) == 20
    assert len(wrong) <= 2, wrong
