"""The files of a simulated log. DuckDB writes Parquet and turns codes into names.

`run.py` hands it the requests, lists, clicks and items of the simulation; users analyse the folder
that `abeval simulate` leaves.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from abeval.errors import ExperimentError
from abeval.scratch import Scratch
from abeval.simulate.dirt import Clicks, RowDirt
from abeval.simulate.visits import Requests, ServedLists
from abeval.simulate.world import (
    CATEGORIES,
    COUNTRIES,
    DEVICES,
    FIRST_USER,
    LIST_LENGTH,
    PRE_START,
    VARIANTS,
    Catalogue,
    Ints,
)

WRITTEN = ("impressions", "clicks.parquet", "items.parquet", "experiment.toml", "truth.json")

# A code of -1 is index 0, before the first name of a list, and becomes null.
_IMPRESSIONS = """
copy (
    select
        impression_id,
        request_id,
        case when user_code >= 0 then 'u' || lpad(cast(user_code as varchar), 7, '0') end
            as user_id,
        item_id,
        time,
        ($variants)[variant_code + 1] as variant,
        cast(position as integer) as position,
        ($devices)[device_code + 1] as device,
        ($countries)[country_code + 1] as country,
        case when not isnan(score_baseline) then score_baseline end as score_baseline,
        case when not isnan(score_candidate) then score_candidate end as score_candidate
    from chunk
) to $file (format parquet, compression zstd)
"""
_CLICKS = """
copy (
    select impression_id, time, case when dwell >= 0 then dwell end as dwell_ms
    from chunk
) to $file (format parquet, compression zstd)
"""
_ITEMS = """
copy (
    select item_id, ($categories)[category_code + 1] as category
    from chunk
    order by item_id
) to $file (format parquet, compression zstd)
"""


@contextmanager
def filled_folder(folder: Path, names: tuple[str, ...] = WRITTEN) -> Iterator[Path]:
    """A temporary folder whose contents, of these names, move into ``folder`` at the end.

    If the simulation fails, ``folder`` is unchanged. Files of an earlier simulation are replaced;
    other files of the same names are an error.
    """
    _check(folder, names)
    folder.mkdir(parents=True, exist_ok=True)
    with closing(Scratch(folder, ".simulating-")) as scratch:
        yield scratch.path
        for name in names:
            _replace(scratch.path / name, folder / name)


def write_impressions(
    path: Path, requests: Requests, countries: Ints, first: int, lists: ServedLists, dirt: RowDirt
) -> None:
    """Write one file of impressions: the lists of requests, the first of them number ``first``."""
    n = len(requests.user)
    index = np.arange(first * LIST_LENGTH, (first + n) * LIST_LENGTH)
    lost = np.isin(index, dirt.unscored, assume_unique=True)
    rows = {
        "impression_id": index + 1,
        "item_id": lists.item.ravel(),
        "position": np.tile(np.arange(1, LIST_LENGTH + 1), n),
        "score_baseline": np.where(lost, np.nan, lists.score_baseline.ravel()),
        "score_candidate": np.where(lost, np.nan, lists.score_candidate.ravel()),
    }
    per_request = {
        "request_id": np.arange(first, first + n) + 1,
        "user_code": np.where(requests.anonymous, -1, FIRST_USER + requests.user),
        "variant_code": requests.variant,
        "device_code": requests.device,
        "country_code": countries[requests.user],
        "time": timestamps(requests.at),
    }
    rows |= {name: np.repeat(column, LIST_LENGTH) for name, column in per_request.items()}
    copies = 1 + np.isin(index, dirt.duplicates, assume_unique=True)
    chunk = pd.DataFrame({name: np.repeat(column, copies) for name, column in rows.items()})
    names = {"variants": list(VARIANTS), "devices": list(DEVICES), "countries": list(COUNTRIES)}
    copy_frame(_IMPRESSIONS, chunk, path, names)


def write_clicks(path: Path, clicks: Clicks, impressions: int) -> None:
    """Write all clicks; those without an impression get ids that no impression has."""
    index = np.where(clicks.impression < 0, impressions - clicks.impression - 1, clicks.impression)
    times = timestamps(clicks.at)
    chunk = pd.DataFrame({"impression_id": index + 1, "time": times, "dwell": clicks.dwell})
    copy_frame(_CLICKS, chunk, path, {})


def write_items(path: Path, catalogue: Catalogue) -> None:
    """Write the catalogue."""
    codes = {"item_id": catalogue.item_id, "category_code": catalogue.category}
    copy_frame(_ITEMS, pd.DataFrame(codes), path, {"categories": list(CATEGORIES)})


def _check(folder: Path, names: tuple[str, ...]) -> None:
    if folder.exists() and not folder.is_dir():
        raise ExperimentError(f"{folder} is a file", hint="name a folder")
    foreign = [name for name in names if (folder / name).exists()]
    if foreign and "truth.json" not in foreign:
        raise ExperimentError(
            f"{folder} contains {foreign[0]}, which simulate did not write",
            hint="name a new folder",
        )


def _replace(new: Path, old: Path) -> None:
    if old.is_dir():
        shutil.rmtree(old)
    new.replace(old)


def timestamps(at: Ints) -> np.ndarray[tuple[int], np.dtype[np.datetime64]]:
    """Times of ms since the start of the log."""
    return np.datetime64(PRE_START, "us") + (at * 1000).astype("timedelta64[us]")


def copy_frame(query: str, chunk: pd.DataFrame, path: Path, names: dict[str, list[str]]) -> None:
    """Write a frame, as a query of `chunk` shapes it, to a Parquet file."""
    with duckdb.connect() as con:
        con.register("chunk", chunk)
        con.execute(query, {"file": str(path), **names})
