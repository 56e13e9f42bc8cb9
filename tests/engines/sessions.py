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


OPTIONS = [part for name, value in SETTINGS.items() for part in ("--conf", f"{name}={value}")]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def spark_program(name: str) -> str:
    pyspark = pytest.importorskip("pyspark", reason='no pyspark: pip install "abeval-logs[spark]"')
    if shutil.which("java") is None:
        pytest.skip("no Java: Spark needs 17 or newer")
    return str(Path(pyspark.__file__).parent / "bin" / name)


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """The address of a master with workers of one core each, all processes of this machine."""
    start, port, quiet = [spark_program("spark-class")], free_port(), subprocess.DEVNULL
    deploy, address = "org.apache.spark.deploy", f"spark://localhost:{port}"
    here = ["--host", "localhost", "--webui-port", "0"]
    commands = [[f"{deploy}.master.Master", *here, "--port", str(port)]]
    size = ["--cores", "1", "--memory", "1g"]
    commands += [
        [f"{deploy}.worker.Worker", address, *here, *size, "--work-dir", str(folder / f"{number}")]
        for number in range(workers)
    ]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            processes.append(subprocess.Popen([*start, *command], stdout=quiet, stderr=quiet))  # noqa: S603
            # Workers look for their master once; applications wait for workers.
            if len(processes) == 1:
                _await(port, processes[0])
        yield address
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(60)


@contextmanager
def connect_server(master: str = "local[2]") -> Iterator[str]:
    """The address of a Spark Connect server of its own; skipped where its client is missing."""
    submit = spark_program("spark-submit")
    for name in ("grpc", "grpc_status", "zstandard", "google.rpc"):
        pytest.importorskip(name, reason='no client: pip install "pyspark[connect]"')
    port = free_port()
    options = [*OPTIONS, "--conf", f"spark.connect.grpc.binding.port={port}"]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [submit, "--master", master, *options, "--class", server, "spark-internal"]
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
