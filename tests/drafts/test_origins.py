"""Files without a header, with odd times, or of one variant each are read as they are written."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.drafts.run import Draft, draft_files

RNG = np.random.default_rng(8)
USERS = np.repeat(np.arange(200), 3)
LOG = pd.DataFrame(
    {
        "user_id": USERS,
        "variant": np.where(USERS % 2 == 0, "control", "new"),
        "item_id": np.tile([11, 12, 13], 200),
        "click": RNG.integers(0, 2, len(USERS)),
        "time": pd.Timestamp("2026-03-01") + pd.to_timedelta(RNG.integers(0, 12, 600), unit="D"),
    }
)
CTR = LOG.groupby("variant").click.mean()


def drafted(folder: Path, *frames: tuple[str, pd.DataFrame], header: bool = True) -> Draft:
    """Write frames as CSV and draft them; `e.toml` of the folder is the draft."""
    for name, frame in frames:
        frame.to_csv(folder / name, index=False, header=header)
    draft = draft_files([folder / name for name, _ in frames], folder)
    (folder / "e.toml").write_text(draft.text)
    return draft


def assert_ctr(folder: Path) -> None:
    row = abeval.load(folder / "e.toml").analyze()["ctr"]
    assert (row.control, row.treatment) == pytest.approx((CTR["control"], CTR["new"]), rel=1e-12)


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M:%S %p"),
        # The 13th shows which is the day: the file needs to say nothing.
        ("%d.%m.%Y %H:%M:%S", None),
    ],
)
def test_a_time_is_read_as_it_is_written(form: str, written: str | None, tmp_path: Path) -> None:
    times = LOG.time + pd.Timedelta("13D10h")
    draft = drafted(tmp_path, ("log.csv", LOG.assign(time=times.dt.strftime(form))))
    assert draft.questions == ()
    assert tomllib.loads(draft.text)["logs"]["impressions"].get("ts_format") == written
    assert_ctr(tmp_path)


def test_days_that_no_value_shows_are_asked(tmp_path: Path) -> None:
    draft = drafted(tmp_path, ("log.csv", LOG.assign(time=LOG.time.dt.strftime("%m/%d/%Y"))))
    (question,) = draft.questions
    assert question.startswith("time: is time written as %m/%d/%Y or %d/%m/%Y?")
    assert_ctr(tmp_path)


def test_a_file_without_a_header_loses_no_row(tmp_path: Path) -> None:
    draft = drafted(tmp_path, ("log.txt", LOG), header=False)
    entries = tomllib.loads(draft.text)
    log = entries["logs"]["impressions"]
    found = (log["header"], entries["unit"], log["columns"]["variant"])
    assert found == ("false", "column0", "column1")
    assert [q for q in draft.questions if not q.startswith("click: does")] == []
    assert_ctr(tmp_path)


def test_names_that_are_years_are_a_header(tmp_path: Path) -> None:
    users = LOG.drop_duplicates("user_id")[["user_id", "variant"]].assign(**{"2026": 5, "2025": 4})
    text = drafted(tmp_path, ("users.csv", users)).text
    assert "header" not in tomllib.loads(text)["logs"]["units"]


def test_a_column_that_one_variant_lacks_is_no_metric(tmp_path: Path) -> None:
    users = pd.DataFrame({"visits": RNG.integers(1, 9, 400), "orders": RNG.integers(0, 3, 400)})
    more = users.assign(revenue=users.orders * 7)
    draft = drafted(tmp_path, ("control_group.csv", more), ("test_group.csv", users))
    entries = tomllib.loads(draft.text)
    assert entries["logs"]["units"]["path"].keys() == {"control", "test"}
    assert "revenue" not in {metric["name"] for metric in entries["metrics"]}
    result = abeval.load(tmp_path / "e.toml").analyze()
    assert result["orders"].control == pytest.approx(users.orders.mean(), rel=1e-12)
