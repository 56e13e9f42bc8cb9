"""Calibration of plans: power predicted from a log against power realised in new experiments.

    python -m benchmarks.calibration.power
    python -m benchmarks.calibration.power --whole 400

Metrics in logs of 14 days whose users come once, weekly or daily, planned for 7 days and, beyond
the log, for 28; then the decision on two goals and three guardrails, at the units that
`abeval power` plans from a log without time. With `--whole`, each of those experiments goes through
the whole analysis, from its sums on: the check of the split, the scorecard and the verdict.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr

import abeval
from abeval.api import LoadedExperiment
from abeval.experiment.load import parse_experiment
from abeval.inference.comparison import Rule
from abeval.inference.means_and_ratios import compare_moments
from abeval.inference.outlook import Growth, detectable
from abeval.inference.scorecard import build_rows
from abeval.inference.verdict import decide
from abeval.metrics.definition import Margin, Metric, RowTerm
from abeval.results import Decision
from abeval.results.power import DecisionPlan
from abeval.stats import design
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.moments import Moments
from abeval.stats.records import Floats, Integers
from abeval.time.time_sums import find_growth
from benchmarks.calibration.worlds import Arm, metric_days

PEOPLE, LOG_DAYS, LAST = 20_000, 14, 28
BUYS = 0.5
SESSIONS = Metric("sessions per user", "mean", "Σ sessions / units")
CTR = Metric("ctr", "ratio", "Σ clicks / Σ impressions", per=RowTerm("1"))
REVENUE = Metric("revenue per user", "mean", "Σ revenue / units")
METRICS = (SESSIONS, CTR, REVENUE)
USERS = ("once", "weekly", "daily")


class Row(NamedTuple):
    """One metric, kind of user and length of the experiment.

    Attributes:
        users: How users come.
        metric: The metric.
        days: Days planned.
        effect: Mean relative effect that the plans say is found in 80 %.
        whole: The same by all units and the spread of the whole log, as it was.
        expected: Share of new experiments that find it by the true standard error, from 40.
        realised: Share of new experiments with the planned effect that find it.
        runs: New experiments.
    """

    users: str
    metric: str
    days: int
    effect: float
    whole: float
    expected: float
    realised: float
    runs: int


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
    reach = design.mde_from_se(1.0)
    error = (4 / of.after(days).information) ** 0.5
    whole = (4 * of.spreads[-1] / of.after(days).units) ** 0.5
    return detectable(error, 1.0, two_sided_quantile(0.05), 0.5), whole * reach


def realised(seed: int, users: str, days: int, effects: dict[Metric, float], runs: int) -> Floats:
    """Whether new experiments find each metric's effect, shape (runs, metrics)."""
    rng = np.random.default_rng([seed, 32, days])
    hits = np.zeros((runs, len(METRICS)))
    for run in range(runs):
        of = people(rng, users)
        came = totals_of_visits(rng, of, days)
        treated = rng.random(PEOPLE) < 0.5
        lifts = [np.where(treated, effects[metric], 0.0) for metric in METRICS]
        totals = values(rng, of, came, lifts)
        for k, metric in enumerate(METRICS):
            y, x = parts(metric, totals)
            per = np.ones_like(y) if x is None else x
            control, treatment = (
                Moments.of(y[side], per[side])
                for side in (~treated & (came > 0), treated & (came > 0))
            )
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
        of = people(rng, users)
        came = totals_of_visits(rng, of, days)
        treated = rng.random(PEOPLE) < 0.5
        lifts = [np.where(treated, effects[metric], 0.0) for metric in METRICS]
        totals = values(rng, of, came, lifts)
        for metric in METRICS:
            y, x = parts(metric, totals)
            per = np.ones_like(y) if x is None else x
            sides = [side & (came > 0) for side in (~treated, treated)]
            value = y[sides[0]].sum() / per[sides[0]].sum()
            squares[metric].append(sum(_variance(y[s], per[s]) for s in sides) / value**2)
    return {metric: float(np.sqrt(np.mean(of))) for metric, of in squares.items()}


def _variance(y: Integers, x: Integers) -> float:
    """Sampling variance of Σy / Σx."""
    distances = (y - y.sum() / x.sum() * x) / x.mean()
    return float(distances.var()) / y.size


def rows(logs: int, runs: int, kinds: Sequence[str] = USERS) -> Iterator[Row]:
    """Every kind of user and length; each log's own plan is put to the test."""
    for users in kinds:
        found = [growths(seed, users) for seed in range(logs)]
        for days in (7, 28):
            plans = [{m: effects_of(one[m], days) for m in METRICS} for one in found]
            effects = {m: float(np.mean([plan[m][0] for plan in plans])) for m in METRICS}
            errors = true_errors(users, days, effects)
            tried = [
                realised(seed, users, days, {m: e[0] for m, e in plan.items()}, runs)
                for seed, plan in enumerate(plans)
            ]
            hits = np.concatenate(tried) if runs else np.full((1, len(METRICS)), np.nan)
            for k, metric in enumerate(METRICS):
                effect, whole = np.mean([plan[metric] for plan in plans], axis=0).tolist()
                found_it = float(hits[:, k].mean())
                expected = float(np.mean([_power(errors[metric], p[metric][0]) for p in plans]))
                yield Row(users, metric.name, days, effect, whole, expected, found_it, len(hits))


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
    return abeval.define(
        ".",
        name="planned",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"impressions": {}},
        metrics=[{**one, "value": one["name"], "direction": "increase"} for one in own],
    )


def whole_decisions(
    units: int, effects: tuple[float, ...], runs: int, seed: int = 2
) -> list[Decision]:
    """Decisions of whole analyses of new experiments of so many units, by the sums of each."""
    rng = np.random.default_rng([seed, 35])
    loaded = planned()
    found: list[Decision] = []
    for _ in range(runs):
        treated = rng.random(units) < 0.5
        frame = outcomes(rng, units)
        rows: list[dict[str, object]] = []
        for metric, lift in zip((*GOALS, *GUARDRAILS), (*effects, 0.0, 0.0, 0.0), strict=True):
            y = frame[metric].to_numpy(float) * np.where(treated, 1 + lift, 1.0)
            for variant, own in (("a", y[~treated]), ("b", y[treated])):
                sums = {"n": own.size, "sum_y": own.sum(), "sum_yy": float(own @ own)}
                rows.append({"metric": metric, "variant": variant, **sums})
        found.append(loaded.from_sums(pd.DataFrame(rows)).verdicts[0].decision)
    return found


def decisions(units: int, effects: tuple[float, ...], runs: int, seed: int = 1) -> list[Decision]:
    """Decisions on new experiments of so many units; `effects` on each goal."""
    rng = np.random.default_rng([seed, 34])
    metrics = [
        *(Metric(name, "mean", "…", role="goal") for name in GOALS),
        *(
            Metric(name, "mean", "…", role="guardrail", margin=Margin(MARGIN, relative=True))
            for name in GUARDRAILS
        ),
    ]
    experiment = parse_experiment(
        {
            "name": "realised",
            "unit": "user_id",
            "control": "a",
            "variants": {"a": {}, "b": {}},
            "logs": {"impressions": {"path": "none.parquet"}},
            "metrics": [{"name": metric.name, "value": "1"} for metric in metrics],
        }
    )
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


def markdown(table: Iterator[Row]) -> Iterator[str]:
    """Lines of the table of metrics for the documentation."""
    yield (
        "| users come | metric | days | found in 80 %: by growth, % | by the whole log, % | "
        "power by the true error, % | realised, % |"
    )
    yield "|---|---|--:|--:|--:|--:|--:|"
    for row in table:
        shown = "" if np.isnan(row.realised) else f"{100 * row.realised:.1f}"
        yield (
            f"| {row.users} | {row.metric} | {row.days} | {100 * row.effect:.2f} | "
            f"{100 * row.whole:.2f} | {100 * row.expected:.1f} | {shown} |"
        )


def shipping(
    runs: int, mdes: Sequence[float] = (0.03, 0.1), *, whole: bool = False
) -> Iterator[str]:
    """Lines of the table of decisions, by the statistics alone or by whole analyses."""
    judged = whole_decisions if whole else decisions
    yield "| effect on each goal, % | units | truth | predicted: ship, % | realised: ship, % |"
    yield "|--:|--:|---|--:|--:|"
    for mde in mdes:
        plans = [decision_plan(mde, seed=seed) for seed in range(LOGS)]
        truths = (
            ("both goals", (mde, mde), np.mean([plan.ship for plan in plans])),
            ("nothing", (0.0, 0.0), np.mean([plan.ship_none for plan in plans])),
        )
        sizes = [round(plan.units or 0) for plan in plans]
        for name, effects, predicted in truths:
            decided = [
                decision
                for seed, units in enumerate(sizes)
                for decision in judged(units, effects, runs // LOGS, seed)
            ]
            yield (
                f"| {100 * mde:.0f} | {min(sizes):,} to {max(sizes):,} | {name} | "
                f"{100 * predicted:.1f} | {100 * decided.count('ship') / len(decided):.1f} |"
            )


def main() -> None:
    """Run both studies and print their tables in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.power")
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--experiments", type=int, default=100, help="for each log's plan")
    parser.add_argument("--whole", type=int, help="whole analyses of each decision, nothing else")
    parser.add_argument("--users", choices=USERS, action="append", help="only these")
    options = parser.parse_args()
    if options.whole:
        for line in shipping(options.whole, (0.03,), whole=True):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        return
    kinds = options.users or USERS
    for line in markdown(rows(options.logs, options.experiments, kinds)):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    decided = shipping(options.logs * options.experiments) if options.experiments else ()
    sys.stdout.write("\n")
    for line in decided:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()


def _power(se: float, effect: float) -> float:
    """Probability of a significant result, both tails."""
    shift, z = abs(effect) / se, two_sided_quantile(0.05)
    return float(ndtr(shift - z) + ndtr(-shift - z))
