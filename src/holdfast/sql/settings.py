"""The settings of a session that delta-spark uses.

1. A missing setting has delta-spark's default.
2. All settings are read at once, because on Spark Connect each read is a request.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from holdfast.schema.properties import truth

_PREFIX = "spark.databricks.delta."
RETENTION_CHECK = f"{_PREFIX}retentionDurationCheck.enabled"
_DEFAULTS = f"{_PREFIX}properties.defaults."


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The settings of a session, by name."""

    values: dict[str, str]

    @property
    def merges_schema(self) -> bool:
        return truth(self.values.get(f"{_PREFIX}schema.autoMerge.enabled"))

    @property
    def checks_retention(self) -> bool:
        return truth(self.values.get(RETENTION_CHECK, "true"))

    @property
    def user_metadata(self) -> str | None:
        return self.values.get(f"{_PREFIX}commitInfo.userMetadata")

    @property
    def is_dynamic(self) -> bool:
        return self.values.get("spark.sql.sources.partitionOverwriteMode", "static").lower() == "dynamic"

    @property
    def default_source(self) -> str:
        return self.values.get("spark.sql.sources.default", "parquet")

    @property
    def is_ansi(self) -> bool:
        return truth(self.values.get("spark.sql.ansi.enabled", "true"))

    @property
    def properties(self) -> dict[str, str]:
        """The default properties of new tables."""
        defaults = {
            name.removeprefix(_DEFAULTS): value for name, value in self.values.items() if name.startswith(_DEFAULTS)
        }
        return {f"delta.{name.removeprefix('delta.')}": value for name, value in defaults.items()}

    def txn(self, name: str) -> str | None:
        """The session's `txnAppId` or `txnVersion`."""
        return self.values.get(f"{_PREFIX}write.{name}")


def settings_of(spark: SparkSession) -> SessionSettings:
    """The settings of a session."""
    return SessionSettings(dict(spark.conf.getAll))
