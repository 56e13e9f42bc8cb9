"""Seven experiments whose pages must be readable: what `screens.py` and the tests look at.

Each is a log that is written here and goes through the whole analysis.
"""

import io
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import abeval
from abeval.aggregates.collect import collect_prepared
from abeval.experiment.metrics import named_metrics
from abeval.logs.run import opened
from abeval.results.study import Study
from abeval.study import analysed

SAMPLE = Path(__file__).parents[1] / "sample_logs" / "experiment.toml"
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


def experiment(names: Iterable[str], **entries: Any) -> abeval.LoadedExperiment:  # noqa: ANN401
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
        names: What `named00`, `named01` and so on become in the result: an experiment file lets no
            name be hostile, a JSON may have any.
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
        with opened(loaded.experiment, {"logs": self.logs}) as run:
            collected = collect_prepared(run, named_metrics(run.experiment))
            return self._renamed(analysed(run, collected))

    def _renamed(self, study: Study) -> Study:
        if not self.names:
            return study
        escaped = [json.dumps(name)[1:-1] for name in self.names]
        text = re.sub(r"named(\d\d)", lambda m: escaped[int(m[1])], study.to_json())
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
            {"name": f"named{i:02}", "value": f"x{i}", "role": role}
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


WORLDS: Mapping[str, Callable[[], World]] = {
    "sample": sample,
    "without_effect": without_effect,
    "failed_trust": failed_trust,
    "without_units": without_units,
    "sixteen_units": sixteen_units,
    "hostile": hostile,
    "small_csv": small_csv,
}
