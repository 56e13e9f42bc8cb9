"""Calibration of cuts: coverage where the treatment moves a scene, and A/A re-splits of a log.

The first: 20,000 users see two scenes. The treatment moves the share of `feed` from .3 to .5 and
lifts CTR there by 30 %, at `home` by nothing. Every seed goes through the whole API. The second:
the same world as sums per user and scene, drawn more often. The third: the users of a log
(user_id, tab, is_click) are split at random again and again; the sums per user and cell are
computed once, and the function that judges a cell of an analysis judges each split.
"""

from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd

from abeval.inference.comparison import MIN_UNITS, Comparison, Rule
from abeval.inference.means_and_ratios import compare_moments
from abeval.metrics.builtin import load_builtin_metrics
from abeval.results.analysis import Result
from abeval.stats import composition, multiplicity
from abeval.stats.moments import Moments
from abeval.stats.records import Bools, Effect, Floats
from benchmarks.runner import Record, Table
from tests.worlds.experiments import define_experiment

USERS = 20_000
SHARES, CTR, LIFT = (0.3, 0.5), {"feed": 0.05, "home": 0.10}, {"feed": 0.3, "home": 0.0}
WITHIN = sum(SHARES) / 2 * CTR["feed"] * LIFT["feed"]
MIX = (SHARES[1] - SHARES[0]) * (CTR["feed"] * (1 + LIFT["feed"] / 2) - CTR["home"])
"""The true parts of the difference in CTR: the shares of the two scenes add up to one."""


def world(seed: int, users: int = USERS) -> pd.DataFrame:
    """Impressions of users who click more or less than others, nine each on average."""
    rng = np.random.default_rng(seed)
    treated = rng.random(users) < 0.5
    user = np.repeat(np.arange(users), rng.poisson(8, users) + 1)
    arm = treated[user]
    feed = rng.random(user.size) < np.where(arm, SHARES[1], SHARES[0])
    rate = np.where(feed, CTR["feed"] * np.where(arm, 1 + LIFT["feed"], 1), CTR["home"])
    readiness = np.exp(rng.normal(-0.045, 0.3, users))[user]
    # No two rows have the same time, so that none repeats another.
    second = pd.to_timedelta(rng.permutation(user.size) * 3, unit="s")
    return pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(arm, "b", "a"),
            "ts": pd.Timestamp("2026-01-08") + second,
            "scene": np.where(feed, "feed", "home"),
            "click": rng.random(user.size) < rate * readiness,
        }
    )


def analyzed(log: pd.DataFrame, **entries: Any) -> Result:  # noqa: ANN401
    """The result of the whole analysis of a log of two variants."""
    experiment = define_experiment(
        period={"start": "2026-01-08", "end": "2026-01-15"},
        logs={"impressions": {}},
        metrics=[{"name": "ctr"}, {"name": "clicks_per_user"}],
        trust={"aa_runs": 0},
        **entries,
    )
    return experiment.analyze(logs={"impressions": log})


class Seed(NamedTuple):
    """What one seed says.

    Attributes:
        covered: The intervals of both lifts and of both parts hold the truth, in this order.
        error: Of the sum of both parts against the difference of the scorecard.
        untrusted: Whether anything is not to be trusted.
    """

    covered: tuple[bool, bool, bool, bool]
    error: float
    untrusted: bool


def seed_of(seed: int) -> Seed:
    """One seed through the whole analysis."""
    result = analyzed(world(seed), cuts={"scene": "scene"})
    rows = {row.cell: row for row in result.cuts if row.metric == "ctr"}
    (split,) = result.cut_splits
    ends = [(rows[cell].lift_low, rows[cell].lift_high, LIFT[cell]) for cell in ("feed", "home")]
    ends += [(split.within_low, split.within_high, WITHIN), (split.mix_low, split.mix_high, MIX)]
    feed, home, within, moved = (
        low is not None and high is not None and low <= truth <= high for low, high, truth in ends
    )
    whole = result["ctr"].difference or 0.0
    failed = any(check.status == "fail" for check in result.trust)
    judged = any(row.status == "untrusted" for row in result.scorecard)
    reasons = any(row.reason is not None for row in result.cuts)
    return Seed(
        (feed, home, within, moved),
        abs((split.within or 0.0) + (split.mix or 0.0) - whole),
        failed or judged or reasons,
    )


def is_moved_segment(seed: int) -> bool:
    """Whether the same log, with the scene as a segment, has a table that is not to be trusted."""
    result = analyzed(world(seed), segments={"scene": "scene"})
    return all(row.reason == "moved_segment" for row in result.segments)


class Units(NamedTuple):
    """Clicks and impressions of each user in each cell, shape (users, cells)."""

    clicks: Floats
    impressions: Floats


class Level(NamedTuple):
    """Rejections over re-splits.

    Attributes:
        cells: The mean over splits of the share of cells of enough units that are rejected.
        any_cell: The share of splits with any cell after Holm.
        within: The share of splits whose part within cells is rejected.
        mix: The share whose part by the mix is.
    """

    cells: float
    any_cell: float
    within: float
    mix: float


def units_of(log: str) -> Units:
    """The sums of a log by user and tab, each row once."""
    sql = """
    with once as (select distinct * from read_parquet($log))
    select user_id, tab, sum(is_click) as clicks, count(*) as impressions from once group by all
    """
    with duckdb.connect() as connection:
        rows = connection.execute(sql, {"log": log}).df()
    user, users = pd.factorize(rows["user_id"], sort=True)
    cell, cells = pd.factorize(rows["tab"], sort=True)
    sums = np.zeros((2, len(users), len(cells)))
    sums[:, user, cell] = rows["clicks"], rows["impressions"]
    return Units(*sums)


class Draw(NamedTuple):
    """Sums per user and scene, and who is treated, shape (users,)."""

    units: Units
    treated: Bools


def draw(rng: np.random.Generator, users: int = USERS) -> Draw:
    """The sums of the same world, without its rows."""
    treated = rng.random(users) < 0.5
    seen = rng.poisson(8, users) + 1
    feed = rng.binomial(seen, np.where(treated, SHARES[1], SHARES[0]))
    impressions = np.stack([feed, seen - feed], axis=1)
    rates = np.array([CTR["feed"], CTR["home"]]) * np.where(
        treated[:, None], [1 + LIFT["feed"], 1 + LIFT["home"]], 1.0
    )
    readiness = np.exp(rng.normal(-0.045, 0.3, (users, 1)))
    clicks = rng.binomial(impressions, rates * readiness)
    return Draw(Units(clicks.astype(float), impressions.astype(float)), treated)


def coverage_of(draws: int, seed: int = 0) -> list[float]:
    """The shares of draws whose intervals hold both lifts and both parts, as in `Seed`."""
    rng = np.random.default_rng(seed)
    covered = []
    for _ in range(draws):
        units, treated = draw(rng)
        effects = zip(_parts(units, treated), (WITHIN, MIX), strict=True)
        of_parts = [effect.low <= truth <= effect.high for effect, truth in effects]
        lifts = zip(_cells(units, treated), LIFT.values(), strict=True)
        of_cells = [
            cell.lift is not None and cell.lift.low <= truth <= cell.lift.high
            for cell, truth in lifts
        ]
        covered.append([*of_cells, *of_parts])
    return [float(share) for share in np.mean(covered, axis=0)]


def level_of(units: Units, splits: int, seed: int = 0, alpha: float = 0.05) -> Level:
    """Rejection rates over random splits in halves."""
    rng = np.random.default_rng(seed)
    rates = []
    for _ in range(splits):
        treated = rng.random(len(units.clicks)) < 0.5
        cells = [cell.effect for cell in _cells(units, treated)]
        p_values = np.array([effect.p_value for effect in cells if effect is not None])
        adjusted = multiplicity.adjust(p_values.tolist(), "holm")
        parts = [effect.p_value <= alpha for effect in _parts(units, treated)]
        rates.append((float((p_values <= alpha).mean()), float((adjusted <= alpha).any()), *parts))
    return Level(*np.mean(rates, axis=0).tolist())


def _cells(units: Units, treated: Bools) -> list[Comparison]:
    """The cells with enough units, as `inference/segments.py` compares them."""
    metric, compared = load_builtin_metrics(30, 30)["ctr"], []
    for clicks, impressions in zip(units.clicks.T, units.impressions.T, strict=True):
        there = impressions > 0
        control, treatment = (
            Moments.build_with_third(clicks[there & of], impressions[there & of])
            for of in (~treated, treated)
        )
        if min(control.n, treatment.n) >= MIN_UNITS:
            compared.append(compare_moments(metric, control, treatment, Rule()))
    return compared


def _parts(units: Units, treated: Bools) -> tuple[Effect, Effect]:
    """The parts within cells and by their mix."""
    arms = [Units(units.clicks[of], units.impressions[of]) for of in (~treated, treated)]
    control, treatment = (composition.Totals(*(v.sum(axis=0) for v in arm)) for arm in arms)
    sizes = len(arms[0].clicks), len(arms[1].clicks)
    of_arms = composition.gradients(control, treatment, sizes)
    whole = composition.parts(control, treatment)
    effects = []
    for name, value in (("within", whole.within), ("mix", whole.mix)):
        gradients = [getattr(one, name) for one in of_arms]
        before, after = (
            Moments.of(arm.clicks @ g.numerator + arm.impressions @ g.denominator)
            for arm, g in zip(arms, gradients, strict=True)
        )
        effects.append(composition.effect(value, before, after))
    return effects[0], effects[1]


def measure_seeds(_: str, repetitions: int, seed: int) -> Record:
    """Count seeds whose intervals hold the truth, through the whole analysis."""
    seeds = [seed_of(seed + i) for i in range(repetitions)]
    moved = [is_moved_segment(seed + i) for i in range(min(10, repetitions))]
    covered = np.sum([one.covered for one in seeds], axis=0).tolist()
    return {
        "seeds": len(seeds),
        **dict(zip(PARTS, covered, strict=True)),
        "largest error of the sum": f"{max(s.error for s in seeds):.1e}",
        "untrusted": sum(s.untrusted for s in seeds),
        f"as a segment, untrusted (of {len(moved)})": sum(moved),
    }


def measure_draws(_: str, repetitions: int, seed: int) -> Record:
    """Measure the coverage of the same world, drawn as sums per user."""
    shares = (f"{share:.1%}" for share in coverage_of(repetitions, seed))
    return {"draws": repetitions, **dict(zip(PARTS, shares, strict=True))}


def measure_log(log: str, repetitions: int, seed: int) -> Record:
    """Measure the levels of random splits of a log in halves."""
    level = level_of(units_of(log), repetitions, seed)
    heads = ("a cell", "any cell after Holm", "within", "mix")
    shares = (f"{rate:.1%}" for rate in level)
    return {"splits": repetitions, **dict(zip(heads, shares, strict=True))}


PARTS = ("feed +30 %", "home 0", "within", "mix")
LOGS = [log for log in ("../shared/data/kuairand/log.parquet",) if Path(log).exists()]
TABLES = {
    "seeds": Table(measure_seeds, ("scene",), repetitions=100),
    "draws": Table(measure_draws, ("scene",), repetitions=4_000),
    "log": Table(measure_log, LOGS),
}
