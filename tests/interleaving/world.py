"""A small log of interleaved lists, whose users like one ranker's items better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

import abeval
from abeval.api import LoadedExperiment

SALT = "mix-1"
ITEMS = [f"i{n}" for n in range(12)]
START = pd.Timestamp("2026-09-01")


def log(
    seed: int = 1,
    users: int = 120,
    like: Mapping[str, float] | None = None,
    rankers: str = "AB",
    method: Any = "team_draft",
    length: int = 6,
) -> pd.DataFrame:
    """One row an impression; a user clicks a ranker's items as often as `like` says."""
    rng, rows = np.random.default_rng(seed), []
    like = like or dict.fromkeys(rankers, 0.2)
    for user in range(users):
        for number in range(1 + int(rng.integers(8))):
            lists = {name: rng.permutation(ITEMS).tolist() for name in rankers}
            request = f"{user}-{number}"
            shown = abeval.interleave(lists, method, salt=SALT, request_id=request, length=length)
            time = START + pd.Timedelta(days=int(rng.integers(7)), hours=8 + number)
            for one in shown:
                chance = 0.2 if one.team is None else like[one.team]
                click = int(rng.random() < chance / one.position**0.5)
                rows.append(
                    {
                        "user_id": user,
                        "request_id": request,
                        "item_id": one.item,
                        "position": one.position,
                        "time": time,
                        "team": one.team,
                        "credit": one.credit,
                        "click": click,
                        "dwell": click * float(rng.integers(1, 60)),
                        **{f"rank_{r}": lists[r].index(one.item) + 1 for r in rankers},
                    }
                )
    return pd.DataFrame(rows)


def experiment(rankers: str = "AB", **changes: Any) -> LoadedExperiment:
    """The experiment of such a log."""
    own = {"team": "team", "salt": SALT, "ranks": {r: f"rank_{r}" for r in rankers}}
    own |= changes.pop("interleaving", {})
    entries: dict[str, Any] = {
        "name": "mixed",
        "unit": "user_id",
        "control": rankers[0],
        "period": {"start": "2026-09-01", "end": "2026-09-08"},
        "variants": {name: {} for name in rankers},
        "interleaving": {k: v for k, v in own.items() if v is not None},
        "logs": {"impressions": {"path": "none.parquet", "columns": {"ts": "time"}}},
    }
    return abeval.define({**entries, **changes})
