"""Rankers on real logs: interleaved lists replayed, beside off-policy estimates of the same two.

    python -m benchmarks.calibration.interleaving_real ../shared/data

Open Bandit's random policy (Saito et al. 2020): a logged row counts where the list that would have
been drafted has its item at its position (Li, Chu, Langford & Wang 2011). KuaiRand (Gao et al.
2022): each ranker sorts the videos that a user was shown in one feed, whose clicks are all known;
lists have half of them. Rankers have learned from other users.
"""

import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pandas as pd

import abeval
from abeval.results.interleaving import PreferenceRow
from abeval.stats.means import estimate_ratio
from abeval.stats.moments import Moments
from abeval.stats.off_policy import Rows, estimate
from abeval.stats.records import Refusal

RANKERS = ("video", "author", "tag", "shown", "short", "long")
"""Click rate of the video, its author or tag, how often it was shown, and its duration."""

FEWEST, LONGEST = 4, 10

_CANDIDATES = """
with shown as (
  select user_id, video_id, author_id, tag, duration_ms, max(is_click) as click,
    user_id % 2 = 0 as learned
  from read_parquet($file)
  where tab = 1
  group by user_id, video_id, author_id, tag, duration_ms
),
mean as (select avg(click) as rate from shown where learned),
scored as (
  select user_id, video_id, click, learned,
    (coalesce(sum(click) filter (learned) over v, 0) + 5 * rate)
      / (count(*) filter (learned) over v + 5) as video,
    (coalesce(sum(click) filter (learned) over a, 0) + 5 * rate)
      / (count(*) filter (learned) over a + 5) as author,
    (coalesce(sum(click) filter (learned) over t, 0) + 5 * rate)
      / (count(*) filter (learned) over t + 5) as tag,
    count(*) filter (learned) over v as shown,
    -duration_ms as short, duration_ms as long
  from shown, mean
  window v as (partition by video_id), a as (partition by author_id), t as (partition by tag)
)
select user_id, video_id, click, count(*) over u as candidates,
  {ranks}
from scored
where not learned
window u as (partition by user_id)
qualify candidates >= {fewest}
order by user_id, video_id
"""


def candidates(file: Path) -> pd.DataFrame:
    """Return the videos that users were shown, with their place in the list of each ranker."""
    place = "row_number() over (partition by user_id order by {0} desc, md5(video_id::text)) as {0}"
    ranks = ", ".join(map(place.format, RANKERS))
    query = _CANDIDATES.format(ranks=ranks, fewest=FEWEST)
    return duckdb.execute(query, {"file": str(file)}).df()


class Compared(NamedTuple):
    """A pair of rankers: the off-policy lift of clicks and its z, at full and half length."""

    a: str
    b: str
    lift: float
    z: float
    half_z: float
    units_needed: float
    row: PreferenceRow

    @property
    def preference_z(self) -> float:
        """Return how far the preference is from 0, in standard errors."""
        return (self.row.preference or 0.0) / (self.row.se or np.inf)


def compared(frame: pd.DataFrame, a: str, b: str) -> Compared:
    """Interleave two rankers for each user, and estimate both from the same clicks."""
    lift, z, needed = off_policy_lift(frame, a, b, 1)
    half_z = off_policy_lift(frame, a, b, 2)[1]
    loaded = abeval.define(
        name="kuairand",
        unit="user_id",
        control=a,
        variants={a: {}, b: {}},
        interleaving={"team": "team", "salt": "real", "ranks": {a: f"rank_{a}", b: f"rank_{b}"}},
        logs={"impressions": {"path": "none.parquet"}},
    )
    result = loaded.preferences(logs={"impressions": interleaved(frame, a, b)})
    return Compared(a, b, lift, z, half_z, needed, result["clicks_per_user"])


def interleaved(frame: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """Draft each user's list, and give its items the clicks of the log."""
    rows = []
    for user, own in frame.groupby("user_id"):
        items, clicks = own["video_id"].to_numpy(), own["click"].to_numpy()
        places = {name: own[name].to_numpy() for name in (a, b)}
        lists = {name: np.argsort(of).tolist() for name, of in places.items()}
        length = length_of(len(items))
        for one in abeval.interleave(lists, salt="real", request_id=f"{user}", length=length):
            i = int(str(one.item))
            ranks = (int(places[a][i]), int(places[b][i]))
            rows.append((user, items[i], one.position, one.team, *ranks, clicks[i]))
    names = ["user_id", "item_id", "position", "team", f"rank_{a}", f"rank_{b}", "click"]
    lists_shown = pd.DataFrame(rows, columns=names)
    return lists_shown.assign(request_id=lists_shown["user_id"].astype(str))


def length_of(candidates: int) -> int:
    """Return the length of a list: half of what there is, at most ten."""
    return min(candidates // 2, LONGEST)


def off_policy_lift(frame: pd.DataFrame, a: str, b: str, part: int) -> tuple[float, float, float]:
    """Estimate the lift of clicks of b's list against a's, its z, and users that show it.

    A candidate that one of n at random would be has the weight n / length where it is in a
    ranker's list (IPS), here a part of its length; users are the units.
    """
    n = frame["candidates"].to_numpy()
    length = np.maximum(np.minimum(n // 2, LONGEST) // part, 1)
    sides = [frame["click"] * (frame[name] <= length) * n / length for name in (a, b)]
    by_user = pd.DataFrame({"user": frame["user_id"], "a": sides[0], "b": sides[1], "n": 1.0})
    sums = by_user.groupby("user")[["a", "b", "n"]].sum()
    difference = estimate_ratio(Moments.of(sums["b"] - sums["a"], sums["n"]))
    z = difference.value / np.sqrt(difference.variance)
    return difference.value / (sides[0].sum() / len(frame)), z, len(sums) * (2.801585 / z) ** 2


def bandit(folder: Path) -> Iterator[str]:
    """Say what Open Bandit's random policy can tell of two rankers."""
    file = str(folder / "open_bandit" / "men_random.parquet")
    log = duckdb.execute(
        "select *, count(*) over (partition by ts, user_feature_0, user_feature_1, user_feature_2, "
        "user_feature_3) as places from read_parquet($file) order by ts, position",
        {"file": file},
    ).df()
    query = "select item_id from read_parquet($file) group by 1 order by count(*) desc, 1"
    most = duckdb.execute(query, {"file": file.replace("random", "bts")}).df()["item_id"].tolist()
    lists = {"bts": most, "fewest": most[::-1]}
    shown = [
        abeval.interleave(lists, salt="real", request_id=str(ts), length=3) for ts in log["ts"]
    ]
    at = list(zip(shown, log["position"] - 1, log["item_id"], strict=True))
    kept = np.array([one[place].item == item for one, place, item in at])
    yield (
        f"Open Bandit, {len(log):,} random rows, {int(log['click'].sum())} clicks: "
        f"{np.mean(log['places'] == 1):.1%} are lists of one."
    )
    yield (
        f"Interleaved lists of the items that BTS showed most, and fewest, keep {kept.sum()} rows "
        f"and {int(log['click'][kept].sum())} clicks."
    )
    for name, own in lists.items():
        evaluation = np.array([own[place] == item for _, place, item in at], dtype=float)
        rows = Rows(log["click"].to_numpy(), log["propensity"].to_numpy(), evaluation)
        try:
            value = estimate("ips", rows)
            said = f"{value.value:.4f}, {value.reason or f'{value.low:.4f} to {value.high:.4f}'}"
        except Refusal as refusal:
            said = refusal.reason
        clicks = int(log["click"].to_numpy() @ evaluation)
        kept_rows = int(evaluation.sum())
        yield f"Off-policy (IPS) of {name}: {said}; {clicks} clicks on {kept_rows} rows."


def lines(folder: Path) -> Iterator[str]:
    """Write what both logs say."""
    yield from bandit(folder)
    file = folder / "kuairand" / "log.parquet"
    query = "select count(*), sum(is_rand), count(distinct video_id) from read_parquet($file)"
    rows, drawn, videos = duckdb.execute(query, {"file": str(file)}).fetchall()[0]
    frame = candidates(file)
    users = frame["user_id"].nunique()
    yield ""
    yield f"KuaiRand, {rows:,} rows, {drawn} of them random exposures; {videos:,} videos."
    yield f"{users:,} users with {len(frame):,} candidates in the main feed."
    yield ""
    yield (
        "| rankers | off-policy lift | z | its z, lists half as long | preference | z "
        "| users for 80 %, off-policy | interleaved |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    pairs = [compared(frame, a, b) for a, b in combinations(RANKERS, 2)]
    for one in pairs:
        yield (
            f"| {one.b} against {one.a} | {one.lift:+.1%} | {one.z:+.1f} | {one.half_z:+.1f} | "
            f"{one.row.preference or 0:+.1%} | {one.preference_z:+.1f} | {one.units_needed:,.0f} | "
            f"{one.row.units_needed or np.inf:,.0f} |"
        )
    both = [one for one in pairs if min(abs(one.z), abs(one.preference_z)) > 1.96]
    alike = sum(one.z * one.preference_z > 0 for one in both)
    yield ""
    yield f"Both are significant in {len(both)} of {len(pairs)} pairs, with one sign in {alike}."


def main() -> None:
    """Print the table, of the folder of real logs."""
    for line in lines(Path(sys.argv[1])):
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
