"""Every form of a cause on the rows of a fault, and on rows without it: pure functions."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pandas as pd
import pytest

from abeval.agreement import causes
from abeval.agreement.case import CauseCheck, CauseContext, Finding, Frames, Unchecked
from abeval.agreement.causes import CAUSES, serving
from abeval.results.agreement import AgreementRow
from tests import builders
from tests.history.past import replayed

CHECKS: Mapping[str, CauseCheck] = {check.name: check for check in CAUSES}
GROUPS = np.arange(64)
GAP = AgreementRow(
    *("treatment", "auc", "ctr", "goal", -0.05, -0.06, -0.04, 0.059, 0.03, 0.09, "conflict"),
    reason=None,
)


def of(facts: Frames | None = None, **differences: tuple[float, float]) -> CauseContext:
    """A variant whose candidate loses offline and wins online."""
    replay = replayed("ranker_v2", {"auc": (-0.05, 0.005), **differences})
    names = ("control", "treatment", "ranker_v1", "ranker_v2")
    return CauseContext(*names, 0.05, builders.result(), replay, facts=facts, gap=GAP)


def judged(name: str, facts: Frames) -> Finding:
    found = CHECKS[name].judge(of(facts))
    assert isinstance(found, Finding)
    return found


def sides(control: Mapping[str, object], variant: Mapping[str, object]) -> pd.DataFrame:
    """Rows of 64 groups of units of both sides; numbers differ a little from group to group."""
    both = {"control": control, "variant": variant}
    rows = pd.concat(
        pd.DataFrame({"side": side, "cluster": GROUPS, **values}) for side, values in both.items()
    )
    return rows.assign(impressions=1000 + rows["cluster"] % 3)


def pairs(parts: Mapping[str, tuple[float, float]], variant: str = "control") -> pd.DataFrame:
    """Pairs of each part, and the shares of them that the baseline and the candidate win."""
    noise = 2 * (GROUPS % 5 - 2)
    return pd.concat(
        pd.DataFrame(
            {
                **{"part": part, "variant": variant, "cluster": GROUPS, "pairs": 1000},
                "baseline_halves": 2000 * baseline + noise,
                "candidate_halves": 2000 * candidate + np.roll(noise, 7),
                "halves": 2000 * candidate + noise,
            }
        )
        for part, (baseline, candidate) in parts.items()
    )


HEALTHY = {
    **{f"{flag}_known": 1000 for flag in ("timeout", "fallback", "empty", "latency")},
    **{"timeout": 10, "fallback": 5, "empty": 0, "latency_thousandths": 20_000 + GROUPS},
    **{"healthy": 985, "healthy_clicks": 100 + GROUPS % 3},
}
VERSION = {"model_version": "v1", "age_known": 1000, "stale_known": 1000, "stale": 5}
HOUR = 3_600_000.0 * 1000
SERVED = {
    **{"state": "plain", "compared": 1000, "apart": 2, "unexplained": 2, "unserved": 0},
}
VALUES = {
    **{"compared": 64_000, "own_values": 9_000, "served_values": 9_000, "own_most": 9},
    **{"served_most": 9, "falls": 0, "own_short": 0, "served_short": 0, "lowest": 0.01},
    **{"highest": 0.4, "floored": 0, "capped": 0, "inside": 63_000, "moved": 120},
    **{"own_own": 9.0, "served_served": 4.0, "own_served": 6.0},
}
AS_SERVED = pairs({"plain": (0.7, 0.62)}, "treatment")
SAME = pairs({"plain": (0.7, 0.7)}, "treatment")


def values(**changes: float) -> pd.DataFrame:
    return pd.DataFrame([{"side": "control", **VALUES}, {"side": "variant", **VALUES, **changes}])


def served(scores: pd.DataFrame, loss: pd.DataFrame, **changes: float) -> Frames:
    apart = sides(SERVED, {**SERVED, **changes})
    return {"served_apart": apart, "served_values": scores, "pairs:served": loss}


def late(share: float, alone: float) -> Frames:
    features = pairs({"recent": (0.5, alone)}).assign(variant="control")
    known = sides(*[{"feature_known": 1000, "late": 1000 * share}] * 2)
    frames = {"served_sums": known, "pairs:features": features}
    return {**frames, "pairs:served": AS_SERVED}


def clicked(here: float, elsewhere: float) -> Frames:
    control = {"units": 100, "here": 50 + GROUPS % 3, "elsewhere": 50 + GROUPS % 4}
    variant = {"units": 100, "here": here + GROUPS % 3, "elsewhere": elsewhere + GROUPS % 4}
    return {"treated": sides(control, variant)}


def learned(unlearned: float, clicks: float) -> Frames:
    known = {"tenth": 1, "clicks": 100 + GROUPS % 3, "unlearned": 20, "unlearned_clicks": 2}
    changed = {"unlearned": unlearned + GROUPS % 3, "unlearned_clicks": clicks}
    policies = pd.DataFrame({"policy": ["old", "new"], "trained": [90, 10]})
    return {"learned_items": sides(known, {**known, **changed}), "training_policies": policies}


def trained(test: float) -> Frames:
    train = pairs({"training": (0.5, 0.9)}, "training")
    return {"pairs:training": train, "pairs:learned": pairs({"new": (0.6, test)})}


def seen(share: float) -> Frames:
    counts = {"learned": 1000 * share + GROUPS % 2}
    by_part = pairs({"learned": (0.6, 0.9), "new": (0.6, 0.61)})
    return {"served_sums": sides(counts, counts), "pairs:learned": by_part}


FOUND: list[tuple[str, Frames, Frames, str]] = [
    (
        "serving",
        {"served_sums": sides(HEALTHY, {**HEALTHY, "timeout": 80 + GROUPS % 3})},
        {"served_sums": sides(HEALTHY, HEALTHY)},
        "Serving: 8.1% of the variant's rows and 1.0% of control's have a timeout.",
    ),
    (
        "stale_model",
        {"served_sums": sides({**VERSION, "age_ms": HOUR}, {**VERSION, "age_ms": 60 * HOUR})},
        {"served_sums": sides({**VERSION, "age_ms": HOUR}, {**VERSION, "age_ms": 2 * HOUR})},
        "Stale model: the variant's model is 59 hours older than control's.",
    ),
    ("leakage", late(0.2, 0.99), late(0.0, 0.6), "recent alone has an AUC of 0.990"),
    (
        "served_score",
        served(values(), AS_SERVED, apart=300, unexplained=300),
        served(values(), SAME),
        "Served scores: 30.0% of the variant's rows were served with another score.",
    ),
    (
        "half_precision",
        served(values(served_values=12, moved=60_000), AS_SERVED),
        served(values(), AS_SERVED),
        "have 12 different values, the model's own 9,000; the AUC changes by -0.080",
    ),
    ("cannibalised", clicked(70, 36), clicked(70, 50), "+19.5% of all clicks where"),
    ("training_policy", learned(300, 10), learned(20, 2), "old (90%) and new (10%) logged"),
    ("overfitting", trained(0.62), trained(0.89), "0.900 on its training data and 0.620 on"),
    ("overlap", seen(0.5), seen(0.0), "Overlap: 50.0% of control's rows"),
]


@pytest.mark.parametrize(("name", "fault", "none", "words"), FOUND, ids=[f[0] for f in FOUND])
def test_a_fault_exceeds_its_limit_and_rows_without_it_do_not(
    name: str, fault: Frames, none: Frames, words: str
) -> None:
    found = judged(name, fault)
    assert found.exceeds
    assert found.p_value is not None
    assert found.p_value < 1e-3
    assert words in found.message
    assert all(number.value is not None for number in found.evidence)
    assert not judged(name, none).exceeds


def test_served_scores_that_stop_at_a_cap_have_a_remedy_of_their_own() -> None:
    capped = values(capped=6_400, inside=57_600, moved=0, served_most=6_400)
    found = judged("served_score", served(capped, AS_SERVED, apart=100, unexplained=100))
    assert "served scores stop at 0.4 in 10.0% of the variant's rows" in found.message
    assert found.remedy == "Rank by the scores before they are clipped."
    correlations = [e.value for e in found.evidence if e.name == "rank correlation"]
    assert correlations == [1.0, 1.0]


@pytest.mark.parametrize("name", ["served_score", "half_precision"])
def test_what_served_scores_lose_of_the_auc_is_above_zero(name: str) -> None:
    found = judged(name, served(values(), AS_SERVED))
    (lost,) = (e for e in found.evidence if e.name.startswith("AUC lost"))
    assert lost.value == pytest.approx(0.7 - 0.62)
    assert lost.low is not None
    assert lost.high is not None
    assert lost.low < 0.08 < lost.high


def test_rows_of_items_hardly_learned_count_where_no_learned_item_has_their_score() -> None:
    """Half of the variant's rows are in a tenth of scores of their own."""
    usual, alone = learned(20, 2)["learned_items"], learned(20, 2)["learned_items"]
    alone = alone[alone.side == "variant"].assign(tenth=2)
    alone["unlearned"], alone["unlearned_clicks"] = alone.impressions, alone.clicks
    for rows, share in ((pd.concat([usual, alone]), 0.51), (pd.concat([usual[:64], alone]), 1.0)):
        facts = {**learned(20, 2), "learned_items": rows}
        (found,) = (
            e.value
            for e in judged("training_policy", facts).evidence
            if e.name == "rows of items hardly learned" and e.where == "treatment"
        )
        assert found == pytest.approx(share, abs=0.01)


def test_a_cause_without_its_rows_says_what_it_needs() -> None:
    empty = {"served_sums": sides(*[{**HEALTHY, **dict.fromkeys(NONE, 0)}] * 2)}
    found = CHECKS["serving"].judge(of(empty))
    assert isinstance(found, Unchecked)
    assert found.needs == ("timeout", "fallback", "[agreement] empty", "[agreement] latency")


def test_rounding_has_one_limit() -> None:
    assert [*CHECKS["half_precision"].limits] == [serving.FEW]


def test_every_table_of_causes_has_its_function_and_words_where_that_returns_none() -> None:
    text = Path(causes.__file__).with_name("causes.toml").read_text("utf-8")
    assert [*tomllib.loads(text)] == [*CHECKS]
    for name, check in CHECKS.items():
        returned = get_args(get_type_hints(check.function)["return"])
        assert (type(None) in returned) == bool(check.unknown), name


NONE = [name for name in HEALTHY if name.endswith("_known")]


@pytest.mark.parametrize(("share", "closed"), [(0.0, 1.0), (-0.025, 0.5), (-0.1, 0.0)])
def test_the_gap_closes_as_far_as_the_offline_difference_reaches_zero(
    share: float, closed: float
) -> None:
    case = of()
    assert case.closed_offline(-0.05, share) == pytest.approx(closed)
    assert case.closed_by_auc(share + 0.05) == pytest.approx(closed)


def test_the_gap_closes_as_the_effect_reaches_the_sign_of_the_models() -> None:
    case = of()
    assert (case.offline_sign, case.sign) == (-1, 1)
    assert case.closed_online(0.06, -0.01) == 1.0
    assert case.closed_online(0.06, 0.03) == pytest.approx(0.5)
    rates = np.array([0.1, 0.106]), np.array([0.1, 0.103])
    assert case.closed_by_rates(*rates) == pytest.approx(0.5)
