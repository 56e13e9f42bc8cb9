"""The links before and after a model: its training data, its candidates, the order of its lists."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.results.agreement import Agreement
from tests.worlds import ranked
from tests.worlds.plants import simulate_plant

LINKS = ("reordered", "candidates", "training_policy")
METRICS = ["auc"]
SIZE = 20_000


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A log with each fault, and one with none, in random order."""
    folder = tmp_path_factory.mktemp("links")
    for name in (*LINKS, "none"):
        simulate_plant(folder / name, name, SIZE)
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def planted(folders: Mapping[str, Path]) -> Mapping[str, Agreement]:
    return {
        name: abeval.load(folder / "experiment.toml").agree(metrics=METRICS)
        for name, folder in folders.items()
    }


def links(agreement: Agreement) -> dict[str, str]:
    """The status of each of these causes."""
    return {cause.name: cause.status for cause in agreement.causes if cause.name in LINKS}


@pytest.mark.first_cases(1)
@pytest.mark.whole
@pytest.mark.parametrize("name", LINKS)
def test_a_planted_link_is_first_and_no_other_is_named(
    planted: Mapping[str, Agreement], name: str
) -> None:
    first = planted[name].confirmed_causes[0]
    assert first.name == name
    assert first.remedy
    assert first.accounts_for is not None
    assert first.accounts_for >= 0.25
    assert [n for n, status in links(planted[name]).items() if status == "found"] == [name]


@pytest.mark.whole
def test_none_is_named_in_lists_of_random_order(planted: Mapping[str, Agreement]) -> None:
    assert set(links(planted["none"]).values()) == {"not found"}


@pytest.mark.whole
def test_the_evidence_is_what_was_planted(planted: Mapping[str, Agreement]) -> None:
    def value(name: str, evidence: str, where: str = "") -> float:
        known = planted[name][name].evidence
        return next(e.value for e in known if (e.name, e.where) == (evidence, where)) or 0.0

    against = "rows out of place"
    assert value("reordered", against, "control") == 0
    assert value("reordered", against, "treatment") > 0.5
    assert value("reordered", "clicks lost, beyond control's") > 0.1
    assert "above all of news" in planted["candidates"]["candidates"].message
    assert value("candidates", "rows that the variant lacks") > 0.3
    assert value("training_policy", "rows of items hardly learned", "treatment") > 0.25
    assert value("training_policy", "clicks less than others of like scores") > 0.5
    assert value("training_policy", "share of the training data", "production") == 1


@pytest.mark.whole
def test_columns_that_are_missing_are_named(folders: Mapping[str, Path]) -> None:
    loaded = abeval.load(folders["none"] / "experiment.toml")
    frames = {
        "impressions": pd.read_parquet(folders["none"] / "impressions" / "log.parquet"),
        "training": pd.read_parquet(folders["none"] / "training.parquet"),
    }
    lacking = {
        "impressions": frames["impressions"].drop(columns=["request_id", "item_id", "category"]),
        "training": frames["training"].drop(columns="policy"),
    }
    agreement = loaded.agree(metrics=METRICS, logs=lacking)
    assert set(links(agreement).values()) == {"cannot be checked"}
    assert agreement["reordered"].needs == ("request_id",)
    assert agreement["candidates"].needs == ("item_id",)
    policy = "item_id and policy in [logs.training]"
    assert agreement["training_policy"].needs == (policy, "item_id")
    assert policy in agreement["training_policy"].message


def of_world(name: str, *, shuffled: bool = False, preferring: bool = False) -> Agreement:
    """What is said of a ranked log.

    Args:
        name: Of the world.
        shuffled: Whether a later module orders the treatment's lists.
        preferring: Whether each model prefers items of its own, which then fill its lists.
    """
    world, rng = ranked.named_world(name), np.random.default_rng([11, 27])
    known = ranked.pools(world, rng, 800)
    if preferring:
        own = 1.2 * rng.standard_normal((2, known.item.max() + 1))[:, known.item]
        known = known._replace(
            click=known.click + own.sum(axis=0),
            baseline=known.baseline + own[0],
            candidate=known.candidate + own[1],
        )
    shown = ranked.lists(world, known, rng)
    if shuffled:
        treated = (known.treated > 0)[:, None]
        order = np.where(treated, rng.random(shown.place.shape), np.arange(shown.place.shape[1]))
        order = order.argsort(axis=1)
        shown = ranked.Lists(*(np.take_along_axis(values, order, axis=1) for values in shown))
    log = ranked.logged(world, known, shown, rng)
    return ranked.agreement_of(world, log._replace(training=log.training.assign(policy="old")))


@pytest.mark.whole
def test_none_is_named_in_ranked_lists() -> None:
    assert "found" not in links(of_world("better, bias, explored")).values()


@pytest.mark.whole
def test_an_order_that_costs_no_clicks_is_no_cause() -> None:
    cause = of_world("equal, no bias", shuffled=True)["reordered"]
    assert cause.status == "not found"
    assert next(e.value for e in cause.evidence if e.name == "difference") > 0.4


@pytest.mark.slow
@pytest.mark.whole
def test_a_model_that_prefers_other_items_lacks_no_candidates() -> None:
    agreement = of_world("equal, no bias", preferring=True)
    cause = agreement["candidates"]
    assert cause.status == "not found"
    support = next(e for e in agreement["support"].evidence if e.name == "difference")
    assert support.value > 0.1
