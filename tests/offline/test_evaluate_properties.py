"""What must hold of every log: the SQL is the slow reading, and the definitions keep their word."""

from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abeval.offline.evaluate import JudgedColumns, evaluate, evaluate_log
from abeval.offline.metrics import list_default_metrics
from tests.offline import slow
from tests.offline.frames import close

few = settings(max_examples=4, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def random_log(seed, requests=24, longest=9, grades=4, levels=6):
    """A run and a truth with ties, relevant items not listed, empty requests; by request, too."""
    rng = np.random.default_rng(seed)
    run, truth, lists = [], [], {}
    for request in range(requests):
        n, extra = int(rng.integers(1, longest)), int(rng.integers(0, 3))
        grade = rng.integers(0, grades, n + extra) * (rng.random(n + extra) < 0.6)
        scores = rng.integers(0, levels, n) / levels
        run += [(request, item, scores[item]) for item in range(n)]
        truth += [(request, item, float(grade[item])) for item in range(n + extra)]
        # Equal scores stand by the larger item first.
        order = sorted(range(n), key=lambda i: (-scores[i], -i))
        lists[request] = (
            [(float(scores[i]), float(grade[i])) for i in order],
            [float(g) for g in grade[n:] if g > 0],
        )
    frames = (
        pd.DataFrame(run, columns=["request_id", "item_id", "score"]),
        pd.DataFrame(truth, columns=["request_id", "item_id", "grade"]),
    )
    return (*frames, lists)


@pytest.mark.whole
@few
@given(seeds)
def test_every_ranking_metric_is_the_slow_one(seed):
    run, truth, lists = random_log(seed)
    slow_values = {
        request: {
            name: value
            for k in (1, 3, 20)
            for name, value in slow.list_metrics([g for _, g in ranked], unlisted, k).items()
        }
        for request, (ranked, unlisted) in lists.items()
        if unlisted or any(g > 0 for _, g in ranked)
    }
    ids = list(next(iter(slow_values.values()), {"mrr": 0}))
    found = evaluate(run.sample(frac=1, random_state=seed % 1000), truth, metrics=ids)
    frame = found.per_unit["model"]
    for request in lists:
        for name in ids:
            if request in slow_values:
                assert close(frame.loc[request, name], slow_values[request][name]), name
            else:
                assert np.isnan(frame.loc[request, name])
    for name in ids if slow_values else []:
        assert close(found.values()[name], fmean(v[name] for v in slow_values.values()))


@few
@given(seeds)
def test_ties_are_averaged_as_over_every_permutation(seed):
    run, truth, lists = random_log(seed, requests=10, longest=6, levels=2)
    found = evaluate(run, truth, metrics=["ndcg@3[lin,ties]"], no_relevant="zero")
    for request, (scored, _) in lists.items():
        expected = slow.averaged_over_ties(scored, 3)
        assert close(found.per_unit["model"].iloc[request, 0], expected)


@few
@given(seeds)
def test_pairs_are_those_written_out(seed):
    run, truth, lists = random_log(seed, requests=12, longest=12, grades=6)
    ids = ["gauc[units]", "gauc[pairs]", "fcp", "fcp[half]", "auc"]
    found = evaluate(run, truth, metrics=ids).values()
    counts = [slow.pairs(scored) for scored, _ in lists.values()]
    won, lost, tied = (sum(column) for column in zip(*counts, strict=True))
    if won + lost:
        assert close(found["fcp"], won / (won + lost))
    if won + lost + tied:
        assert close(found["fcp[half]"], (won + tied / 2) / (won + lost + tied))
    aucs = [a for scored, _ in lists.values() if (a := slow.auc(scored)) is not None]
    if aucs:
        assert close(found["gauc[units]"], fmean(aucs))
    everyone = [row for scored, _ in lists.values() for row in scored]
    if (expected := slow.auc(everyone)) is not None:
        assert close(found["auc"], expected)


@few
@given(seeds)
def test_gauc_of_one_unit_is_its_auc(seed):
    run, truth, _ = random_log(seed)
    whole = truth.assign(unit_id=1)
    ids = ["gauc[pairs]", "gauc[impressions]", "gauc[units]", "gauc[clicks]", "auc"]
    found = evaluate(run, whole, metrics=ids).values()
    if found["auc"] is not None:
        assert all(close(found[name], found["auc"], 2e-9) for name in ids)


@pytest.mark.slow
@pytest.mark.whole
@few
@given(seeds)
def test_bounds_order_and_monotone_scores(seed):
    run, truth, _ = random_log(seed)
    ranks = [
        m.id for m in list_default_metrics([1, 3, 5]) if m.definition.family in ("list", "pairs")
    ]
    found = evaluate(run, truth, metrics=ranks).values()
    free = ("cg", "dcg", "arhr")
    for name, value in found.items():
        if value is not None and not name.startswith(free):
            assert -1e-12 <= value <= 1 + 1e-12, name
    if found["map@1[R]"] is not None:
        assert found["map@1[R]"] <= found["map@3[R]"] <= found["map@5[R]"]
    shuffled = run.sample(frac=1, random_state=seed % 1000)
    doubled = pd.concat([shuffled, run])
    stretched = run.assign(score=np.exp(3 * run["score"]) - 7)
    for other in (shuffled, doubled, stretched):
        again = evaluate(other, truth, metrics=ranks).values()
        assert again == found


@pytest.mark.whole
@pytest.mark.parametrize("rows", [60_000])
def test_a_long_list_of_unlike_grades_is_not_quadratic(rows):
    # 1.8 billion pairs: written out they would not fit; by rank sums they take a second.
    rng = np.random.default_rng(1)
    grade = (rng.permutation(rows) + 1) / 10
    frame = {"request_id": 1, "item_id": np.arange(rows)}
    run = pd.DataFrame({**frame, "score": grade + rng.normal(0, rows / 30, rows)})
    found = evaluate(run, pd.DataFrame({**frame, "grade": grade}), metrics=["fcp"]).values()
    from scipy import stats

    tau = stats.kendalltau(run["score"], grade).statistic
    assert close(found["fcp"], (1 + tau) / 2)


@pytest.mark.parametrize("beside", [["ndcg@3[lin]"], ["coverage@3"], ["ndcg@3[lin]", "mrr"]])
@pytest.mark.parametrize("lacks", [False, True])
def test_pairs_are_the_same_beside_metrics_of_lists(beside: list[str], lacks: bool) -> None:
    run, truth, _ = random_log(7)
    rows = run.merge(truth, on=["request_id", "item_id"])
    if lacks:
        # A row without a score has a place in no list and no pair.
        rows.loc[::5, "score"] = np.nan
    pairs = ["gauc[units]", "gauc[pairs]", "fcp"]
    columns = JudgedColumns("request_id", None)
    alone = evaluate_log(rows, ["score"], columns=columns, metrics=pairs).values()
    together = evaluate_log(rows, ["score"], columns=columns, metrics=[*beside, *pairs]).values()
    assert {name: together[name] for name in pairs} == alone


@pytest.mark.parametrize("name", ["request_id", "item_id"])
def test_ids_of_more_than_32_bits_rank_as_small_ones(name: str) -> None:
    run, truth, _ = random_log(8)
    metrics = ["ndcg@3[lin]", "map@3[min]", "mrr", "gauc[units]"]
    small = evaluate(run, truth, metrics=metrics)
    large = [frame.assign(**{name: frame[name] + 2**40}) for frame in (run, truth)]
    assert evaluate(*large, metrics=metrics).values() == small.values()


def test_a_list_may_have_larger_ids_of_requests_than_the_truth() -> None:
    run, truth, _ = random_log(9)
    other = run.assign(request_id=run["request_id"] + 2**40)
    found = evaluate(pd.concat([run, other]), truth, metrics=["mrr"])
    assert found.values() == evaluate(run, truth, metrics=["mrr"]).values()
    counts = dict(found.result.accounting)
    assert counts["model: requests_not_in_truth"] == run["request_id"].nunique()


def test_a_request_with_a_fraction_is_not_that_of_the_nearest_number() -> None:
    run, truth, _ = random_log(3)
    strange = run.assign(request_id=run["request_id"] + 0.6)
    both = pd.concat([run.astype({"request_id": float}), strange], ignore_index=True)
    alone, mixed = (evaluate({"model": frame}, truth).result for frame in (run, both))
    assert [row.value for row in mixed.rows] == [row.value for row in alone.rows]
    assert dict(mixed.accounting)["model: requests_not_in_truth"] == run["request_id"].nunique()
