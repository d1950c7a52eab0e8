"""Finds, adds, renames and removes tables in Spark's session catalog.

Everything is asked in SQL, as users would, so it works on Spark Connect and with any metastore. An entry is a name and
a place; what the table at that place is, its log says. A table without a place of its own is managed: it lies where its
database does, and goes when its entry goes.

1. A name has one to three parts; three begin with `spark_catalog`, the only catalog there is for tables of ours.
2. A permanent view is told with its text, and a temporary view hides a table of the same name, as for Spark.
3. What is entered has the provider `delta` in the catalog, so that other engines with the same metastore find a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from holdfast.engines.spark.session.placeholder_source import let_hold
from holdfast.engines.spark.session.unpatched import plain_sql
from holdfast.errors import Invalid, Unsupported

CATALOG = "spark_catalog"
PROVIDER = "delta"
_PART = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`.\s]+))\s*(\.|$)")
_FACT = re.compile(
    r"^(Type|Provider|Location|View Catalog and Namespace|View Query Output Columns): (.*)$", re.MULTILINE
)
_VIEW_TEXT = re.compile(r"^View Text: (.*?)\nView Original Text: ", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"`((?:[^`]|``)*)`")


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A table as the catalog knows it."""

    database: str
    name: str
    provider: str
    location: str
    managed: bool

    @property
    def is_delta(self) -> bool:
        return self.provider.lower() == PROVIDER

    @property
    def full_name(self) -> str:
        """The name by which DESCRIBE DETAIL tells of it."""
        return f"{CATALOG}.{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class View:
    """A permanent view as the catalog knows it."""

    name: tuple[str, str]
    text: str
    database: str  # in which names of the text are looked up
    outputs: tuple[str, ...]  # what its query gave when it was made


def split(text: str) -> tuple[str, ...]:
    """The parts of a name; backquotes keep what is between them together."""
    parts, at = list[str](), 0
    while match := _PART.match(text, at):
        parts.append(match[1].replace("``", "`") if match[1] else match[2])
        at = match.end()
        if match[3] == "":
            return tuple(parts)
    raise Invalid(f"{text!r} is no name of a table: write it as table, database.table or delta.`/path`")


def quoted(parts: Sequence[str]) -> str:
    """A name as a statement spells it."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def find(spark: SparkSession, parts: Sequence[str]) -> CatalogEntry | None:
    """The table that a name means; None where there is none, or where the name is a view's."""
    entry = look(spark, parts)
    return entry if isinstance(entry, CatalogEntry) else None


def look(spark: SparkSession, parts: Sequence[str]) -> CatalogEntry | View | None:
    """The table or permanent view that a name means; None where there is neither."""
    database, name = _within(parts)
    if database is not None and not spark.catalog.databaseExists(f"{CATALOG}.{quoted([database])}"):
        return None
    place = "" if database is None else f" IN {quoted([database])}"
    rows = plain_sql(spark, f"SHOW TABLE EXTENDED{place} LIKE {_literal(_pattern(name))}").collect()  # of one name
    tables = [row for row in rows if row.tableName.lower() == name.lower()]
    if database is None and any(row.isTemporary for row in tables):
        return None
    for row in tables:
        facts = dict(_FACT.findall(row.information))
        if not row.isTemporary and facts.get("Type") in ("MANAGED", "EXTERNAL") and "Location" in facts:
            return CatalogEntry(
                row.namespace, row.tableName, facts.get("Provider", ""), facts["Location"], _managed(facts)
            )
        if not row.isTemporary and facts.get("Type") == "VIEW" and (text := _VIEW_TEXT.search(row.information)):
            within = split(facts.get("View Catalog and Namespace", row.namespace))[-1]
            outputs = tuple(n.replace("``", "`") for n in _QUOTED.findall(facts.get("View Query Output Columns", "")))
            return View((row.namespace, row.tableName), text[1], within, outputs)
    return None


def columns_of(spark: SparkSession, parts: Sequence[str]) -> list[str]:
    """The columns of a table or view as the catalog has them."""
    rows = plain_sql(spark, f"DESCRIBE TABLE {quoted(parts)}").collect()  # one per column
    names = [row.col_name for row in rows]
    return names[: next((at for at, name in enumerate(names) if name == "" or name.startswith("# ")), len(names))]


def enter(
    spark: SparkSession,
    parts: Sequence[str],
    *,
    location: str | None,
    schema: StructType,
    comment: str | None = None,
) -> CatalogEntry:
    """Put a table into the catalog; without a location it is managed, and its entry says where it is."""
    database, name = _within(parts)
    let_hold(spark)
    full = quoted([name] if database is None else [database, name])
    text = f"CREATE TABLE {full} ({', '.join(_column(f) for f in schema)}) USING {PROVIDER}"
    text += "" if comment is None else f" COMMENT {_literal(comment)}"
    text += "" if location is None else f" LOCATION {_literal(location)}"
    plain_sql(spark, text)
    entry = find(spark, parts)
    assert entry is not None, f"{full} was just entered"
    return entry


def forget(spark: SparkSession, parts: Sequence[str], *, if_exists: bool = False) -> None:
    """Take a table out of the catalog; the files of a managed one go with it."""
    database, name = _within(parts)
    full = quoted([name] if database is None else [database, name])
    plain_sql(spark, f"DROP TABLE {'IF EXISTS ' if if_exists else ''}{full}")


def rename(spark: SparkSession, parts: Sequence[str], new: Sequence[str]) -> None:
    """Give a table another name; the files of a managed one move along."""
    (old_database, old), (database, name) = _within(parts), _within(new)
    before = [old] if old_database is None else [old_database, old]
    after = [name] if database is None else [database, name]
    plain_sql(spark, f"ALTER TABLE {quoted(before)} RENAME TO {quoted(after)}")


def place(spark: SparkSession, parts: Sequence[str]) -> str:
    """Where a managed table of this name lies, or will."""
    database, name = _within(parts)
    rows = plain_sql(spark, f"DESCRIBE DATABASE {quoted([database or spark.catalog.currentDatabase()])}").collect()
    root = next(row.info_value for row in rows if row.info_name == "Location")
    return f"{root.rstrip('/')}/{name.lower()}"


def _within(parts: Sequence[str]) -> tuple[str | None, str]:
    """The database, where one is named, and the table."""
    named = tuple(parts)
    if len(named) == 3 and named[0].lower() == CATALOG:
        named = named[1:]
    if len(named) > 2:
        raise Unsupported(
            f"{quoted(parts)} is in a catalog that Holdfast does not know: without a JAR it has tables in {CATALOG}, "
            "or by path, as in delta.`/path`"
        )
    return (named[0], named[1]) if len(named) == 2 else (None, named[0])


def _managed(facts: dict[str, str]) -> bool:
    return facts["Type"] == "MANAGED"


def _pattern(name: str) -> str:
    """A name as a pattern that means itself: a bar would part it, and a star mean anything."""
    return re.sub(r"[|*]", ".", name)


def _column(f: StructField) -> str:
    comment = f.metadata.get("comment")
    comment_text = "" if comment is None else f" COMMENT {_literal(str(comment))}"
    return f"{quoted([f.name])} {_type_text(f.dataType)}{comment_text}"


def _type_text(type_: DataType) -> str:
    """The type as statements spell it: names inside of structs in backquotes."""
    match type_:
        case StructType():
            return f"struct<{', '.join(f'{quoted([f.name])}: {_type_text(f.dataType)}' for f in type_)}>"
        case ArrayType():
            return f"array<{_type_text(type_.elementType)}>"
        case MapType():
            return f"map<{_type_text(type_.keyType)}, {_type_text(type_.valueType)}>"
        case _:
            return type_.simpleString()


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
