"""Calibration of plans: power predicted from a log against power realised in new experiments.

Metrics in logs of 14 days whose users come once, weekly or daily, planned for 7 days and, beyond
the log, for 28; then the decision on two goals and three guardrails, at the units that
`abeval power` plans from a log without time. Power should be 80 %, and shipping as predicted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr

from abeval.api import LoadedExperiment
from abeval.inference.comparison import Rule
from abeval.inference.means_and_ratios import compare_moments
from abeval.inference.outlook import Growth, solve_detectable_effect
from abeval.inference.scorecard import build_rows
from abeval.inference.verdict import decide
from abeval.metrics.definition import Metric, RowTerm
from abeval.results.power import DecisionPlan
from abeval.results.trust import Decision
from abeval.stats import design
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.moments import Moments
from abeval.stats.records import Floats, Integers
from abeval.time.time_sums import find_growth
from benchmarks.runner import Record, Table
from tests.worlds.days import Arm, metric_days
from tests.worlds.experiments import define_experiment, list_metrics, parse_metrics

PEOPLE, LOG_DAYS, LAST = 20_000, 14, 28
BUYS = 0.5
SESSIONS = Metric("sessions per user", "mean", "Σ sessions / units")
CTR = Metric("ctr", "ratio", "Σ clicks / Σ impressions", per=RowTerm("1"))
REVENUE = Metric("revenue per user", "mean", "Σ revenue / units")
METRICS = (SESSIONS, CTR, REVENUE)
USERS = ("once", "weekly", "daily")


class People(NamedTuple):
    """Habits of users: chance to come on a day (0 for once), taste, and price of what they buy."""

    daily: Floats
    once: Integers
    taste: Floats
    price: Floats


def people(rng: np.random.Generator, users: str) -> People:
    """A population."""
    daily = {
        "once": np.zeros(PEOPLE),
        "weekly": rng.beta(1.5, 9.0, PEOPLE),
        "daily": rng.beta(8.0, 2.0, PEOPLE),
    }[users]
    once = rng.integers(0, LAST, PEOPLE)
    return People(daily, once, rng.beta(2, 18, PEOPLE), rng.lognormal(0, 0.3, PEOPLE))


def visits(rng: np.random.Generator, of: People, days: int) -> Integers:
    """Whether each user comes on each day, shape (users, days)."""
    if of.daily.any():
        return (rng.random((PEOPLE, days)) < of.daily[:, None]).astype(np.int64)
    return np.asarray(of.once[:, None] == np.arange(days), dtype=np.int64)


def totals_of_visits(rng: np.random.Generator, of: People, days: int) -> Integers:
    """On how many days each user comes, shape (users,)."""
    if of.daily.any():
        return np.asarray(rng.binomial(days, of.daily))
    return np.asarray(of.once < days, dtype=np.int64)


def values(
    rng: np.random.Generator, of: People, came: Integers, lifts: Sequence[Floats] | None = None
) -> list[Integers]:
    """Sessions, clicks, impressions and cents spent, in the shape of the visits.

    Args:
        rng: Random numbers.
        of: Whose they are.
        came: Their visits.
        lifts: Of sessions, click rate and revenue, for each user.
    """
    taste, price = (one.reshape(-1, *[1] * (came.ndim - 1)) for one in (of.taste, of.price))
    more = [np.zeros(came.shape)] * 3 if lifts is None else lifts
    sessions = came + rng.poisson(0.5 * came)
    shown = sessions + rng.poisson(5.0 * sessions)
    clicks = rng.binomial(shown, np.minimum(taste * (1 + more[1]), 1.0))
    bought = rng.binomial(came, BUYS * (1 + more[2]))
    again = rng.binomial(sessions, more[0])
    return [sessions + again, clicks, shown, np.rint(100 * bought * price).astype(np.int64)]


def parts(metric: Metric, of: list[Integers]) -> tuple[Integers, Integers | None]:
    """Numerator and denominator of a metric; none for a mean."""
    sessions, clicks, shown, cents = of
    return {SESSIONS: (sessions, None), CTR: (clicks, shown), REVENUE: (cents, None)}[metric]


def growths(seed: int, users: str) -> dict[Metric, Growth]:
    """What a log of 14 days tells of each metric."""
    rng = np.random.default_rng([seed, 31])
    of = people(rng, users)
    came = visits(rng, of, LOG_DAYS)
    active = came.any(axis=1)
    logged = [one[active] for one in values(rng, of, came)]
    entry = came[active].argmax(axis=1)
    on = came[active].astype(bool)
    found: dict[Metric, Growth] = {}
    for metric in METRICS:
        y, x = parts(metric, logged)
        arm = Arm(entry, on, y, on if x is None else x)
        days = metric_days({"control": arm}, per_unit=x is None)
        units = np.cumsum(days.table.entry_counts[0]).astype(float).tolist()
        growths = find_growth(metric, days.sum_days(), "control", units, None)
        found[metric] = growths[metric.name]
    return found


def effects_of(of: Growth, days: int) -> tuple[float, float]:
    """The effect that so many days find in 80 %: by growth, and by the whole log's spread."""
    reach = design.compute_mde(1.0)
    error = (4 / of.after(days).information) ** 0.5
    whole = (4 * of.spreads[-1] / of.after(days).units) ** 0.5
    return solve_detectable_effect(error, 1.0, two_sided_quantile(0.05), 0.5), whole * reach


class Arms(NamedTuple):
    """Numerators and denominators of a metric, of the users of each variant who came."""

    y: tuple[Integers, Integers]
    x: tuple[Integers, Integers]


def draw_experiment(
    rng: np.random.Generator, users: str, days: int, effects: Mapping[Metric, float]
) -> dict[Metric, Arms]:
    """Draw a new experiment of so many days, whose treatment has these effects."""
    of = people(rng, users)
    came = totals_of_visits(rng, of, days)
    treated = rng.random(PEOPLE) < 0.5
    lifts = [np.where(treated, effects[metric], 0.0) for metric in METRICS]
    totals = values(rng, of, came, lifts)
    sides = [side & (came > 0) for side in (~treated, treated)]
    arms = {}
    for metric in METRICS:
        y, x = parts(metric, totals)
        per = np.ones_like(y) if x is None else x
        arms[metric] = Arms((y[sides[0]], y[sides[1]]), (per[sides[0]], per[sides[1]]))
    return arms


def find_effects(
    seed: int, users: str, days: int, effects: dict[Metric, float], runs: int
) -> Floats:
    """Tell whether new experiments find each metric's effect, shape (runs, metrics)."""
    rng = np.random.default_rng([seed, 32, days])
    hits = np.zeros((runs, len(METRICS)))
    for run in range(runs):
        for k, (metric, arms) in enumerate(draw_experiment(rng, users, days, effects).items()):
            control, treatment = (Moments.of(*pair) for pair in zip(arms.y, arms.x, strict=True))
            effect = compare_moments(metric, control, treatment, Rule()).effect
            hits[run, k] = effect is not None and effect.p_value < 0.05
    return hits


def true_errors(
    users: str, days: int, effects: Mapping[Metric, float], experiments: int = 40
) -> dict[Metric, float]:
    """Standard error of each metric's relative effect, in experiments of so many days with it."""
    squares: dict[Metric, list[float]] = {metric: [] for metric in METRICS}
    for seed in range(experiments):
        rng = np.random.default_rng([seed, 35, days])
        for metric, (y, x) in draw_experiment(rng, users, days, effects).items():
            variance = _variance(y[0], x[0]) + _variance(y[1], x[1])
            squares[metric].append(variance / (y[0].sum() / x[0].sum()) ** 2)
    return {metric: float(np.sqrt(np.mean(of))) for metric, of in squares.items()}


def _variance(y: Integers, x: Integers) -> float:
    """Sampling variance of Σy / Σx."""
    distances = (y - y.sum() / x.sum() * x) / x.mean()
    return float(distances.var()) / y.size


def _power(se: float, effect: float) -> float:
    """Probability of a significant result, both tails."""
    shift, z = abs(effect) / se, two_sided_quantile(0.05)
    return float(ndtr(shift - z) + ndtr(-shift - z))


def measure_plans(
    cell: tuple[str, int], repetitions: int, seed: int, logs: int = 10
) -> Iterator[Record]:
    """Put the plans of ten logs to the test, each by so many new experiments.

    `whole` is the effect by all units and the spread of the whole log, as it once was.
    """
    users, days = cell
    found = [growths(seed + log, users) for log in range(logs)]
    plans = [{m: effects_of(one[m], days) for m in METRICS} for one in found]
    effects = {m: float(np.mean([plan[m][0] for plan in plans])) for m in METRICS}
    errors = true_errors(users, days, effects)
    hits = np.concatenate(
        [
            find_effects(seed + log, users, days, {m: e for m, (e, _) in plan.items()}, repetitions)
            for log, plan in enumerate(plans)
        ]
    )
    for k, metric in enumerate(METRICS):
        effect, whole = np.mean([plan[metric] for plan in plans], axis=0).tolist()
        yield {
            "users come": users,
            "metric": metric.name,
            "days": days,
            "found in 80 %: by growth, %": f"{100 * effect:.2f}",
            "by the whole log, %": f"{100 * whole:.2f}",
            "power by the true error, %": float(
                np.mean([_power(errors[metric], plan[metric][0]) for plan in plans])
            ),
            "realised, %": float(hits[:, k].mean()),
        }


GOALS, GUARDRAILS = ("clicks", "spent"), ("opened", "seconds", "shown")
MARGIN = 0.04
LOGS = 10
"""Logs whose plans of the decision are tried: the spread in a single log is itself uncertain."""


def outcomes(rng: np.random.Generator, users: int) -> pd.DataFrame:
    """One row a user; all outcomes grow with how active the user is."""
    active = rng.gamma(2.0, 0.5, users)
    return pd.DataFrame(
        {
            "clicks": rng.poisson(3 * active),
            "spent": np.round((rng.random(users) < 0.3) * active * rng.lognormal(0, 0.5, users), 2),
            "opened": rng.poisson(4 * active),
            "seconds": np.round(rng.gamma(3.0, 20.0, users) * (0.5 + active / 2), 1),
            "shown": 1 + rng.poisson(9 * active),
        }
    )


def decision_plan(mde: float, users: int = 20_000, seed: int = 0) -> DecisionPlan:
    """What `abeval power` plans for two goals and three guardrails."""
    rng = np.random.default_rng([seed, 33])
    log = outcomes(rng, users).assign(
        user_id=np.arange(users), variant=np.where(rng.random(users) < 0.5, "a", "b")
    )
    plan = planned().power(mde=mde, logs={"impressions": log}).decision
    if plan is None or plan.units is None:
        raise ValueError("no plan")
    return plan


def planned() -> LoadedExperiment:
    """Two goals and three guardrails over rows of one user each."""
    own: list[dict[str, object]] = [{"name": name, "role": "goal"} for name in GOALS]
    own += [{"name": name, "role": "guardrail", "margin": MARGIN} for name in GUARDRAILS]
    return define_experiment(
        logs={"impressions": {}},
        metrics=[{**one, "value": one["name"], "direction": "increase"} for one in own],
    )


def decisions(units: int, effects: tuple[float, ...], runs: int, seed: int = 1) -> list[Decision]:
    """Decisions on new experiments of so many units; `effects` on each goal."""
    rng = np.random.default_rng([seed, 34])
    metrics = list_metrics(GOALS, GUARDRAILS, MARGIN)
    experiment = parse_metrics(metrics)
    found: list[Decision] = []
    for _ in range(runs):
        frame, treated = outcomes(rng, units), rng.random(units) < 0.5
        comparisons = {}
        for metric, effect in zip(metrics, (*effects, 0.0, 0.0, 0.0), strict=True):
            y = frame[metric.name].to_numpy(float) * np.where(treated, 1 + effect, 1.0)
            control, treatment = (
                Moments.of(y[side], np.ones(side.sum())) for side in (~treated, treated)
            )
            comparisons[metric.name, "b"] = compare_moments(metric, control, treatment, Rule())
        verdict = decide((), tuple(build_rows(experiment, metrics, comparisons)), ())
        found.append(verdict[0].decision)
    return found


def measure_decisions(mde: float, repetitions: int, seed: int) -> Iterator[Record]:
    """Compare how often plans of ten logs ship with what they say, with effects and without."""
    plans = [decision_plan(mde, seed=seed + log) for log in range(LOGS)]
    sizes = [round(plan.units or 0) for plan in plans]
    for truth, effects, predicted in (
        ("both goals", (mde, mde), [plan.ship for plan in plans]),
        ("nothing", (0.0, 0.0), [plan.ship_none for plan in plans]),
    ):
        decided = [
            decision
            for log, units in enumerate(sizes)
            for decision in decisions(units, effects, repetitions, seed + log)
        ]
        yield {
            "effect on each goal": f"{mde:.0%}",
            "units": f"{min(sizes):,} to {max(sizes):,}",
            "truth": truth,
            "predicted: ship, %": float(np.mean([share or 0.0 for share in predicted])),
            "realised: ship, %": decided.count("ship") / len(decided),
        }


TABLES = {
    "metrics": Table(measure_plans, [(u, d) for u in USERS for d in (7, 28)], repetitions=100),
    "decisions": Table(measure_decisions, (0.03, 0.1), repetitions=100),
}
