"""Notebooks are whole analyses; the one on Spark needs pyspark and Java."""

import shutil
from collections.abc import Sequence
from importlib.util import find_spec

import pytest

ON_SPARK = "05_at_scale_on_spark.ipynb"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark notebooks as `whole`, or `spark`, which is skipped where it cannot run."""
    missing = find_spec("pyspark") is None or shutil.which("java") is None
    for item in items:
        if item.path.suffix != ".ipynb":
            continue
        item.add_marker(pytest.mark.whole)
        if item.path.name == ON_SPARK:
            item.add_marker(pytest.mark.spark)
            if missing:
                item.add_marker(pytest.mark.skip(reason="no pyspark, or no Java 17"))
