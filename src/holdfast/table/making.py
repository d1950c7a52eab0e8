"""The four ways to begin the description of a table, under delta-spark's names; a mixin of table classes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from pyspark.sql import SparkSession

from holdfast.verbs.define.builder import CreateMode

B = TypeVar("B")


class MakingVerbs(Generic[B]):
    """Gives builders, of whatever kind a table class has."""

    @classmethod
    @abstractmethod
    def _builder(cls, spark: SparkSession | None, mode: CreateMode) -> B: ...

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> B:
        """Describe a table to be created; refused where there is one."""
        return cls._builder(sparkSession, CreateMode.CREATE)

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> B:
        """Describe a table to be created where there is none."""
        return cls._builder(sparkSession, CreateMode.CREATE_IF_NOT_EXISTS)

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> B:
        """Describe a table to take the place of one that is there, without its rows."""
        return cls._builder(sparkSession, CreateMode.REPLACE)

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> B:
        """Describe a table to be created, or to take the place of one that is there."""
        return cls._builder(sparkSession, CreateMode.CREATE_OR_REPLACE)
