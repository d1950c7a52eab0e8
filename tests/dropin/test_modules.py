from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

import holdfast
from holdfast import errors
from holdfast._dropin import modules
from holdfast._dropin.enabling import MODULES
from holdfast._dropin.pip_utils import CATALOG, EXTENSION, configure_spark_with_delta_pip, has_extension, take_off


@pytest.fixture
def everywhere() -> Iterator[None]:
    with holdfast.enable():
        yield


def test_the_modules_are_there_while_it_is_on(everywhere: None) -> None:
    names: dict[str, object] = {}
    exec("from delta import *\nfrom delta.tables import *\nfrom delta.exceptions import *", names)
    exec("from delta import DeltaTable, configure_spark_with_delta_pip\nimport delta.pip_utils", names)
    assert {"DeltaTable", "DeltaMergeBuilder", "IdentityGenerator", "ConcurrentAppendException"} <= set(names)
    assert getattr(sys.modules["delta"], "__file__", None) is None


def test_they_are_gone_when_it_is_off() -> None:
    with holdfast.enable():
        importlib.import_module("delta.tables")
    assert not [name for name in sys.modules if name.split(".")[0] == "delta"]
    assert not [finder for finder in sys.meta_path if isinstance(finder, modules.DeltaModules)]


def test_the_real_one_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ModuleType("delta")
    monkeypatch.setitem(sys.modules, "delta", real)
    with pytest.raises(errors.Unsupported, match="delta-spark"):
        holdfast.enable()
    assert sys.modules["delta"] is real


def test_signatures_are_delta_sparks() -> None:
    table = MODULES["delta.tables"]["DeltaTable"]
    for name, arguments in {
        "forPath": ["sparkSession", "path", "hadoopConf"],
        "forName": ["sparkSession", "tableOrViewName"],
        "isDeltaTable": ["sparkSession", "identifier"],
        "convertToDelta": ["sparkSession", "identifier", "partitionSchema"],
        "create": ["sparkSession"],
        "update": ["self", "condition", "set"],
        "merge": ["self", "source", "condition"],
        "vacuum": ["self", "retentionHours"],
        "cloneAtVersion": ["self", "version", "target", "isShallow", "replace", "properties"],
        "dropFeatureSupport": ["self", "featureName", "truncateHistory"],
        "upgradeTableProtocol": ["self", "readerVersion", "writerVersion"],
    }.items():
        assert list(inspect.signature(getattr(table, name)).parameters) == arguments, name


class Builder:
    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def config(self, name: str, value: str) -> Builder:
        self.settings[name] = value
        return self


def test_a_builder_needs_no_package() -> None:
    assert configure_spark_with_delta_pip(Builder()).settings == {}
    added = configure_spark_with_delta_pip(Builder(), extra_packages=["a:b:1", "c:d:2"]).settings
    assert added == {"spark.jars.packages": "a:b:1,c:d:2"}


def test_only_what_loads_deltas_jar_is_taken_off() -> None:
    options = {
        "spark.sql.extensions": f"org.mine.Extension,{EXTENSION}",
        "spark.sql.catalog.spark_catalog": CATALOG,
        "spark.jars.packages": "io.delta:delta-spark_2.13:4.0.0,a:b:1",
        "spark.app.name": "mine",
    }
    take_off(options)
    assert options == {
        "spark.sql.extensions": "org.mine.Extension",
        "spark.jars.packages": "a:b:1",
        "spark.app.name": "mine",
    }
    assert has_extension(f"x,{EXTENSION}")
    assert not has_extension("org.mine.Extension")
