"""The simulation from end to end.

`cli/simulate.py`, or a user from Python (`abeval.simulate`), gives a folder, a size and a seed; the
other modules here are its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from abeval.errors import ExperimentError
from abeval.simulate import run
from abeval.simulate.dirt import (
    Clicks,
    RowDirt,
    Truth,
    add_dirt_to_clicks,
    draw_dwell,
    draw_row_dirt,
    truth_of,
)
from abeval.simulate.visits import Requests, ServedLists, draw_requests, serve
from abeval.simulate.world import (
    DEFAULT_IMPRESSIONS,
    LIST_LENGTH,
    Catalogue,
    Ints,
    Plan,
    Users,
    draw_catalogue,
    draw_users,
)

Progress = Callable[[int, int], None]


def simulate(
    directory: Path | str,
    impressions: int = DEFAULT_IMPRESSIONS,
    seed: int = 7,
    progress: Progress | None = None,
) -> Truth:
    """Write the logs of an A/B test with known truth.

    Two ranking models serve lists of 20 for two weeks, after a week in which the baseline served
    all users. The folder gets ``impressions/*.parquet``, ``clicks.parquet``, ``items.parquet``,
    ``experiment.toml`` and ``truth.json``.

    Args:
        directory: folder for the files; created if missing. An earlier simulation is replaced.
        impressions: number of impressions, with the pre-period, before duplicates are added.
        seed: the same seed gives the same rows.
        progress: called after each chunk with the impressions written and their total number.

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
    with run.filled_folder(Path(directory)) as folder:
        truth = _Simulation.begin(plan, folder).run(progress or (lambda done, total: None))
        (folder / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
        truth.write(folder / "truth.json")
    return truth


@dataclass(frozen=True, slots=True)
class _Simulation:
    plan: Plan
    folder: Path
    users: Users
    catalogue: Catalogue
    requests: Requests
    dirt: RowDirt
    streams: list[np.random.Generator]

    @classmethod
    def begin(cls, plan: Plan, folder: Path) -> _Simulation:
        # Each step has its own random numbers, so that a change of one does not affect the others.
        streams = [np.random.default_rng(s) for s in np.random.SeedSequence(plan.seed).spawn(6)]
        users = draw_users(plan, streams[0])
        requests = draw_requests(plan, users, streams[1])
        catalogue = draw_catalogue(plan, streams[2])
        return cls(
            plan=plan,
            folder=folder,
            users=users,
            catalogue=catalogue,
            requests=requests,
            dirt=draw_row_dirt(plan, requests, streams[3]),
            streams=streams[4:],
        )

    def run(self, progress: Progress) -> Truth:
        run.write_items(self.folder / "items.parquet", self.catalogue)
        clicks, expected = self._serve(progress)
        dirty = add_dirt_to_clicks(self.plan, self.requests, self.dirt, clicks, self.streams[1])
        total = self.plan.requests * LIST_LENGTH
        run.write_clicks(self.folder / "clicks.parquet", dirty.clicks, total)
        return truth_of(self.plan, self.requests, self.dirt, dirty, expected)

    def _serve(self, progress: Progress) -> tuple[Clicks, tuple[float, float]]:
        """Write all impressions; return the clicks and those expected under either model."""
        (self.folder / "impressions").mkdir()
        clicks, expected = [], []
        for number, part in enumerate(self._parts()):
            lists = serve(self.catalogue, self.users, self.requests[part], self.streams[0])
            self._write(number, part, lists)
            clicks.append(self._clicks(part, lists))
            expected.append(lists.expected_clicks)
            progress(part.stop * LIST_LENGTH, self.plan.requests * LIST_LENGTH)
        control, treatment = np.sum(expected, axis=0)
        return Clicks.joined(clicks), (float(control), float(treatment))

    def _parts(self) -> Iterator[slice]:
        step = self.plan.requests_per_chunk
        for first in range(0, self.plan.requests, step):
            yield slice(first, min(first + step, self.plan.requests))

    def _write(self, number: int, part: slice, lists: ServedLists) -> None:
        path = self.folder / "impressions" / f"part-{number:03d}.parquet"
        requests, countries = self.requests[part], self.users.country
        run.write_impressions(path, requests, countries, part.start, lists, self.dirt)

    def _clicks(self, part: slice, lists: ServedLists) -> Clicks:
        row, position = np.nonzero(lists.clicked)
        row += part.start
        at = self.requests.at[row] + _delays(len(row), self.streams[0])
        patience = self.users.patience[self.requests.user[row]]
        return Clicks(row * LIST_LENGTH + position, at, draw_dwell(patience, self.streams[0]))


def _delays(n: int, rng: np.random.Generator) -> Ints:
    """Seconds to minutes from an impression to its click, in ms."""
    seconds = 1 + rng.lognormal(np.log(20), 1.1, n)
    return (1000 * np.minimum(seconds, 1800)).astype(np.int64)
