"""Whether `abeval agree` sizes a planted gap, names its cause, and names none in clean logs.

    python -m benchmarks.calibration.gaps --seeds 20 --clean 300 --processes 2
    python -m benchmarks.calibration.gaps --seeds 3 --clean 0 --faults clock,labels

Lists are the top 10 of 30 candidates by the score that served. The candidate is better than the
baseline; each fault takes a part of its gain, at three strengths. The truth is computed from click
probabilities: what the lists would get without the fault, and what they get with it. Every second
log has a fifth of its requests in random order. Clean logs have effects of 0, about 5 and about
20 %. Positions are seen less and less, appeal has a weekly season, half of the users come later.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import abeval
from abeval.results.agreement import Agreement, Gap
from abeval.stats.records import Bools, Floats, Integers

USERS = 4000
DAYS = 14
POOL = 30
SHOWN = 10
_ITEMS = 600
_CATEGORIES = 8
_HOURS = 24
_DAY = 86_400
_VISITS = 2.4
_START = pd.Timestamp("2026-06-01")


@dataclass(frozen=True)
class Fault:
    """A fault that takes a part of the candidate's gain.

    Attributes:
        name: On the command line.
        causes: Those of which one should be named first; empty where nothing is wrong.
        strengths: Of the fault, from weak to strong.
    """

    name: str
    causes: tuple[str, ...]
    strengths: tuple[float, float, float]


FAULTS: tuple[Fault, ...] = (
    Fault("clock", ("served_score",), (0.4, 0.7, 1.0)),
    Fault("skew", ("served_score",), (0.8, 1.4, 2.5)),
    Fault("clip", ("served_score",), (0.5, 0.3, 0.15)),
    Fault("default", ("served_score",), (0.3, 0.5, 0.7)),
    Fault("rounding", ("half_precision",), (6, 4, 3)),
    Fault("stale", ("stale_model",), (0.8, 1.4, 2.5)),
    Fault("category", ("candidates",), (2, 3, 4)),
    Fault("items", ("candidates",), (0.2, 0.4, 0.6)),
    Fault("retrieval", ("candidates",), (0.4, 0.6, 0.8)),
    Fault("shuffle", ("reordered",), (13, 17, 24)),
    Fault("sponsored", ("reordered",), (0.3, 0.6, 1.0)),
    Fault("labels", ("labels",), (0.2, 0.35, 0.5)),
    Fault("timeouts", ("serving",), (0.15, 0.3, 0.45)),
    Fault("elsewhere", ("cannibalised",), (0.2, 0.35, 0.5)),
    Fault("learned", ("overlap", "overfitting"), (0.3, 0.5, 0.7)),
)
"""All but the last only shrink the gain; the last makes the promise too large."""

CLEAN = Fault("clean", (), (1.1, 0.85, 0.0))
"""The strengths are the noise of the baseline beyond the candidate's: effects of 20, 5 and 0 %."""


class Requests(NamedTuple):
    """Requests, one entry each, and their candidates, shape (requests, POOL).

    Attributes:
        user: Number of the user.
        treated: Whether the user is in treatment.
        second: Seconds since the start.
        explored: Whether the list is in random order.
        item: Number of the item.
        appeal: Logit of a click on an item that is seen.
        baseline: Logit of the baseline.
        candidate: Logit of the candidate.
        shifted: Logit of the candidate if its clock is 8 hours wrong.
    """

    user: Integers
    treated: Bools
    second: Floats
    explored: Bools
    item: Integers
    appeal: Floats
    baseline: Floats
    candidate: Floats
    shifted: Floats


class Catalogue(NamedTuple):
    """Items: their category, and what everybody likes of them."""

    category: Integers
    liked: Floats

    def best_categories(self, count: int) -> Integers:
        """Return the categories whose items are liked most."""
        means = [self.liked[self.category == c].mean() for c in range(_CATEGORIES)]
        return np.argsort(means)[::-1][:count]


def draw_requests(
    rng: np.random.Generator, catalogue: Catalogue, noise: tuple[float, float], *, mixed: bool
) -> Requests:
    """Draw requests of users with tastes; `noise` is of baseline and candidate."""
    taste = rng.normal(size=(USERS, 4))
    trait = rng.normal(size=(_ITEMS, 4)) / 2
    hourly = 0.9 * rng.normal(size=(_HOURS, _CATEGORIES))
    ready = 0.3 * rng.normal(size=USERS)
    entered = rng.uniform(0, DAYS - 1, USERS) * (rng.random(USERS) < 0.5)
    treated = rng.random(USERS) < 0.5
    visits = 1 + rng.poisson(_VISITS, USERS)
    user = np.repeat(np.arange(USERS), visits)
    second = _DAY * (entered[user] + rng.random(user.size) * (DAYS - entered[user]))
    item = rng.integers(0, _ITEMS, (user.size, POOL))
    hour = (second % _DAY // 3600).astype(np.int64)[:, None]
    category = catalogue.category[item]
    season = 0.25 * np.sin(2 * np.pi * second / (7 * _DAY))[:, None]
    base = np.einsum("rd,rpd->rp", taste[user], trait[item]) + catalogue.liked[item] - 2.6
    own = noise[1] * rng.normal(size=item.shape)
    shift = hourly[(hour + 8) % _HOURS, category]
    return Requests(
        user=user,
        treated=treated[user],
        second=second,
        explored=(rng.random(user.size) < 0.2) & mixed,
        item=item,
        appeal=base + hourly[hour, category] + ready[user][:, None] + season,
        baseline=base + noise[0] * rng.normal(size=item.shape),
        candidate=base + hourly[hour, category] + own,
        shifted=base + shift + own,
    )


class Shown(NamedTuple):
    """What was served and shown, shape (requests, SHOWN): places in the pool, and served logits."""

    place: Integers
    served: Floats
    failed: Bools


def show_lists(
    requests: Requests, catalogue: Catalogue, fault: str, strength: float, rng: np.random.Generator
) -> Shown:
    """Rank by the score that serves; a fault changes scores, candidates or order of treatment."""
    treated, own = requests.treated[:, None], requests.candidate
    shape, served, key = own.shape, own, None
    failed = np.zeros(len(own), dtype=bool)
    if fault == "clock":
        served = np.where(rng.random((len(own), 1)) < strength, requests.shifted, own)
    elif fault in ("skew", "stale"):
        served = own + strength * rng.normal(size=shape)
    elif fault == "clip":
        served = np.minimum(own, np.quantile(own, strength))
    elif fault == "default":
        served = np.where(rng.random(shape) < strength, np.quantile(own, 0.7), own)
    elif fault == "rounding":
        levels = np.quantile(own, np.linspace(0, 1, int(strength) + 1)[1:-1])
        served = np.concatenate([levels[:1], levels])[np.searchsorted(levels, own)]
    served = np.where(treated, served, requests.baseline)
    key = served + 1e-9 * rng.random(shape)
    lacking = np.zeros(shape, dtype=bool)
    if fault == "category":
        best = catalogue.best_categories(int(strength))
        lacking = np.isin(catalogue.category[requests.item], best)
    elif fault == "items":
        top = catalogue.liked > np.quantile(catalogue.liked, 0.5)
        gone = top & (rng.random(_ITEMS) < strength)
        lacking = gone[requests.item]
    elif fault == "retrieval":
        good = catalogue.liked[requests.item] > np.median(catalogue.liked)
        lacking = good & (rng.random(shape) < strength)
    key = np.where(treated & lacking, -1e3 + key, key)
    if fault == "sponsored":
        pushed = (requests.item % 5 == 0) & (rng.random((len(own), 1)) < strength)
        key = np.where(treated & pushed, key + 100, key)
    if fault == "timeouts":
        failed = requests.treated & (rng.random(len(own)) < strength)
    aside = requests.explored | failed
    key = np.where(aside[:, None], rng.random(shape), key)
    place = np.argsort(-key, axis=1)
    if fault == "shuffle":
        first = place[:, : int(strength)]
        mixed = np.take_along_axis(first, rng.random(first.shape).argsort(axis=1), axis=1)
        kept = (requests.treated & ~aside)[:, None]
        place = np.where(kept, mixed[:, :SHOWN], place[:, :SHOWN])
    place = place[:, :SHOWN]
    return Shown(place, np.take_along_axis(served, place, axis=1), failed)


class Log(NamedTuple):
    """Impressions, training data, and the true lifts without and with the fault."""

    impressions: pd.DataFrame
    training: pd.DataFrame
    clean: float
    came: float


def probability(requests: Requests, shown: Shown) -> Floats:
    """Return the probability of a click by place: of appeal, and of being seen."""
    logit = np.take_along_axis(requests.appeal, shown.place, axis=1)
    chance: Floats = np.arange(1, SHOWN + 1) ** -0.5 / (1 + np.exp(-logit))
    return chance


def lift(chance: Floats, treated: Bools) -> float:
    """Return the lift of expected clicks per impression."""
    return float(chance[treated].mean() / chance[~treated].mean() - 1)


def draw_log(fault: Fault, strength: float, seed: int) -> Log:
    """Draw a log with a fault; the pools are those of the clean log of the same seed."""
    rng = np.random.default_rng([seed, 49])
    liked, category = 0.5 * rng.normal(size=_ITEMS), rng.integers(0, _CATEGORIES, _ITEMS)
    catalogue = Catalogue(category, liked)
    noise = (0.5 + 0.6 if fault is not CLEAN else max(strength, 0.5), 0.5)
    if fault is CLEAN and not strength:
        noise = (0.8, 0.0)
    requests = draw_requests(rng, catalogue, noise, mixed=seed % 2 == 1)
    if fault is CLEAN and not strength:
        # Both models know the same, each with noise of its own: no effect at all.
        own = requests.candidate + 0.6 * rng.normal(size=requests.candidate.shape)
        twin = requests.candidate + 0.6 * rng.normal(size=requests.candidate.shape)
        requests = requests._replace(candidate=own, baseline=twin)
    shown = show_lists(requests, catalogue, fault.name, strength, np.random.default_rng(seed))
    meant = show_lists(requests, catalogue, "", 0.0, np.random.default_rng(seed))
    clean = lift(probability(requests, meant), requests.treated)
    chance = probability(requests, shown)
    category_shown = catalogue.category[np.take_along_axis(requests.item, shown.place, axis=1)]
    if fault.name == "labels":
        slow = np.isin(category_shown, catalogue.best_categories(_CATEGORIES // 2))
        chance = np.where(slow & requests.treated[:, None], chance * (1 - strength), chance)
    click = rng.random(chance.shape) < chance
    rows = write_rows(requests, shown, click, category_shown)
    rows["model_time"] = rows["ts"].dt.floor("D")
    if fault.name == "stale":
        rows.loc[rows["variant"] == "treatment", "model_time"] -= pd.Timedelta(days=5)
    came = lift(chance, requests.treated)
    rows["scene"] = "feed"
    if fault.name == "elsewhere":
        rows, clean, came = add_scene(rows, chance, requests, strength, rng)
    training = rows.head(0)
    if fault.name == "learned":
        rows, training = learn_rows(rows, strength, rng)
    return Log(rows, training, clean, came)


def write_rows(requests: Requests, shown: Shown, click: Bools, category: Integers) -> pd.DataFrame:
    """Write one row per impression."""

    def take(values: NDArray[Any]) -> NDArray[Any]:
        return np.take_along_axis(values, shown.place, axis=1).ravel()

    def repeat(values: NDArray[Any]) -> NDArray[Any]:
        return np.repeat(values, SHOWN)

    def score(logit: NDArray[Any]) -> NDArray[Any]:
        chance: NDArray[Any] = 1 / (1 + np.exp(-logit))
        return chance

    return pd.DataFrame(
        {
            "user_id": repeat(requests.user),
            "variant": np.where(repeat(requests.treated), "treatment", "control"),
            "request_id": repeat(np.arange(len(requests.user))),
            "ts": _START + pd.to_timedelta(np.round(repeat(requests.second)), unit="s"),
            "item_id": take(requests.item),
            "category": category.ravel().astype(str),
            "position": np.tile(np.arange(1, SHOWN + 1), len(requests.user)),
            "click": click.ravel().astype(np.int64),
            "score_baseline": score(take(requests.baseline)),
            "score_candidate": score(take(requests.candidate)),
            "served_score": score(shown.served.ravel()),
            "timeout": repeat(shown.failed).astype(np.int64),
        }
    )


def add_scene(
    rows: pd.DataFrame, chance: Floats, requests: Requests, taken: float, rng: np.random.Generator
) -> tuple[pd.DataFrame, float, float]:
    """Add a scene where no model ranks; the treatment takes a share of its clicks away."""
    home = rows[rows["position"] <= 4].copy()
    rate = np.where(home["variant"] == "treatment", 0.12 * (1 - taken), 0.12)
    home["click"] = (rng.random(len(home)) < rate).astype(np.int64)
    home["scene"], home["request_id"] = "home", -1 - home["request_id"]
    home["score_baseline"] = home["score_candidate"] = home["served_score"] = np.nan
    feed = [
        float(chance[kept].sum(axis=1).mean()) for kept in (~requests.treated, requests.treated)
    ]
    base = feed[0] + 4 * 0.12
    clean = (feed[1] - feed[0]) / base
    return pd.concat([rows, home]), clean, clean - taken * 4 * 0.12 / base


def learn_rows(
    rows: pd.DataFrame, share: float, rng: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Let the candidate remember a share of the rows that it is compared on."""
    learned = rng.random(len(rows)) < share
    logit = np.log(rows["score_candidate"] / (1 - rows["score_candidate"]))
    logit += np.where(learned, 4.0 * (rows["click"] - rows["score_candidate"]), 0.0)
    rows = rows.assign(score_candidate=1 / (1 + np.exp(-logit)))
    # The model that served did not know the clicks: the replay scores again what it has learned.
    return rows.drop(columns="served_score"), rows[learned]


def agree(log: Log) -> Agreement:
    """Ask what `abeval agree` says of a log, through the API."""
    columns = {"model_time": "model_time"}
    if "served_score" in log.impressions:
        columns["served_score"] = "served_score"
    if (log.impressions["scene"] == "home").any():
        columns["treated"] = "scene = 'feed'"
    frames = {"impressions": log.impressions}
    if len(log.training):
        frames["training"] = log.training
    loaded = abeval.define(
        name="gaps",
        unit="user_id",
        control="control",
        timezone="UTC",
        period={"start": "2026-06-01", "end": "2026-06-15"},
        variants={"control": {"model": "baseline"}, "treatment": {"model": "candidate"}},
        models={name: {"score": f"score_{name}"} for name in ("baseline", "candidate")},
        logs={name: {"path": "none.parquet"} for name in frames},
        agreement=columns,
        metrics=[{"name": "ctr", "role": "goal"}],
        trust={"aa_runs": 0},
    )
    return loaded.agree(metrics=["auc", "q_ctr"], logs=frames)


class Row(NamedTuple):
    """What was said of one log.

    Attributes:
        truth: What the fault took, in expected clicks; of a promise that is too large, the rest.
        named: The causes found, most likely first.
        points: What the bill charges to the first.
        covers: Whether the interval of the unexplained part covers zero.
        promised: Of the bill.
        clean: The lift without the fault.
        came: The lift that came, of the bill.
    """

    fault: str
    strength: float
    seed: int
    truth: float
    named: tuple[str, ...]
    points: float | None
    covers: bool
    promised: float | None
    clean: float
    came: float | None


def judge(case: tuple[str, float, int]) -> Row:
    """Draw a log and read its bill."""
    name, strength, seed = case
    fault = next(fault for fault in (*FAULTS, CLEAN) if fault.name == name)
    log = draw_log(fault, strength, seed)
    agreement = agree(log)
    named = tuple(cause.name for cause in agreement.confirmed_causes)
    gap = agreement.gap or Gap("treatment", "ctr")
    low, high = gap.unexplained_low, gap.unexplained_high
    truth = log.came - log.clean
    # What was learned takes nothing of what came: the promise is too large by it.
    if len(log.training) and gap.promised is not None:
        truth = log.clean - gap.promised
    return Row(
        *(name, strength, seed, truth, named),
        points=gap.causes[0].points if gap.causes else None,
        covers=low is not None and high is not None and low <= 0 <= high,
        promised=gap.promised,
        clean=log.clean,
        came=gap.came,
    )


class Judge:
    """Judge logs in processes, and keep each row in a file, so that a stop loses none."""

    def __init__(self, processes: int, keep: Path | None) -> None:
        self._pool, self._keep = ProcessPoolExecutor(processes), keep
        lines = keep.read_text().splitlines() if keep is not None and keep.exists() else []
        rows = [Row(**json.loads(line)) for line in lines]
        self._kept = {
            (row.fault, row.strength, row.seed): row._replace(named=tuple(row.named))
            for row in rows
        }

    def judge(self, cases: Sequence[tuple[str, float, int]]) -> list[Row]:
        """Return the rows of cases, kept ones as they are."""
        for row in self._pool.map(judge, [case for case in cases if case not in self._kept]):
            self._kept[row.fault, row.strength, row.seed] = row
            if self._keep is not None:
                with self._keep.open("a") as file:
                    file.write(json.dumps(row._asdict()) + "\n")
        return [self._kept[case] for case in cases]


def describe(fault: Fault, rows: Sequence[Row]) -> str:
    """Write one line per fault and strength."""
    right = [row for row in rows if row.named and row.named[0] in fault.causes]
    sized = [
        row
        for row in rows
        if row.points is not None and abs(row.points - row.truth) <= 0.25 * abs(row.truth)
    ]
    others = sorted({row.named[0] if row.named else "nothing" for row in rows if row not in right})
    mean = np.mean([[row.clean, row.truth] for row in rows], axis=0)
    known = [row for row in rows if row.promised is not None]
    error = np.mean([row.promised - row.clean for row in known if row.promised is not None])
    return (
        f"| {fault.name} | {rows[0].strength:g} | {mean[0]:+.3f} | {mean[1]:+.3f} | "
        f"{len(right)} | {len(sized)} | {sum(row.covers for row in rows)} of {len(rows)} | "
        f"{error:+.3f} | {', '.join(others)} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="The first seed.")
    parser.add_argument("--clean", type=int, default=300)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="A file of rows, which a next run takes up.")
    parser.add_argument("--faults", default=",".join(fault.name for fault in FAULTS))
    options = parser.parse_args()
    began = time.perf_counter()
    wanted = options.faults.split(",")
    faults = [fault for fault in FAULTS if fault.name in wanted]
    seeds = range(options.first, options.first + options.seeds)
    sys.stdout.write(
        "| fault | strength | clean lift | taken | first right | points within 1/4 "
        "| unexplained covers 0 | promised − clean | first instead |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|---|\n"
    )
    logs = Judge(options.processes, options.keep)
    for fault, strength in _cells(faults):
        rows = logs.judge([(fault.name, strength, seed) for seed in seeds])
        sys.stdout.write(describe(fault, rows) + "\n")
        sys.stdout.flush()
    for strength in CLEAN.strengths if options.clean else ():
        cases = [("clean", strength, options.first + i) for i in range(options.clean // 3)]
        rows = logs.judge(cases)
        named = [row for row in rows if row.named]
        known = [row for row in rows if row.promised is not None]
        away = [(row.promised or 0.0) - row.clean for row in known]
        sys.stdout.write(
            f"clean, lift {np.mean([row.clean for row in rows]):+.3f}: a cause in {len(named)} "
            f"of {len(rows)}; promised − clean {np.mean(away):+.3f} ± {np.std(away):.3f}; "
            f"unexplained covers 0 in {sum(row.covers for row in rows)}; "
            f"{[(row.seed, row.named) for row in named]}\n"
        )
        sys.stdout.flush()
    sys.stdout.write(f"{time.perf_counter() - began:,.0f} s\n")


def _cells(faults: Sequence[Fault]) -> Iterator[tuple[Fault, float]]:
    for fault in faults:
        for strength in fault.strengths:
            yield fault, strength


if __name__ == "__main__":
    main()
