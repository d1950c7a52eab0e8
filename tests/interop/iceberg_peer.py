"""Another engine for Iceberg in a process of its own: `python -m tests.interop.iceberg_peer NAME [CATALOG]`.

It runs in the environment of `iceberg_home`, and answers requests until its input ends (`bench/engine.py`). Rows leave
it as Arrow files; what it refuses, as text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
from pyspark.sql import SparkSession

from bench.engine import serve

JARS = Path(sys.prefix) / "jars"
Run = Callable[[str], pa.Table | None]


def rust(_: str) -> tuple[str, Run]:
    """iceberg-rust, which reads a table by its metadata file: `FROM metadata.json`."""
    from datafusion import SessionContext
    from pyiceberg_core.datafusion import IcebergDataFusionTable

    def run(text: str) -> pa.Table:
        context = SessionContext()
        provider = IcebergDataFusionTable(
            identifier=["db", "t"], metadata_location=f"file://{text}", file_io_properties={}
        )
        context.register_table("t", provider)
        return context.sql("select * from t").to_arrow_table()

    return f"{version('pyiceberg-core')} with DataFusion {version('datafusion')}", run


def duckdb(catalog: str) -> tuple[str, Run]:
    """DuckDB, with its extensions from their wheels, and a REST catalog called `rest`; every request on its own."""
    import duckdb as library
    import duckdb_extension_avro
    import duckdb_extension_httpfs
    import duckdb_extension_iceberg

    modules = (duckdb_extension_httpfs, duckdb_extension_avro, duckdb_extension_iceberg)

    def run(text: str) -> pa.Table:
        settings = {"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"}
        with library.connect(config=settings) as connection:
            for module in modules:
                (extension,) = Path(module.__file__).parent.rglob("*.duckdb_extension")
                connection.execute(f"LOAD '{extension}'")
            connection.execute("SET TimeZone='UTC'")
            if "rest." in text:
                how = f"TYPE iceberg, ENDPOINT '{catalog}', AUTHORIZATION_TYPE 'none'"
                connection.execute(f"ATTACH 'warehouse' AS rest ({how})")
            return connection.execute(text).to_arrow_table()

    return version("duckdb"), run


def sail(_: str) -> tuple[str, Run]:
    """Sail, which takes statements of Spark's SQL."""
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer()
    server.start()
    spark = SparkSession.builder.remote(f"sc://localhost:{server.listening_address[1]}").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")

    def run(text: str) -> pa.Table:
        assert server.running, "the server lives as long as something refers to it"
        return spark.sql(text).toArrow()

    return version("pysail"), run


def java(catalog: str) -> tuple[str, Run]:
    """Iceberg's own runtime for Spark, with a REST catalog called `rest`."""
    (jar,) = JARS.glob("iceberg-spark-runtime-*.jar")
    settings = {
        "spark.jars": str(jar),
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.rest": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.rest.type": "rest",
        "spark.sql.catalog.rest.uri": catalog,
        "spark.sql.catalog.rest.cache-enabled": "false",
        "spark.sql.catalog.rest.rest-metrics-reporting-enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("iceberg-interop")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    number = jar.stem.rpartition("-")[2]
    return f"{number} on Spark {spark.version}", lambda text: spark.sql(text).toArrow()


def main(name: str, catalog: str = "") -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    told, run = {"iceberg-rust": rust, "DuckDB": duckdb, "Sail": sail, "Iceberg Java": java}[name](catalog)

    def answer(text: str, out: str) -> dict[str, Any]:
        try:
            found = run(text)
        except BaseException as error:  # whatever it is, the other end hears of it; a panic of Rust is no Exception
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            return {"refused": str(error) or type(error).__name__}
        pyarrow.feather.write_feather(found, out, compression="uncompressed")
        return {"refused": None}

    serve({"start": lambda: told, "run": answer})
    os._exit(0)  # Sail has threads that do not end by themselves


if __name__ == "__main__":
    main(*sys.argv[1:])
