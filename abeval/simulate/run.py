"""Simulate logs from end to end, and write their files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from string import Template
from typing import NamedTuple

import numpy as np
import pandas as pd

from abeval.engines.duckdb_connection import open_database
from abeval.errors import ExperimentError
from abeval.scratch import Scratch
from abeval.signals import defer_signals
from abeval.simulate import dirt as defects
from abeval.simulate import world
from abeval.simulate.dirt import Clicks, RowDirt, Truth, draw_dwell, draw_row_dirt
from abeval.simulate.visits import Requests, ServedLists, draw_requests, serve
from abeval.simulate.world import LIST_LENGTH, Ints, Plan, Users

_LOGS = ("impressions", "clicks.parquet", "items.parquet", "exposures.parquet", "training")
WRITTEN = (*_LOGS, "experiment.toml", "truth.json")


def _read_template(name: str) -> str:
    """Read a template: an experiment file, or the query of a log's rows."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def _write_log(name: str, rows: pd.DataFrame, path: Path) -> None:
    """Write a log by its query, which has the names behind codes."""
    codes = ("variants", "devices", "countries", "categories")
    names = {code: [*getattr(world, code.upper())] for code in codes}
    copy_frame(Template(_read_template(f"{name}.sql")).safe_substitute(names), rows, path)


@contextmanager
def open_simulation_folder(
    folder: Path, experiment: str, names: tuple[str, ...] = WRITTEN
) -> Iterator[Path]:
    """Open a temporary folder whose files replace an earlier simulation's.

    The folder already has the experiment file. An edited experiment file of the earlier simulation
    is an error.
    """
    _check(folder, experiment, names)
    folder.mkdir(parents=True, exist_ok=True)
    with closing(Scratch(folder, ".simulating-")) as scratch:
        (scratch.path / "experiment.toml").write_text(experiment, encoding="utf-8")
        yield scratch.path
        # An interrupt between two moves would leave half a simulation.
        with defer_signals():
            for name in names:
                if (folder / name).is_dir():
                    (folder / name).replace(scratch.path / f"old_{name}")
                (scratch.path / name).replace(folder / name)


_SMALL = ("impressions.parquet", "experiment.toml", "truth.json")


class Small(NamedTuple):
    """A simulation of one log in the two weeks of every simulation.

    Attributes:
        name: Name of the experiment and of its templates.
        rows: Rows with codes, from which the template selects the rows of the log.
        lift: Metric → true lift.
    """

    name: str
    rows: pd.DataFrame
    lift: Mapping[str, float]


def write_small(folder: Path, small: Small, seed: int) -> None:
    """Write a simulation of one log: its rows, the experiment file and true lifts."""
    experiment = Template(_read_template(f"{small.name}.toml")).substitute(
        start=world.START, end=world.END
    )
    with open_simulation_folder(folder, experiment, _SMALL) as filled:
        _write_log(small.name, small.rows, filled / _SMALL[0])
        truth = {"seed": seed, "lift": small.lift}
        (filled / _SMALL[-1]).write_text(json.dumps(truth, indent=2) + "\n", encoding="utf-8")


def _build_rows(plan: Plan, requests: Requests, first: int, lists: ServedLists) -> pd.DataFrame:
    """Build one row per impression of the requests; ``first`` is their number."""
    numbers = np.arange(first, first + len(requests.user))
    served = np.where(requests.variant[:, None] == 1, lists.score_candidate, lists.score_baseline)
    trained = np.where(requests.is_test, world.PRE_DAYS * world.DAY_MS, 0)
    rows = {
        "impression_id": np.arange(lists.item.size) + first * LIST_LENGTH + 1,
        "item_id": lists.item.ravel(),
        "position": np.tile(np.arange(1, LIST_LENGTH + 1), len(numbers)),
        "score_baseline": lists.score_baseline.ravel(),
        "score_candidate": lists.score_candidate.ravel(),
        "served_score": served.ravel(),
        "clicked": lists.clicked.ravel(),
    }
    per_request = {
        "request_id": numbers + 1,
        "user_code": np.where(requests.anonymous, -1, world.FIRST_USER + requests.user),
        "variant_code": requests.variant,
        "device_code": requests.device,
        "country_code": requests.country,
        "time": convert_to_timestamps(requests.at, plan.start),
        "model_trained": convert_to_timestamps(trained, plan.start),
    }
    repeated = {name: np.repeat(values, LIST_LENGTH) for name, values in per_request.items()}
    return pd.DataFrame(rows | repeated)


def _write_impressions(folder: Path, number: int, rows: pd.DataFrame, dirt: RowDirt) -> None:
    """Write one file of impressions with defects, and of training data."""
    index = rows["impression_id"].to_numpy() - 1
    lost = np.isin(index, dirt.unscored, assume_unique=True)
    rows.loc[lost, ["score_baseline", "score_candidate", "served_score"]] = np.nan
    file = f"part-{number:03d}.parquet"
    if (rows["variant_code"] < 0).any():
        _write_log("training", rows, folder / "training" / file)
    copies = 1 + np.isin(index, dirt.duplicates, assume_unique=True)
    twice = rows.loc[rows.index.repeat(copies)]
    _write_log("impressions", twice, folder / "impressions" / file)


def _build_exposures(plan: Plan, requests: Requests) -> pd.DataFrame:
    """Build one row per exposure of a user to a variant."""
    tested = requests.is_test & ~requests.anonymous
    came = np.maximum(requests.at - requests.latency, world.PRE_DAYS * world.DAY_MS)
    return pd.DataFrame(
        {
            "user_code": world.FIRST_USER + requests.user[tested],
            "variant_code": requests.variant[tested],
            "time": convert_to_timestamps(came[tested], plan.start),
        }
    )


def _build_clicks(plan: Plan, clicks: Clicks) -> pd.DataFrame:
    """Build one row per click; orphans get the ids of no impression."""
    impressions = plan.requests * LIST_LENGTH
    index = np.where(clicks.impression < 0, impressions - clicks.impression - 1, clicks.impression)
    times = convert_to_timestamps(clicks.at, plan.start)
    return pd.DataFrame({"impression_id": index + 1, "time": times, "dwell": clicks.dwell})


def _check(folder: Path, experiment: str, names: tuple[str, ...]) -> None:
    file = folder / "experiment.toml"
    if file.is_file() and file.read_bytes() != experiment.encode():
        what = f"{file} is not as simulate writes it, so somebody has edited it"
        raise ExperimentError(what, hint="name a new folder, or move the file out of this one")
    if folder.exists() and not folder.is_dir():
        raise ExperimentError(f"{folder} is a file", hint="name a folder")
    foreign = [name for name in names if (folder / name).exists()]
    if foreign and "truth.json" not in foreign:
        what = f"{folder} contains {foreign[0]}, which simulate did not write"
        raise ExperimentError(what, hint="name a new folder")


def convert_to_timestamps(
    at: Ints, start: date = world.PRE_START
) -> np.ndarray[tuple[int], np.dtype[np.datetime64]]:
    """Convert ms since the start of the log to timestamps."""
    return np.datetime64(start, "us") + (at * 1000).astype("timedelta64[us]")


def copy_frame(select: str, chunk: pd.DataFrame, path: Path, **values: object) -> None:
    """Write a frame to a Parquet file, shaped by a query of `chunk`."""
    with open_database(folders=[str(path.parent)]) as con:
        con.register("chunk", chunk)
        copied = f"copy ({select}) to $file (format parquet, compression zstd)"
        con.execute(copied, {"file": str(path), **values})


_PAST = '\n[[metrics]]\nname = "dwell_per_user"\n\n[[metrics]]\nname = "sessions_per_user"\n'


def write_experiment_text(plan: Plan) -> str:
    """Return the experiment file; past experiments have few metrics."""
    start, end = (plan.start + (day - world.PRE_START) for day in (world.START, world.END))
    text = Template(_read_template("experiment.toml")).substitute(
        name=plan.name, pre_start=plan.start, start=start, end=end, look=world.LOOK
    )
    if plan.name == world.NAME:
        return text
    # Past experiments keep the first goal of the template.
    first_goal, *_ = text.partition('\n[[metrics]]\nname = "dwell_per_user"')
    return first_goal + _PAST


_Progress = Callable[[int, int], None]


def simulate(
    directory: Path | str,
    impressions: int = world.DEFAULT_IMPRESSIONS,
    seed: int = 7,
    progress: _Progress | None = None,
    past: int = 0,
) -> Truth:
    """Write the logs of an A/B test with known truth.

    Two ranking models serve lists of 20 for two weeks, after a week in which the baseline served
    all users. The folder gets ``impressions/*.parquet``, ``clicks.parquet``, ``items.parquet``,
    ``exposures.parquet``, ``training/*.parquet``, ``experiment.toml`` and ``truth.json``.

    Args:
        directory: created if missing. An earlier simulation is replaced, unless its experiment file
            was edited.
        impressions: with the pre-period, before duplicates are added.
        seed: the same seed gives the same rows.
        progress: called after each chunk with the impressions written and their total number.
        past: small experiments that came before, with better and worse candidates; each is a folder
            of its own, ``past/ranker_1`` and following.

    Raises:
        ExperimentError: if the size or the folder cannot be used.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     truth = simulate(folder, impressions=10_000)
    >>> truth.rows["impressions"], truth.dirt["duplicate_impressions"]
    (10050, 50)
    """
    plan = Plan(impressions, seed)
    if not str(directory):
        raise ExperimentError("the name is empty", "name a folder; `.` is the working directory")
    truth = _write_simulation(plan, Path(directory), progress or _ignore_progress)
    for earlier in plan.past(past):
        _write_simulation(earlier, Path(directory) / "past" / earlier.name, _ignore_progress)
    return truth


def _ignore_progress(done: int, total: int) -> None:
    """Report nothing: past experiments are small."""


def _write_simulation(plan: Plan, directory: Path, progress: _Progress) -> Truth:
    """Write the logs, the experiment file and the truth of one simulation."""
    with open_simulation_folder(directory, write_experiment_text(plan)) as folder:
        truth = _simulate_files(plan, folder, progress)
        truth.write(folder / "truth.json")
    return truth


def _simulate_files(plan: Plan, folder: Path, progress: _Progress) -> Truth:
    """Draw users, requests and catalogue, and write their lists and clicks by chunks."""
    # Each step has its own random numbers, so that a change of one does not affect the others.
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(plan.seed).spawn(7)]
    users = world.draw_users(plan, streams[0])
    requests = draw_requests(plan, users, streams[1], streams[6])
    catalogue = world.draw_catalogue(plan, streams[2])
    dirt = draw_row_dirt(requests, streams[3])
    items = {"item_id": catalogue.item_id, "category_code": catalogue.category}
    _write_log("items", pd.DataFrame(items), folder / "items.parquet")
    _write_log("exposures", _build_exposures(plan, requests), folder / "exposures.parquet")
    (folder / "impressions").mkdir()
    (folder / "training").mkdir()
    clicks, expected, step = [], [], plan.requests_per_chunk
    for number, first in enumerate(range(0, plan.requests, step)):
        part = requests.part(slice(first, first + step))
        lists = serve(plan, catalogue, users, part, streams[4])
        _write_impressions(folder, number, _build_rows(plan, part, first, lists), dirt)
        clicks.append(_draw_clicks(users, part, first, lists, streams[4]))
        expected.append(lists.expected_clicks)
        progress(min(first + step, plan.requests) * LIST_LENGTH, plan.requests * LIST_LENGTH)
    dirty = defects.add_dirt_to_clicks(requests, dirt, Clicks.concatenate(clicks), streams[5])
    _write_log("clicks", _build_clicks(plan, dirty.clicks), folder / "clicks.parquet")
    control, treatment = np.sum(expected, axis=0)
    return defects.build_truth(plan, requests, dirt, dirty, (float(control), float(treatment)))


def _draw_clicks(
    users: Users, requests: Requests, first: int, lists: ServedLists, rng: np.random.Generator
) -> Clicks:
    """Draw times and dwell of the clicks on some requests' lists."""
    row, position = np.nonzero(lists.clicked)
    # Seconds to minutes from an impression to its click.
    seconds = np.minimum(1 + rng.lognormal(np.log(20), 1.1, len(row)), 1800)
    at = requests.at[row] + (1000 * seconds).astype(np.int64)
    dwell = draw_dwell(users.patience[requests.user[row]], rng)
    return Clicks((first + row) * LIST_LENGTH + position, at, dwell)
