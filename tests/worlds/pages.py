"""Experiments whose pages must be readable: what the tests look at.

Each is a log that is written here and goes through the whole analysis. `WORLDS` are for what the
first screen says, `PAGES` are twelve pages of every kind.
"""

import io
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
import pandas as pd

import abeval
from abeval.aggregates.collect import collect_prepared
from abeval.experiment.metrics import find_metrics_by_name
from abeval.logs.run import open_run
from abeval.results.study import Study
from abeval.study import analyze_with_outlook

SAMPLE = Path(__file__).parents[2] / "sample_logs" / "experiment.toml"
START = pd.Timestamp("2026-03-02")
METRICS = (
    {"name": "ctr", "role": "goal"},
    {"name": "clicks_per_user", "role": "goal"},
    {"name": "sessions_per_user", "role": "guardrail", "margin": 0.05},
    {"name": "impressions_per_user"},
    {"name": "active_days_per_user"},
    {"name": "page_views_per_user"},
)
HOSTILE = (
    "</script><script>window.pwned=1</script>",
    '<img src=x onerror=window.pwned=1> & "quoted" \'%{x}',
    "left \u202eto right",
    "a_very_long_name_without_any_space_that_somebody_wrote_in_a_hurry_and_never_shortened_again",
    "κλικ ανά χρήστη 点击率 نسبة",
)


def log(sizes: Mapping[str, int], days: int = 10, seed: int = 3) -> pd.DataFrame:
    """Impressions of so many users a variant, who all click alike."""
    rng = np.random.default_rng(seed)
    variants = np.repeat(list(sizes), list(sizes.values()))
    rows = 1 + rng.poisson(7, len(variants))
    users = np.repeat(np.arange(len(variants)), rows)
    taste = rng.beta(2, 12, len(variants))
    minutes = rng.integers(0, days * 24 * 60, len(users))
    return pd.DataFrame(
        {
            "user_id": users,
            "variant": variants[users],
            "ts": START + pd.to_timedelta(minutes, unit="min"),
            "click": (rng.random(len(users)) < taste[users]).astype(int),
            "device": np.array(["phone", "tablet", "desktop"])[users % 3],
            "request_id": np.arange(len(users)) // 2,
        }
    )


def experiment(names: Iterable[str], **entries: Any) -> abeval.LoadedExperiment:
    """Of a log of impressions."""
    return abeval.define(
        {
            "name": "new ranker",
            "unit": "user_id",
            "control": next(iter(names)),
            "variants": {name: {} for name in names},
            "period": {"start": date(2026, 3, 2), "end": date(2026, 3, 12)},
            "cleaning": {"duplicates": "unchecked"},
            "logs": {"impressions": {}},
            "metrics": [dict(metric) for metric in METRICS],
            "segments": {"device": "device"},
            **entries,
        }
    )


@dataclass(frozen=True)
class World:
    """An experiment and its logs.

    Attributes:
        loaded: The experiment.
        logs: Frames by name of the log.
        names: What `named 00` and so on become in the result: an experiment file lets no name be
            hostile, a JSON may have any.
    """

    loaded: abeval.LoadedExperiment
    logs: Mapping[str, object]
    names: tuple[str, ...] = ()

    def study(self) -> Study:
        """All that is known."""
        return self._renamed(self.loaded.study(logs=self.logs))

    def first(self) -> Study:
        """What the first screen needs: goals, guardrails, and how long still."""
        own = [m.model_dump(exclude_unset=True) for m in self.loaded.experiment.metrics]
        judging = [metric for metric in own if metric.get("role", "diagnostic") != "diagnostic"]
        loaded = self.loaded.replace(metrics=judging)
        with open_run(loaded.experiment, {"logs": self.logs}) as run:
            collected = collect_prepared(run, find_metrics_by_name(run.experiment))
            return self._renamed(analyze_with_outlook(run, collected, daily=None))

    def _renamed(self, study: Study) -> Study:
        if not self.names:
            return study
        escaped = [json.dumps(name)[1:-1] for name in self.names]
        written = json.dumps(study.to_dict(), ensure_ascii=False)
        text = re.sub(r"named (\d\d)", lambda m: escaped[int(m[1])], written)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "study.json"
            file.write_text(text, encoding="utf-8")
            return abeval.read_results([file])


def sample() -> World:
    """The sample logs: ship."""
    return World(abeval.load(SAMPLE), {})


def without_effect() -> World:
    """Four variants that are all the same."""
    sizes = dict.fromkeys("ABCD", 1200)
    return World(experiment(sizes), {"impressions": log(sizes)})


def failed_trust() -> World:
    """A quarter of treatment's users was lost."""
    sizes = {"control": 2000, "treatment": 1500}
    return World(experiment(sizes), {"impressions": log(sizes)})


def without_units() -> World:
    """A variant that nobody got."""
    sizes = {"control": 1500, "treatment": 1500}
    return World(experiment([*sizes, "forgotten"]), {"impressions": log(sizes)})


def sixteen_units() -> World:
    """A variant of 16 users, as planned."""
    sizes = {"control": 1600, "pilot": 16}
    variants = {name: {"weight": size} for name, size in sizes.items()}
    return World(experiment(sizes, variants=variants), {"impressions": log(sizes)})


def hostile() -> World:
    """Sixty metrics of hostile names in four variants of hostile names."""
    rng = np.random.default_rng(8)
    variants = ["control", *HOSTILE[:3]]
    units = 1200
    roles = ["goal"] * 3 + ["guardrail"] * 3 + ["diagnostic"] * 54
    columns = {"unit_id": "user", "variant": "group"}
    entries: dict[str, Any] = {
        "name": HOSTILE[0],
        "unit": "user",
        "control": "control",
        "variants": {name: {} for name in variants},
        "logs": {"units": {"columns": columns}},
        "segments": {"device": "device"},
        "metrics": [
            {"name": f"named {i:02}", "value": f"x{i}", "role": role}
            | ({"margin": 0.05} if role == "guardrail" else {})
            for i, role in enumerate(roles)
        ],
    }
    frame = pd.DataFrame(
        {
            "user": np.arange(units),
            "group": np.array(variants)[np.arange(units) % 4],
            "device": np.array(["phone", "<b>tablet</b>"])[rng.integers(0, 2, units)],
            **{f"x{i}": rng.gamma(2.0, 3.0, units) for i in range(60)},
        }
    )
    names = (*HOSTILE, *(f"metric {i}" for i in range(len(HOSTILE), 60)))
    return World(abeval.define(entries), {"units": frame}, names)


def small_csv() -> World:
    """A CSV of 72 rows, without a log of clicks."""
    text = log({"control": 10, "treatment": 10}, days=3).iloc[::2].head(72).to_csv(index=False)
    period = {"start": date(2026, 3, 2), "end": date(2026, 3, 5)}
    rows = pd.read_csv(io.StringIO(text), parse_dates=["ts"])
    return World(experiment(("control", "treatment"), period=period), {"impressions": rows})


def users(effects: Mapping[str, float], **entries: Any) -> World:
    """A log of impressions in which each variant clicks so much more, of 1,500 users each."""
    sizes = dict.fromkeys(effects, 1500)
    frame = log(sizes)
    rng = np.random.default_rng(9)
    more = frame["variant"].map(dict(effects)).to_numpy()
    clicked = frame["click"].to_numpy()
    frame["click"] = np.where(rng.random(len(frame)) < abs(more), more > 0, clicked).astype(int)
    return World(experiment(sizes, **entries), {"impressions": frame})


def three_mixed() -> World:
    """One variant is better, one worse, one the same."""
    return users({"control": 0.0, "better": 0.04, "worse": -0.2, "same": 0.0})


def in_progress() -> World:
    """At the second of three planned looks."""
    looks = {"looks": "group_sequential", "planned_looks": [0.25, 0.5]}
    period = {"start": date(2026, 3, 2), "end": date(2026, 3, 22)}
    return users({"control": 0.0, "treatment": 0.04}, inference=looks, period=period)


def always_valid() -> World:
    """Intervals that hold at every look."""
    looks = {"looks": "always_valid"}
    return users({"control": 0.0, "treatment": 0.04}, inference=looks)


def ramp() -> World:
    """Treatment had a fifth of the users at first, then half."""
    days, share = 10, (0.2, 0.5)
    rng = np.random.default_rng(4)
    parts = []
    for part, treated in enumerate(share):
        sizes = {"control": round(1800 * (1 - treated)), "treatment": round(1800 * treated)}
        frame = log(sizes, days // 2, seed=part)
        frame["user_id"] += part * 10_000
        frame["ts"] += timedelta(days=part * days // 2)
        frame["click"] |= (rng.random(len(frame)) < 0.03) & (frame["variant"] == "treatment")
        parts.append(frame)
    splits = [
        {"from": date(2026, 3, 2 + i * days // 2), "weights": {"control": 1 - s, "treatment": s}}
        for i, s in enumerate(share)
    ]
    loaded = experiment(("control", "treatment"), assignment={"splits": splits})
    return World(loaded, {"impressions": pd.concat(parts)})


def of_table(
    metrics: int,
    variants: int,
    cells: int,
    words: str = "metric {}",
    adjust: str = "none",
) -> World:
    """A table of units: its metrics, its variants beside control, the cells of its segment."""
    rng = np.random.default_rng(6)
    names, units = ["control", *(f"variant{i}" for i in range(1, variants + 1))], 6000
    group = np.arange(units) % len(names)
    frame = pd.DataFrame(
        {
            "user": np.arange(units),
            "group": np.array(names)[group],
            "region": np.array([f"region {i}" for i in range(max(cells, 1))])[
                rng.integers(0, max(cells, 1), units)
            ],
            "before": rng.gamma(2.0, 3.0, units),
        }
    )
    for i in range(metrics):
        lift = 1 + 0.15 * np.sin(3 * i + 2 * group) * (group > 0)
        frame[f"x{i}"] = (frame["before"] + rng.gamma(2.0, 1.5, units)) * lift
    role = ["goal", "guardrail", *["diagnostic"] * metrics]
    columns = {"unit_id": "user", "variant": "group"}
    before = {"covariates": ["before"]} if adjust == "cuped" else {}
    loaded = abeval.define(
        {
            "name": "table of units",
            "inference": {"adjust": adjust},
            "unit": "user",
            "control": "control",
            "variants": {name: {} for name in names},
            "logs": {"units": {"columns": columns, **before}},
            "metrics": [
                {"name": f"named {i:02}", "value": f"x{i}", "role": role[min(i // 2, 2)]}
                | ({"margin": 0.05} if i // 2 == 1 else {})
                for i in range(metrics)
            ],
            **({"segments": {"region": "region"}} if cells else {}),
        }
    )
    return World(loaded, {"units": frame}, tuple(words.format(i) for i in range(metrics)))


def many() -> World:
    """Thirty metrics in three variants and eight segments."""
    return of_table(30, 3, 8)


def cuped_table() -> World:
    """A table of units with a value of before."""
    return of_table(6, 1, 2, adjust="cuped")


def scripts() -> World:
    """Names in Chinese, Arabic and emoji."""
    return of_table(8, 2, 3, words="点击率 {} نسبة النقر 🎯👩\u200d💻 ")


def one_metric() -> World:
    """One metric and nothing else."""
    return of_table(1, 1, 0)


def without_period() -> World:
    """The whole log, whenever it was."""
    sizes = {"control": 1500, "treatment": 1500}
    whole = experiment(sizes).experiment.model_dump(exclude_unset=True, exclude={"period"})
    return World(abeval.define(whole), {"impressions": log(sizes)})


class Reported(Protocol):
    """What has a page."""

    def report(self, path: Path) -> Path:
        """Write it."""


def conflict() -> Reported:
    """Offline and online contradict each other."""
    return abeval.load(SAMPLE).agree(k=(5,))


def thirty() -> Reported:
    """A history of thirty experiments."""
    study = users({"control": 0.0, "treatment": 0.03}).first()
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        history = abeval.History(Path(folder) / "history.parquet")
        for i in range(30):
            named = study.to_dict()
            analysis = named["analysis"]
            analysis["experiment"]["name"] = f"experiment {i}"
            for row in analysis["scorecard"]:
                lift, low, high = row["lift"], row["lift_low"], row["lift_high"]
                row["lift"] = rng.normal(0.01, (high - low) / 2)
                row["lift_low"], row["lift_high"] = (
                    row["lift"] + end - lift for end in (low, high)
                )
                z = 2 * 1.96 * abs(row["lift"]) / (high - low)
                row["p_value"] = row["p_adjusted"] = 2 - 2 * NormalDist().cdf(z)
            shipped = ["treatment"] if analysis["scorecard"][0]["lift_low"] > 0 else []
            file = Path(folder) / "one.json"
            file.write_text(json.dumps(named), encoding="utf-8")
            history.add(file, shipped=shipped)
        return history.report()


WORLDS: Mapping[str, Callable[[], World]] = {
    "sample": sample,
    "without_effect": without_effect,
    "failed_trust": failed_trust,
    "without_units": without_units,
    "sixteen_units": sixteen_units,
    "hostile": hostile,
    "small_csv": small_csv,
}


def _whole(world: Callable[[], World]) -> Callable[[], Reported]:
    return lambda: world().study()


PAGES: Mapping[str, Callable[[], Reported]] = {
    **{
        world.__name__: _whole(world)
        for world in (
            three_mixed,
            in_progress,
            always_valid,
            ramp,
            failed_trust,
            cuped_table,
            many,
            scripts,
            one_metric,
            without_period,
        )
    },
    "conflict": conflict,
    "thirty": thirty,
}
