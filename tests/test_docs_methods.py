"""Every Python example of docs/methods.md runs, one after the other as a reader would."""

import re
from pathlib import Path
from typing import Any

import pytest

from abeval import stats

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/methods.md").read_text(encoding="utf-8")


@pytest.mark.whole
def test_the_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, "docs/methods.md", "exec"), names)  # noqa: S102
    # CTR of .2 against one of 1/3; true effects whose correlation is .8.
    change = names["change"]
    assert (change.control, change.treatment) == (4 / 20, 7 / 21)
    correlation = stats.latent.correlation(names["fitted"])
    assert correlation.low < 0.8 < correlation.high


def test_the_docstring_names_the_public_modules_and_the_page_has_them_all() -> None:
    public = re.findall(r"`([a-z_]+)`", str(stats.__doc__))
    assert sorted(public) == sorted(stats.__all__)
    for name in stats.__all__:
        assert getattr(stats, name).__name__ == f"abeval.stats.{name}"
    with pytest.raises(AttributeError):
        stats.nothing  # noqa: B018
    standing_on = {"moments", "records", "distributions", "replay"}
    standing_on |= {"clusters", "faults", "influence"}
    missing = {name for name in public if f"`{name}" not in PAGE} - standing_on
    assert missing == set()
