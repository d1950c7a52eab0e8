"""Settings of a session that delta-spark's users rely on.

1. A setting that is not set has delta-spark's default.
2. All settings are asked for at once, because on Spark Connect asking costs a trip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from holdfast.schema.properties import truth

_PREFIX = "spark.databricks.delta."
RETENTION_CHECK = f"{_PREFIX}retentionDurationCheck.enabled"
_DEFAULTS = f"{_PREFIX}properties.defaults."


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What a session says to whoever works with Delta tables."""

    given: dict[str, str]

    @property
    def merges_schema(self) -> bool:
        return truth(self.given.get(f"{_PREFIX}schema.autoMerge.enabled"))

    @property
    def checks_retention(self) -> bool:
        return truth(self.given.get(RETENTION_CHECK, "true"))

    @property
    def user_metadata(self) -> str | None:
        return self.given.get(f"{_PREFIX}commitInfo.userMetadata")

    @property
    def is_dynamic(self) -> bool:
        return self.given.get("spark.sql.sources.partitionOverwriteMode", "static").lower() == "dynamic"

    @property
    def default_source(self) -> str:
        return self.given.get("spark.sql.sources.default", "parquet")

    @property
    def properties(self) -> dict[str, str]:
        """Properties that a new table has where nothing else is said."""
        named = {
            name.removeprefix(_DEFAULTS): value for name, value in self.given.items() if name.startswith(_DEFAULTS)
        }
        return {f"delta.{name.removeprefix('delta.')}": value for name, value in named.items()}

    def txn(self, name: str) -> str | None:
        """`txnAppId` or `txnVersion`, where they are set for the session."""
        return self.given.get(f"{_PREFIX}write.{name}")


def settings_of(spark: SparkSession) -> SessionSettings:
    """What is set in a session."""
    everything: Any = spark.conf.getAll
    return SessionSettings(dict(everything))
