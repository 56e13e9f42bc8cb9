"""The table of docs/offline.md: every line has its call, and its number by hand on a tiny log."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.agreement.causes import CAUSES
from abeval.cli.main import app
from abeval.experiment.metrics import named_metrics
from abeval.experiment.model import Experiment
from abeval.offline.metrics import DEFINITIONS
from abeval.offline.replay import ReplayOptions
from tests.offline.test_replay import small

PAGE = Path(__file__).parents[1] / "docs" / "offline.md"

TRUTH = pd.DataFrame(
    {
        "request_id": [1] * 4 + [2] * 4,
        "unit_id": [1] * 4 + [2] * 4,
        "item_id": list("abcdefgh"),
        "grade": [1, 0, 1, 0, 0, 1, 0, 0],
        "screen": ["phone"] * 4 + ["desktop"] * 4,
        "split": ["train"] * 4 + ["test"] * 4,
    }
)
RUN = TRUTH[["request_id", "item_id"]].assign(score=[0.8, 0.6, 0.4, 0.2] * 2)
PAST = pd.DataFrame({"unit_id": [1, 2], "item_id": ["a", "e"]})


def lines(head: str) -> list[list[str]]:
    """The cells of the table whose first line has this head."""
    text = PAGE.read_text(encoding="utf-8").split(head)[1].split("\n\n")[0]
    return [row.strip("|").split("|") for row in text.splitlines()[2:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


NUMBERS = [
    (name, value)
    for _, calls, values in lines("|asked|metric")
    for name, value in zip(names(calls), values.split(), strict=True)
]


@pytest.fixture(scope="module")
def found() -> dict[str, float | None]:
    metrics = [name for name, _ in NUMBERS]
    return abeval.evaluate(RUN, TRUTH, metrics=metrics, history=PAST, threshold=0.5).values()


@pytest.mark.parametrize(("name", "value"), NUMBERS)
def test_each_metric_is_the_number_computed_by_hand(
    found: dict[str, float | None], name: str, value: str
) -> None:
    # Sums are kept to 1e-12; logarithms are written with up to five digits.
    written = len(value.partition(".")[2])
    near = 0.51 * 10**-written if written > 3 else 1e-10
    assert found[name] == pytest.approx(float(Fraction(value)), abs=near)


def parts() -> None:
    """The first hit of the list of the test split is its second item."""
    given: dict[str, Any] = {"metrics": ["mrr"], "where": {"test": "split = 'test'"}}
    assert abeval.evaluate(RUN, TRUTH, **given).result.row("mrr", None, "test").value == 1 / 2


def viewport() -> None:
    """One hit in one place of the phone, one in two of the desktop."""
    k = ["viewport: case when screen = 'phone' then 1 else 2 end"]
    found = abeval.evaluate(RUN, TRUTH, metrics=["precision@viewport"], k=k)
    assert found.values() == {"precision@viewport": 3 / 4}


def curve() -> None:
    """DCG is 1 and 0, then 1 and .63093, then 1.5 and .63093."""
    found = abeval.evaluate(RUN, TRUTH, metrics=["dcg@2[lin]"], curve=3).result.curves[0]
    second = 1 / np.log2(3)
    values = [1 / 2, (1 + second) / 2, (1.5 + second) / 2]
    assert [point.value for point in found.points] == pytest.approx(values)
    assert found.mean == pytest.approx(sum(values) / 3)


def blend() -> None:
    """Four parts of the turned score and one of the score turn the lists: 1/2 and 1/3."""
    log = TRUTH.merge(RUN).assign(turned=1 - RUN["score"])
    score = {"blend": "0.8 * turned + 0.2 * score"}
    assert abeval.evaluate_log(log, score, metrics=["mrr"]).values() == {
        "mrr": pytest.approx(5 / 12)
    }


def online() -> None:
    """Users of control click none or two of four rows, those of treatment one or three."""
    clicks = {"x": (0, 2), "y": (1, 3)}
    rows = [
        (
            f"{variant}{user}",
            variant,
            f"{variant}{user}",
            item,
            int(item < clicks[variant][user % 2]),
            0.5,
            0.5,
        )
        for user in range(20)
        for variant in "xy"
        for item in range(4)
    ]
    loaded, logs = small(rows, metrics=[{"name": "ctr", "role": "goal"}], trust={"aa_runs": 0})
    row = loaded.analyze(logs=logs)["ctr"]
    assert (row.control, row.treatment, row.lift) == pytest.approx((1 / 4, 1 / 2, 1.0))


def metric(name: str) -> None:
    assert name.partition("@")[0] in {key for key, _ in DEFINITIONS}


def of_scorecard(name: str) -> None:
    entries: dict[str, Any] = {"metrics": [{"name": name, "role": "goal"}]}
    loaded, _ = small([], **entries)
    assert [one.name for one in named_metrics(loaded.experiment)] == [name]


def entry(name: str) -> None:
    """A table of the experiment file, and a key in it."""
    table, _, key = name.partition("] ")
    assert re.findall(r"[a-z]+", table)[0] in Experiment.model_fields
    reference = (PAGE.parent / "experiment-file.md").read_text(encoding="utf-8")
    assert table.rstrip("]") in reference
    assert f"`{key}`" in reference or key in reference


def option(name: str) -> None:
    assert name.partition("=")[0] in ReplayOptions.__annotations__


def command(name: str) -> None:
    assert name in {one.name or one.callback.__name__ for one in app.registered_commands}  # type: ignore[union-attr]


CHECKS: dict[str, tuple[Callable[..., None], ...]] = {
    "where": (option, parts),
    'k="NAME: EXPRESSION"': (option, viewport),
    "curve": (option, curve),
    "[models.NAME] score": (entry, blend),
    "[logs.scores] query": (entry,),
    'relevance="similarity"': (option,),
    **dict.fromkeys(("ild@k[category]", "ild@k[vectors]", "personalisation@k"), (metric,)),
    "serendipity@k": (metric,),
    "ctr": (of_scorecard, online),
    **dict.fromkeys(("clicks_per_user", "impressions_per_user", "dwell_per_user"), (of_scorecard,)),
    **dict.fromkeys(("novelty", "serendipity"), (of_scorecard,)),
    **dict.fromkeys(("[segments]", "[cuts]", "[assignment]"), (entry,)),
    "audit": (command,),
}


@pytest.mark.parametrize("name", [one for row in lines("|asked|call|") for one in names(row[1])])
def test_each_call_is_there(name: str) -> None:
    for check in CHECKS[name]:
        takes_name = check in (option, entry, metric, of_scorecard, command)
        check(name) if takes_name else check()


def test_every_cause_is_checked_by_agree() -> None:
    listed = [one for row in lines("|cause|") for one in names(row[1])]
    assert len(listed) == len(set(listed)) >= 17
    assert set(listed) <= {check.name for check in CAUSES}
