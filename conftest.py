"""The same examples on every run, without deadlines; new ones with `EXPLORE=1`."""

import gc
import os
from collections import Counter
from collections.abc import Generator, Sequence

# Read when NumPy is first imported: a worker for each core leaves no core for a second thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, given, settings, strategies

# It runs by itself, where ir_measures and scikit-learn are installed.
collect_ignore = ["tests/offline/sample_vectors.py"]

settings.register_profile("explore", settings.get_profile("default"))
settings.register_profile(
    "repeatable",
    derandomize=True,
    max_examples=50,
    # A busy machine is slow, which says nothing of the code.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("explore" if os.environ.get("EXPLORE") else "repeatable")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while modules are imported, of which nothing is any."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Leave the later cases of a test to `-m slow`, if it says how many are first."""
    cases = Counter[str]()
    for item in items:
        if mark := item.get_closest_marker("first_cases"):
            (first,), test = mark.args, item.nodeid.partition("[")[0]
            cases[test] += 1
            if cases[test] > first:
                item.add_marker("slow")


def pytest_collection_finish() -> None:
    """Look for garbage no more among the modules and tests, which stay to the end.

    They are most of the objects: statsmodels collects at each call of Holm's method, 0.3 seconds.
    """
    # Hypothesis asks the collector once who holds the generators of NumPy: not one that is frozen.
    given(strategies.none())(lambda _: None)()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Analyse the sample once for all examples in docstrings that only read its results."""
    if not isinstance(item, pytest.DoctestItem):
        return (yield)
    import abeval
    from abeval.experiment.load import load_experiment
    from tests.sample import Sample

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(abeval, "load", lambda path: Sample(load_experiment(path)))
        return (yield)
