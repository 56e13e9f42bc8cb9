"""Spark sessions for tests: small, quiet, one at a time; tests are skipped where there is none."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from abeval.engines.spark.session import TABLE

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""No query is compiled: most are run once, on few rows."""

_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

SETTINGS = {
    **TABLE["no_history"],
    **INTERPRETED,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
}


@contextmanager
def connect_server() -> Iterator[str]:
    """The address of a Spark Connect server of its own; skipped where its client is missing."""
    pyspark = pytest.importorskip("pyspark", reason='no pyspark: pip install "abeval-logs[spark]"')
    for name in ("grpc", "grpc_status", "zstandard", "google.rpc"):
        pytest.importorskip(name, reason='no client: pip install "pyspark[connect]"')
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    settings = {**SETTINGS, "spark.connect.grpc.binding.port": str(port)}
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [submit, "--master", "local[2]", *options, "--class", server, "spark-internal"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet)  # noqa: S603 (our own words)
    try:
        _await(port, process)
        yield f"sc://localhost:{port}"
    finally:
        process.terminate()
        process.wait(60)


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(180):
        with suppress(OSError), socket.create_connection(("localhost", port), timeout=1):
            return
        assert process.poll() is None, "the server stopped"
        time.sleep(0.5)
    pytest.fail("the server did not start")


@contextmanager
def spark_session(master: str = "local[2]") -> Iterator[Any]:
    """A session of its own; the test is skipped where pyspark or Java is missing."""
    sql = pytest.importorskip("pyspark.sql", reason='no pyspark: pip install "abeval-logs[spark]"')
    if shutil.which("java") is None:
        pytest.skip("no Java: Spark needs 17 or newer")
    builder = sql.SparkSession.builder.master(master).appName("abeval tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with warnings.catch_warnings():
        # pyspark has warnings of its own, about pandas and open sockets.
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()
