"""Spark sessions for tests: small, quiet, one at a time; tests are skipped where there is none."""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def spark_session(master: str = "local[2]") -> Iterator[Any]:
    """A session of its own; the test is skipped where pyspark or Java is missing."""
    sql = pytest.importorskip("pyspark.sql", reason='no pyspark: pip install "abeval[spark]"')
    if shutil.which("java") is None:
        pytest.skip("no Java: Spark needs 17 or newer")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
    }
    builder = sql.SparkSession.builder.master(master).appName("abeval tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        # pyspark has warnings of its own, about pandas and open sockets.
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()
