"""One Spark session and one S3 server per process, lanes, a seed per test, and the time each area took."""

from __future__ import annotations

import random
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import holdfast.env
from tests.support.deep import DeepRun, is_deep, is_quick
from tests.support.depth import SEED
from tests.support.gateway import Gateway, connector, gateway, home, tables_in_the_bucket
from tests.support.leftovers import Leftovers
from tests.support.s3 import S3Server, s3_server
from tests.support.spark import LANES, S3_LANES, start

TESTS = Path(__file__).parent
LEFTOVERS = pytest.StashKey[Leftovers]()
LEFT = pytest.StashKey[list[str]]()
GATEWAY = pytest.StashKey[Gateway]()
_TABLES = ("index", "local", "ops", "table")  # areas whose tests work on whole tables


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--lane",
        choices=LANES,
        default="classic",
        help="how to run Spark; any lane but classic runs only the tests marked for it",
    )
    parser.addoption(
        "--part",
        choices=("all", "spark", "plain"),
        default="all",
        help="only the tests that share the Spark session, or only the others",
    )
    parser.addoption(
        "--share",
        type=_share,
        default=(1, 1),
        metavar="K/N",
        help="of the modules that are left, dealt out to N processes, those of the K-th",
    )
    parser.addoption("--quick", action="store_true", help="only tests without Spark that are over soon: see make quick")
    parser.addoption("--deep", action="store_true", help="only the tests whose depth can be chosen (HOLDFAST_DEPTH)")
    parser.addoption(
        "--shuffle",
        type=int,
        metavar="SEED",
        help="modules in a random order, and the tests of each in one",
    )


def _share(text: str) -> tuple[int, int]:
    mine, of = map(int, text.split("/"))
    if not 1 <= mine <= of:
        raise ValueError(f"there is no share {text}")
    return mine, of


@pytest.hookimpl(tryfirst=True)  # before pytest chooses the directory of temporary paths
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--lane") in S3_LANES:
        _in_a_bucket(config)
    config.pluginmanager.register(AreaTimes(), "area-times")
    if config.getoption("--deep"):
        config.pluginmanager.register(DeepRun(), "deep-run")
    config.stash[LEFTOVERS] = Leftovers()
    config.stash[LEFT] = []


def _in_a_bucket(config: pytest.Config) -> None:
    """Start the server of an S3 lane, and let temporary paths lie in its bucket."""
    files, why_not = home()
    if files is None:
        pytest.exit(f"skipped: {why_not}", returncode=0)
    running = ExitStack()
    config.add_cleanup(running.close)
    root = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-s3-"))).resolve()
    server = running.enter_context(gateway(files, root))
    running.enter_context(tables_in_the_bucket(server))
    config.stash[GATEWAY] = server
    config.option.basetemp = server.directory / "tests"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left := config.stash[LEFT]:
        terminalreporter.section("left behind")
        for line in left:
            terminalreporter.write_line(line)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (lane := config.getoption("--lane")) in S3_LANES:
        _keep(config, items, lambda item: _is_for_s3(item, lane))
    else:
        _keep(config, items, lambda item: item.get_closest_marker("s3_lane") is None)
    if lane in ("local-cluster", "connect"):
        marks = ("everywhere", "connect") if lane == "connect" else ("everywhere",)
        _keep(config, items, lambda item: any(item.get_closest_marker(mark) is not None for mark in marks))
    if (part := config.getoption("--part")) != "all":
        _keep(config, items, lambda item: _shares_spark(item) is (part == "spark"))
    if config.getoption("--quick"):
        _keep(config, items, lambda item: not _shares_spark(item) and is_quick(item))
    if config.getoption("--deep"):
        _keep(config, items, is_deep)
    mine, of = config.getoption("--share")
    dealt = {path: number % of for number, path in enumerate(dict.fromkeys(item.path for item in items))}
    _keep(config, items, lambda item: dealt[item.path] == mine - 1)
    if (shuffle := config.getoption("--shuffle")) is not None:
        chance = random.Random(shuffle)
        modules = {path: chance.random() for path in dealt}
        ordered = {item: item.get_closest_marker("in_order") is not None for item in items}
        groups = {f"{item.path}::{item.name.partition('[')[0]}": chance.random() for item in items if ordered[item]}
        within = {
            item: groups[f"{item.path}::{item.name.partition('[')[0]}"] if ordered[item] else chance.random()
            for item in items
        }
        items.sort(key=lambda item: (modules[item.path], within[item]))


def _keep(config: pytest.Config, items: list[pytest.Item], wanted: Callable[[pytest.Item], bool]) -> None:
    if others := [item for item in items if not wanted(item)]:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if wanted(item)]


def _is_for_s3(item: pytest.Item, lane: str) -> bool:
    """The marked tests; without Spark, those that take nothing of it and work on tables."""
    if item.get_closest_marker("on_disk") is not None:
        return False
    if item.get_closest_marker("s3_lane") is not None:
        return True
    if lane == "s3":
        return "tmp_path" in getattr(item, "fixturenames", ()) and not _shares_spark(item) and _area(item) in _TABLES
    return item.get_closest_marker("everywhere") is not None


def _area(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0]


def _shares_spark(item: pytest.Item) -> bool:
    """By the fixture, or by a parameter whose fixture goes and gets the session."""
    callspec = getattr(item, "callspec", None)
    parameters = callspec.params.values() if callspec is not None else ()
    return "spark" in getattr(item, "fixturenames", ()) or any(isinstance(p, str) and p == "spark" for p in parameters)


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process draws at random depends on the test alone."""
    chance = random.Random(_seed_of(request.node))
    monkeypatch.setattr(holdfast.env, "_fresh_seed", lambda: chance.getrandbits(64))


def _seed_of(item: pytest.Item) -> int:
    return SEED ^ zlib.crc32(item.nodeid.encode())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append(("seed", f"HOLDFAST_SEED={SEED}, which gives this test {_seed_of(item)}"))
    return report


@pytest.fixture(scope="session")
def lane(request: pytest.FixtureRequest) -> str:
    """How Spark runs in this process."""
    return str(request.config.getoption("--lane"))


@pytest.fixture(scope="session")
def spark(lane: str, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The one session of this process."""
    part = request.config.getoption("--part")
    assert part != "plain", "this test shares Spark unannounced: take the fixture `spark`, or a parameter of that name"
    server = request.config.stash.get(GATEWAY, None)
    session = start(lane) if server is None else start(lane, **(connector(server) if lane == "s3-hadoop" else {}))
    request.config.stash[LEFTOVERS].watch(session)
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def tidied(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a module leaves behind is put away, and named at the end of the run."""
    yield
    leftovers = request.config.stash[LEFTOVERS]
    request.config.stash[LEFT] += [f"{request.node.nodeid}: {one}" for one in leftovers.new()]


@pytest.fixture(scope="session")
def s3(request: pytest.FixtureRequest) -> Iterator[S3Server | Gateway]:
    """The one S3 server of this process; its bucket is there."""
    if (server := request.config.stash.get(GATEWAY, None)) is not None:
        yield server
        return
    with s3_server() as moto:
        yield moto


@dataclass(slots=True)
class Area:
    """What the tests of one directory came to."""

    tests: int = 0
    seconds: float = 0.0


class AreaTimes:
    """Adds up reports by the first directory below tests/ and prints the sums before pytest's closing line."""

    def __init__(self) -> None:
        self.areas: defaultdict[str, Area] = defaultdict(Area)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        parts = Path(report.location[0]).parts
        below = parts[parts.index(TESTS.name) + 1 :] if TESTS.name in parts else parts
        area = self.areas[below[0] if len(below) > 1 else "."]
        area.tests += report.when == "setup"
        area.seconds += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.areas:
            return
        write = terminalreporter.write_line
        terminalreporter.section("time per area")
        write(f"{'area':<16}{'tests':>8}{'seconds':>10}")
        for name, area in sorted(self.areas.items(), key=lambda entry: -entry[1].seconds):
            write(f"{name:<16}{area.tests:>8}{area.seconds:>10.1f}")
        total = sum(area.seconds for area in self.areas.values())
        write(f"{'all':<16}{sum(area.tests for area in self.areas.values()):>8}{total:>10.1f}")
        write("the first area that uses Spark also pays for its start")
