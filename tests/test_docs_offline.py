"""The tables of docs/offline.md: every line has its call, and its number by hand on a tiny log."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pytest
from scipy import stats

import abeval
from abeval.assignment import Assignment
from abeval.results.agreement import Agreement
from abeval.results.replay import ReplayResult
from tests.report.pages import figures

PAGE = Path(__file__).parents[1] / "docs" / "offline.md"

TRUTH = pd.DataFrame(
    {
        "request_id": [1] * 4 + [2] * 4,
        "unit_id": [1] * 4 + [2] * 4,
        "item_id": list("abcdefgh"),
        "grade": [1, 0, 1, 0, 0, 1, 0, 0],
        "screen": ["phone"] * 4 + ["desktop"] * 4,
        "split": ["train"] * 4 + ["test"] * 4,
        "is_random": [1, 1, 0, 0, 0, 1, 0, 1],
    }
)
RUN = TRUTH[["request_id", "item_id"]].assign(
    score=[0.8, 0.6, 0.4, 0.2] * 2, stage=["ranked", "ranked", "cheap", "cheap"] * 2
)
PAST = pd.DataFrame({"unit_id": [1, 2], "item_id": ["a", "e"]})
LOG2_OF_3 = math.log2(3)


def lines(head: str) -> list[tuple[str, str, str]]:
    """What is asked, the call and the value, of the table whose first line has this head."""
    text = PAGE.read_text(encoding="utf-8").split(head)[1].split("\n\n")[0]
    rows = [row.strip("|").split("|") for row in text.splitlines()[2:]]
    return [(row[0], row[-2].strip("`"), row[-1]) for row in rows]


def near(value: str) -> Any:
    """A number as it is written: a fraction is exact, of a logarithm the last digit is rounded."""
    digits = len(value.partition(".")[2])
    return pytest.approx(float(Fraction(value)), abs=0.51 * 10**-digits if digits > 3 else 1e-9)


# Metrics of the two lists on the page.

METRICS = [(call, value) for _, call, value in lines("|asked|metric")]


@pytest.fixture(scope="module")
def evaluated() -> dict[str, float | None]:
    metrics = [name for name, _ in METRICS]
    return abeval.evaluate(RUN, TRUTH, metrics=metrics, history=PAST, threshold=0.5).values()


@pytest.mark.parametrize(("name", "value"), METRICS)
def test_each_metric_is_the_number_computed_by_hand(
    evaluated: dict[str, float | None], name: str, value: str
) -> None:
    assert evaluated[name] == near(value)


# Calls on the two lists.


def evaluate_part(metric: str, part: str) -> float | None:
    """A metric of the lists on one part of them."""
    found = abeval.evaluate(RUN, TRUTH, metrics=[metric], where={"part": part})
    return found.result.row(metric, None, "part").value


def in_test_set() -> float | None:
    """The first hit of the only list of the test set is its second item."""
    return evaluate_part("mrr", "split = 'test'")


def stages() -> float | None:
    """Of the relevant items one of two and one of one came through the ranker."""
    return evaluate_part("recall@4", "stage = 'ranked'")


def random_traffic() -> float | None:
    """Clicked a (.8) and f (.6) against b (.6) and h (.2): three pairs are won, one is tied."""
    log, where = TRUTH.merge(RUN), {"random": "is_random = 1"}
    found = abeval.evaluate_log(log, ["score"], metrics=["auc"], where=where)
    return found.result.row("auc", None, "random").value


def viewport() -> float | None:
    """One hit in one place of the phone, one in two of the desktop."""
    k = ["viewport: case when screen = 'phone' then 1 else 2 end"]
    name = "precision@viewport"
    return abeval.evaluate(RUN, TRUTH, metrics=[name], k=k).values()[name]


def evaluate_curve() -> ReplayResult:
    return abeval.evaluate(RUN, TRUTH, metrics=["dcg@2[lin]"], curve=4).result


def mean_of_curve() -> float | None:
    """DCG at 1 to 4 is 1, 1, 1.5, 1.5 and 0, .63093, .63093, .63093."""
    second = 1 / LOG2_OF_3
    at = [1 / 2, (1 + second) / 2, (1.5 + second) / 2, (1.5 + second) / 2]
    (found,) = evaluate_curve().curves
    assert [point.value for point in found.points] == pytest.approx(at)
    assert found.mean == pytest.approx(sum(at) / 4)
    return found.mean


def elbow() -> float | None:
    """At 3 all of the rise is done after two thirds of the way, at 2 .56 of it after one third."""
    return evaluate_curve().curves[0].elbow


def chart() -> float:
    """The line on the page ends at the mean of 1.5 and .63093, to four digits."""
    with TemporaryDirectory() as folder:
        page = evaluate_curve().report(Path(folder) / "page.html").read_text(encoding="utf-8")
    (drawn,) = (figure for name, figure in figures(page).items() if "curve" in name)
    height: float = drawn["data"][0]["y"][-1]
    return height


def models_compared() -> float | None:
    """In the other order the first hits are at 2 and 3: 5/12, against 3/4."""
    runs = {"old": RUN, "new": RUN.assign(score=-RUN.score)}
    return abeval.evaluate(runs, TRUTH, metrics=["mrr"]).result.pair("mrr").difference


def known_ratings() -> float | None:
    """Ratings 1 and 0 of a and b are known, scored .8 and .6; others are no zeros."""
    known = TRUTH[TRUTH.item_id.isin(["a", "b"])]
    return abeval.evaluate(RUN, known, metrics=["mse"], unjudged="drop").values()["mse"]


def ratings_predicted() -> float | None:
    """Six of eight judged pairs have a score."""
    name = "prediction_coverage"
    return abeval.evaluate(RUN[:6], TRUTH, metrics=[name]).values()[name]


def diversity_of_users() -> float | None:
    """Two lists of two share one item: the cosine is 1/2."""
    run = pd.DataFrame({"request_id": [1, 1, 2, 2], "item_id": list("abbc"), "rank": [1, 2, 1, 2]})
    name = "personalisation@2"
    return abeval.evaluate(run, run[["request_id", "item_id"]], metrics=[name]).values()[name]


# Replays of a log of two lists, shown to users of both variants.

SHOWN = [  # user, item, click, dwell, score
    *[(1, "a", 1, 10, 0.8), (1, "b", 0, 0, 0.6), (1, "c", 1, 30, 0.4), (1, "d", 0, 0, 0.2)],
    *[(2, "b", 0, 0, 0.8), (2, "c", 1, 20, 0.6), (2, "d", 0, 0, 0.4), (2, "a", 0, 0, 0.2)],
]
ITEMS = pd.DataFrame(
    {
        "item_id": list("abcd"),
        "category": list("ppqq"),
        "embedding": [[1.0, 0], [0.6, 0.8], [0.0, 1], [-1.0, 0]],
    }
)


def replay(metric: str, model: str = "a", **options: Any) -> float | None:
    """A metric of a model on the lists of variant x."""
    shown = pd.DataFrame(SHOWN, columns=["user", "item_id", "click", "dwell", "a"])
    log = pd.concat([shown.assign(variant=v, user=v + shown.user.astype(str)) for v in "xy"])
    log["request_id"], log["position"] = log.user, 1
    # Candidate generation finds three items of each list, and misses a click of the first.
    listed = log[log.item_id != "a"].assign(stage="candidates", score=0.5)
    loaded = abeval.define(
        name="lists",
        unit="user",
        control="x",
        variants={"x": {"model": "a"}, "y": {"model": "blend"}},
        models={"a": {"score": "a"}, "blend": {"score": "0.8 * (1 - a) + 0.2 * a"}},
        logs={
            "impressions": {},
            "items": {},
            "scores": {"query": "select stage as model, request_id, item_id, score from log"},
        },
    )
    logs = {"impressions": log, "items": ITEMS, "scores": listed}
    return loaded.replay(metrics=[metric], logs=logs, **options).row(metric, model, "x").value


def candidate_generation() -> float | None:
    """One of two clicked items is found, and one of one."""
    return replay("recall@3", "candidates")


def blend() -> float | None:
    """Four parts of the turned score and one of the score turn the lists: 1/2 and 1/3."""
    return replay("mrr", "blend")


def similarity() -> float | None:
    """Clicked items are worth 1, b .8 (its cosine with c, in the first list also .6 with a)."""
    first = (1 + 0.8 / LOG2_OF_3) / (1 + 1 / LOG2_OF_3)
    second = (0.8 + 1 / LOG2_OF_3) / (1 + 0.8 / LOG2_OF_3)
    found = replay("ndcg@2[lin]", relevance="similarity")
    assert found == pytest.approx((first + second) / 2)
    return found


def dwell() -> float | None:
    """By dwell c > a > b, d and c > b, d, a: three of five pairs are won, and two of three."""
    return replay("fcp", relevance="dwell")


def diversity_of_categories() -> float | None:
    """First come a and b of one category, and b and c of two."""
    return replay("ild@2[category]")


def diversity_of_embeddings() -> float | None:
    """The cosine of a and b is .6, that of b and c .8."""
    return replay("ild@2[vectors]")


# An analysis of 40 users of x and 60 of y; half of each have a phone.
#
# On the first day everyone sees a, a, b, c and clicks a. On the second everyone sees a and c in the
# feed, ten minutes apart, and watches a for 40 seconds; phones also see b and c on the web an hour
# later, twenty minutes apart, which users of y watch for 10 seconds each.

ONLINE = (
    *("ctr", "clicks_per_user", "impressions_per_user", "page_views_per_user", "session_length"),
    *("dwell_per_user", "long_click_rate", "novelty", "serendipity"),
)


def visit(user: int) -> Iterable[tuple[object, ...]]:
    """Day, minute, scene, item and dwell of what a user sees."""
    yield from ((1, minute, "feed", item, 40 if minute == 0 else 0) for minute, item in ENUMERATED)
    yield from ((2, 0, "feed", "a", 40), (2, 10, "feed", "c", 0))
    if user % 2:
        seconds = 10 if user >= 40 else 0
        yield from ((2, 60, "web", "b", seconds), (2, 80, "web", "c", seconds))


ENUMERATED = tuple(enumerate("aabc"))


@pytest.fixture(scope="module")
def online() -> dict[str, float | None]:
    """The values of y: of metrics, of CTR in the feed and on phones, and the p-value of SRM."""
    rows = [(user, *row) for user in range(100) for row in visit(user)]
    log = pd.DataFrame(rows, columns=["user", "day", "minute", "scene", "item_id", "dwell"])
    log["ts"] = pd.Timestamp("2026-02-28") + pd.to_timedelta(1440 * log.day + log.minute, unit="m")
    log["variant"] = (log.user < 40).map({True: "x", False: "y"})
    log["request_id"] = log.user.astype(str) + log.day.astype(str) + log.scene
    log["click"] = (log.dwell > 0).astype(int)
    log["category"] = (log.item_id == "a").map({True: "old", False: "fresh"})
    log["device"] = (log.user % 2).map({0: "desktop", 1: "phone"})
    result = abeval.define(
        name="online",
        unit="user",
        control="x",
        variants={"x": {}, "y": {}},
        period={"start": "2026-03-02", "end": "2026-03-03"},
        pre_period={"start": "2026-03-01", "end": "2026-03-02"},
        logs={"impressions": {}},
        metrics=[{"name": name} for name in ONLINE],
        cuts={"scene": "scene"},
        segments={"device": "device"},
        trust={"aa_runs": 0},
    ).analyze(logs={"impressions": log})
    cells = {
        row.cell: row.treatment for row in (*result.cuts, *result.segments) if row.metric == "ctr"
    }
    (srm,) = (check for check in result.trust if check.name == "srm")
    values = {name: result[name].treatment for name in ONLINE}
    mde = result["clicks_per_user"].mde
    return {**values, "mde": mde, "feed": cells["feed"], "phone": cells["phone"], "srm": srm.value}


def test_what_the_window_can_see_follows_from_its_spread() -> None:
    """Users of x click once, those of y once or three times: variance 60/59; e² = E² (1 + e/2)."""
    half = stats.t.ppf(0.975, 59) * math.sqrt(60 / 59 / 60)
    error = half * (1 + stats.norm.ppf(0.8) / stats.norm.ppf(0.975))
    written = next(value for _, call, value in lines("|asked|call|") if call == "mde")
    assert (error**2 + math.sqrt(error**4 + 16 * error**2)) / 4 == near(written)


# How units are split: the first 15 digits of the MD5, modulo a million slots, of which y has half.


def draw(user: int) -> str:
    digits = hashlib.md5(f"asked:{user}".encode(), usedforsecurity=False).hexdigest()[:15]
    return "xy"[int(digits, 16) % 1_000_000 >= 500_000]


USERS = [next(u for u in range(n, 10**6, 1000) if draw(u) == "xy"[n % 2]) for n in range(20)]
"""Every other user is drawn into y."""


def split() -> float:
    assigned = Assignment("asked", {"x": 1, "y": 1}).assign_many(USERS).variant
    assert [*assigned] == [draw(user) for user in USERS]
    return float((assigned == "y").mean())


def audit() -> float | None:
    """The log has the first of twenty users in the other variant."""
    log = pd.DataFrame({"user": USERS, "variant": ["y", *map(draw, USERS[1:])], "click": 1})
    entries: dict[str, Any] = {"variants": {"x": {}, "y": {}}, "logs": {"impressions": {}}}
    loaded = abeval.define(
        name="audit", unit="user", control="x", assignment={"salt": "asked"}, **entries
    )
    return loaded.audit(logs={"impressions": log}).rate


CALLS: dict[str, Callable[[], float | None]] = {
    "test set": in_test_set,
    "stages": stages,
    "random traffic": random_traffic,
    "viewport": viewport,
    "MDCG": mean_of_curve,
    "elbow": elbow,
    "chart": chart,
    "models compared": models_compared,
    "known ratings": known_ratings,
    "ratings predicted": ratings_predicted,
    "candidate generation": candidate_generation,
    "blend": blend,
    "ideal order by embeddings": similarity,
    "preference by dwell": dwell,
    "diversity": diversity_of_categories,
    "of embeddings": diversity_of_embeddings,
    "of users": diversity_of_users,
    "split by hash": split,
    "hash against log": audit,
}
OF_ONLINE = {"[cuts]": "feed", "[segments]": "phone"}


@pytest.mark.parametrize(("asked", "call", "value"), lines("|asked|call|"))
def test_each_call_gives_the_number_computed_by_hand(
    online: dict[str, float | None], asked: str, call: str, value: str
) -> None:
    found = CALLS[asked]() if asked in CALLS else online[OF_ONLINE.get(call, call)]
    assert found == near(value)


# Causes: seven days of twenty users of each variant, each with one list of four places.
#
# Every day 10 users of x click the first item and 4 others the third; of y 10 + day click the
# first, and two others the third: 14 clicks against 12 + day. The first two places are the feed, in
# which the treatment acts; there y shows an item of its own in the second place.

Row = dict[str, Any]


def cause_rows() -> Iterable[Row]:
    for variant, day, user, place in product("xy", range(7), range(20), range(4)):
        is_y = variant == "y"
        time = datetime(2026, 3, 2 + day) + timedelta(minutes=75 * user)
        clicks = (range(10 + day * is_y), (), range(18, 20) if is_y else range(10, 14), ())
        # The baseline orders by place, the candidate also by user.
        old, new = (4 - place) / 8, (4 - place) / 8 - user / 200
        yield {
            "user": f"{variant}{day}-{user}",
            "user_of_day": user,
            "request_id": f"{variant}{day}-{user}",
            "variant": variant,
            "ts": time,
            # A rule swaps the feed of user 17.
            "position": 2 - place if is_y and user == 17 and place < 2 else place + 1,
            "item_id": "new" if is_y and place == 1 else f"item {place}",
            "scene": "feed" if place < 2 else "web",
            "click": int(user in clicks[place]),
            "old": old,
            "new": new,
            "served": (old if user in (2, 3) else new) if is_y else old,
            "timeout": int(is_y and user % 5 == 0),
            "feature_time": time + timedelta(hours=1 if user % 10 == 1 else -1),
            "told": int(place == 0 and user in clicks[0]),
            "model_time": time - timedelta(hours=36 if is_y else 12),
        }


EVIDENCE = (  # of each line: the number of the cause, and its variant, feature or cell
    # User 1 and user 11 of each day have a feature of an hour later.
    ("rows with a later feature", ""),
    # Of 14 clicks it tells 10, and no other row: 10/14 + 4/14/2.
    ("AUC of a feature alone", "told"),
    # Of 14 users without a timeout or a late feature, two are served the baseline's score ...
    ("rows with another score", "y"),
    # ... so that there are 12 · 4 + 4 values for 14 · 4.
    ("share of values left", "y"),
    # At one place the baseline ties all. In 10 · 10 pairs of the first place the candidate wins
    # all, in 4 · 16 of the third it wins 4 · 6: (100 + 24)/164 - 1/2.
    ("AUC difference within positions", "x"),
    # Over all places, of 14 · 66 pairs the candidate wins 10 · 66 + 4 · 26, the baseline, with its
    # ties, 10 · 61 + 4 · 28.
    ("AUC difference", "x"),
    # A list's scores are 1.25 - user/50, on average 1.06; on average 15 of 20 users click.
    ("Q of the candidate", "y"),
    # Users 0 to 9 of x were learned from.
    ("control's rows in the training data", "x"),
    # All their first items are clicked, and score highest. Of others, those clicked at the third
    # place beat 10 of the fourth and 6 of the third, of 36.
    ("fall", ""),
    # Nothing was learned of the second place of the feed.
    ("rows of items hardly learned", "y"),
    ("whole days", ""),
    # On each of the first days 1 of 21, then 20 of 40.
    ("share of the units that entered", "from 2026-03-02"),
    # On average 15 of 20 users click.
    ("share of units in GAUC", "y"),
    # One of four items was never shown by x.
    ("share on items never shown", "y"),
    # Users 0, 5, 10 and 15.
    ("rows with timeout", "y"),
    ("hours since training", "y"),
    # One of the 16 lists without a timeout.
    ("rows out of place", "y"),
    # At the third place 2 clicks for 4, of 14 a day.
    ("change elsewhere", "per impression"),
    # On the sixth day 17 clicks for 14.
    ("lift on days of events", ""),
    # From 12/14 to 18/14.
    ("change of the lift from first to last day", ""),
    # On the web 2 clicks for 4.
    ("lift", "scene web"),
)


def agree(rows: list[Row]) -> Agreement:
    log, learned = (
        pd.DataFrame(rows),
        [r for r in rows if r["variant"] == "x" and r["user_of_day"] < 10],
    )
    loaded = abeval.define(
        name="causes",
        unit="user",
        control="x",
        period={"start": "2026-03-02", "end": "2026-03-09"},
        variants={"x": {"model": "a"}, "y": {"model": "b"}},
        models={"a": {"score": "old"}, "b": {"score": "new"}},
        logs={"impressions": {}, "training": {}},
        metrics=[{"name": "ctr", "role": "goal"}],
        cuts={"scene": "scene"},
        events=[{"name": "sale", "start": "2026-03-07", "end": "2026-03-08"}],
        agreement={
            "served_score": "served",
            "feature_time": "feature_time",
            "features": ["told"],
            "model_time": "model_time",
            "treated": "scene = 'feed'",
        },
        trust={"aa_runs": 0},
    )
    logs = {"impressions": log, "training": pd.DataFrame(learned).assign(policy="x")}
    return loaded.agree(metrics=["auc", "q_ctr", "gauc[impressions]"], logs=logs)


@pytest.fixture(scope="module")
def agreements() -> tuple[Agreement, Agreement]:
    """Of all rows, and of those of a ramp: one user of y on each of the first days."""
    rows = [*cause_rows()]
    early = [r for r in rows if r["variant"] == "x" or r["user_of_day"] < 1 or r["ts"].day > 4]
    return agree(rows), agree(early)


@pytest.mark.parametrize(
    ("cause", "value", "evidence"),
    [(*row[1:], e) for row, e in zip(lines("|asked|cause"), EVIDENCE, strict=True)],
)
def test_each_cause_has_the_number_computed_by_hand(
    agreements: tuple[Agreement, Agreement], cause: str, value: str, evidence: tuple[str, str]
) -> None:
    found = agreements[cause == "split"][cause].evidence
    (number,) = (e.value for e in found if (e.name, e.where) == evidence)
    assert number == near(value)
