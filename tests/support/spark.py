"""The ways to run Spark that tests know as lanes, one session per process.

Lanes share no process: a classic and a Connect session exclude each other. The classic lane, which has most tests, runs
plans without compiling their stages; the marked tests on the other two compile them, as users' sessions do. On the S3
lanes tables lie in a bucket (`tests.support.gateway`), and Spark has no connector for it, or Hadoop's.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import warnings

from pyspark.sql import SparkSession

from holdfast.engines.spark.session.java import find_java
from holdfast.engines.spark.session.local_session import session

S3_LANES = ("s3", "s3-arrow", "s3-hadoop")  # without Spark; Spark by way of Arrow; Spark with Hadoop's connector
LANES = ("classic", "local-cluster", "connect", *S3_LANES)
CONNECT_PORT = 15002  # where remote("local[2]") starts its server; it cannot be told otherwise

_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a test is over before better code or a better collector pays
_SMALL = {
    "spark.driver.memory": "2g",
    "spark.driver.defaultJavaOptions": _QUICK_JAVA,
    "spark.executor.defaultJavaOptions": _QUICK_JAVA,
    "spark.sql.shuffle.partitions": "2",
}
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false"}  # compiling a stage takes longer than its few rows


def start(lane: str, **settings: str) -> SparkSession:
    """A new session of this lane, small enough for a shared machine; `settings` are what a lane needs beside."""
    match lane:
        case "s3-arrow" | "s3-hadoop":
            return session("holdfast-tests", master="local[2]", **_SMALL, **_INTERPRETED, **settings)
        case "classic":
            return session("holdfast-tests", master="local[2]", **_SMALL, **_INTERPRETED)
        case "local-cluster":
            return session("holdfast-tests", master="local-cluster[2,1,1024]", **_SMALL)
        case "connect":
            return _connect()
    raise ValueError(f"no lane {lane}; there are {', '.join(LANES)}")


def _connect() -> SparkSession:
    java = find_java()
    assert java is not None, "no Java; make java finds or installs one"
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _wait_until_free(CONNECT_PORT, limit_s=180)
    builder = SparkSession.builder.remote("local[2]")
    for key, value in {**_SMALL, "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # The settings reach the server as it starts; the client then tries to set them again and warns that it cannot.
        warnings.filterwarnings("ignore", message="Failed to set spark", category=UserWarning)
        return builder.getOrCreate()


def _wait_until_free(port: int, *, limit_s: float) -> None:
    """Another run on this machine may hold the port; its server would refuse our token."""
    until = time.monotonic() + limit_s
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        assert time.monotonic() < until, f"port {port} is taken by another Spark Connect server: stop it"
        time.sleep(1)
