"""Starts a small Spark session on this machine, or returns the active one.

1. A session that is already active is returned, never replaced: settings it can take are set on it, a setting or
   master it cannot take is Invalid. Nothing asked for is dropped in silence.
2. A setting of the caller's wins over ours.
3. Answers do not depend on what is chosen here: time zone, ANSI mode and case rules stay the user's.
4. Workers run the interpreter of the driver unless PYSPARK_PYTHON says otherwise.
5. A master that begins with sc:// is a server of Spark Connect; nothing of ours but the settings asked for reaches it.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from holdfast.engines.spark.session.home import two_sparks
from holdfast.engines.spark.session.java import ADVICE, find_java
from holdfast.errors import Invalid, Unavailable
from holdfast.terminal import on_terminal

LOCAL = "local[*]"
REMOTE = "sc://"
OLDEST = 4  # the first major version of Spark with what Holdfast uses

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_GIB = 1 << 30
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def session(app_name: str = "holdfast", *, master: str = LOCAL, **conf: str | int | bool) -> SparkSession:
    """The active SparkSession, or a new one on this machine; with `master="sc://host"`, of a Spark Connect server.

    Settings are keywords: `session(**{"spark.sql.shuffle.partitions": 8})`.
    """
    wanted = {key: _spelled(value) for key, value in conf.items()}
    active = SparkSession.getActiveSession()
    if active is not None:
        return _adjusted(active, master, wanted)
    if master.startswith(REMOTE):
        return _remote(master, wanted)
    if trouble := two_sparks(pyspark.__version__):
        raise Unavailable(trouble)
    _point_at_java()
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # repeats an error as pages of JSON
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in (_defaults(master) | wanted).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _remote(master: str, wanted: dict[str, str]) -> SparkSession:
    if missing := [name for name in ("grpc", "grpc_status", "google.rpc", "zstandard") if not _is_there(name)]:
        raise Unavailable(
            f"{master} is a server of Spark Connect, whose client lacks {', '.join(missing)} here: "
            "pip install 'holdfast[connect]'"
        )
    builder = SparkSession.builder.remote(master)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False


def _spelled(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _adjusted(active: SparkSession, master: str, wanted: dict[str, str]) -> SparkSession:
    if int(active.version.split(".", maxsplit=1)[0]) < OLDEST:
        raise Invalid(f"the running session is one of Spark {active.version}: Holdfast needs Spark {OLDEST} or newer")
    running_on = active.conf.get("spark.master", "")
    if master.startswith(REMOTE) and ".connect." in type(active).__module__:
        master = LOCAL  # which server a client talks to is not among its settings
    if master not in (LOCAL, running_on):
        raise Invalid(f"a Spark session is already running on {running_on}, not on {master}: stop it first, or use it")
    changes = {key: value for key, value in wanted.items() if active.conf.get(key, "") != value}
    fixed = sorted(key for key in changes if not active.conf.isModifiable(key))
    if fixed:
        raise Invalid(
            f"a running Spark session cannot take {', '.join(fixed)}: stop it first, or leave the setting out"
        )
    for key, value in changes.items():
        active.conf.set(key, value)
    return active


def _point_at_java() -> None:
    java = find_java()
    if java is None:
        raise Unavailable(f"Spark needs Java and none was found that is new enough: {ADVICE}")
    os.environ["JAVA_HOME"] = str(java.home)


def _defaults(master: str) -> dict[str, str]:
    settings = {
        "spark.driver.memory": f"{driver_memory_mb(_machine_memory())}m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": str(shuffle_partitions(os.cpu_count() or 1)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": _spelled(on_terminal()),
    }
    if master.startswith("local"):
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return settings


def driver_memory_mb(machine_bytes: int) -> int:
    """Half of the machine between 1 and 8 GiB, but never so much that a small machine has nothing left."""
    half = machine_bytes // 2
    return max(min(half, 8 * _GIB), min(_GIB, machine_bytes * 3 // 4)) >> 20


def shuffle_partitions(cores: int) -> int:
    """Two per core, so that one slow task does not hold a core alone; Spark merges the small ones by itself."""
    return max(4, min(2 * cores, 64))


def _machine_memory() -> int:
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CGROUP_LIMIT.read_text().strip()
    except OSError:
        return installed
    return min(installed, int(limit)) if limit.isdigit() else installed
