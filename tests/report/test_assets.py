"""The figure library inside the page, and what is compressed in it."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode

from plotly.offline import get_plotlyjs_version

from abeval.report import assets


def test_the_library_is_of_the_version_that_plotly_draws_with() -> None:
    head = assets.read_plotly()[:200]
    version = head.partition("plotly.js (basic - minified) v")[2].split()[0]
    # A new major version of the schema would draw other figures; minor ones only add to it.
    assert version.partition(".")[0] == get_plotlyjs_version().partition(".")[0]
    assert "MIT" in head
    assert "MIT" in assets.read_asset("plotly/LICENSE")


def test_packing_loses_nothing() -> None:
    page = (
        'a<details><summary>s</summary><!--closed-->b<script type="application/json" id="f">{"x":1}'
        "</script><details><!--closed-->é<!--/closed--></details><!--/closed--></details><!--packed-->c"
    )
    text = assets.pack(page)
    rest, _, packed = text.partition('<script type="text/plain" id="packed">')
    data = json.loads(gzip.decompress(b64decode(packed.partition("<")[0])))
    assert data["figures"] == {"f": {"x": 1}}
    assert data["parts"] == ["é", 'b<details><template data-closed="0"></template></details>']
    assert rest.endswith('<template data-closed="1"></template></details>')
    assert assets.pack("nothing closed<!--packed-->") == "nothing closed"
    assert assets.pack(page) == text
