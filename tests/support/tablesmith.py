"""Delta tables by hand: every action written as the protocol spells it, every row known in plain Python.

A smith writes commits, data files, vectors and checkpoints itself and shares nothing with the library's reader or
writer, so the two can be witnesses against each other.

1. What a table holds at a version follows from the raw actions written so far: `rows()` replays them.
2. Same arguments, same bytes of log: names come from a seed and times from a counting clock.
3. Rows go in and come out under logical names; files, statistics and partition values use physical ones.
"""

from __future__ import annotations

import io
import json
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.storage.location import Location
from tests.support import smith_checkpoint, smith_values
from tests.support.gateway import address
from tests.support.smith_log import (
    ROW_TRACKING,
    checksum,
    column_ids,
    domain,
    dv_id,
    inline_vector,
    lines,
    packed_vectors,
    protocol,
    reconciled,
    split,
    without_metadata,
)
from tests.support.smith_values import Content, Json, dumps, physical_name

_ID = "delta.rowTracking.materializedRowIdColumnName"
_VERSION = "delta.rowTracking.materializedRowCommitVersionColumnName"


class Tablesmith:
    """A table under construction; each verb writes one commit and returns its version."""

    def __init__(
        self,
        where: Location | Path | str,
        *,
        schema: Sequence[tuple[str, Any] | Json],
        partition_by: Sequence[str] = (),
        row_tracking: bool = True,
        deletion_vectors: bool = True,
        column_mapping: str | None = None,
        properties: Mapping[str, str] | None = None,
        features: Iterable[str] = (),
        in_commit_timestamps: bool = False,
        seed: int = 0,
        start_ms: int = 1_700_000_000_000,
    ) -> None:
        self._where = where if isinstance(where, Location) else Path(where)
        self._rng = random.Random(seed)
        self._clock = count(start_ms, 1000)
        self._ids = count(1)
        self.log: list[list[Json]] = []
        self._contents: dict[str, Content] = {}
        self._vectors: dict[str, frozenset[int]] = {}
        self.row_tracking, self.deletion_vectors = row_tracking, deletion_vectors
        self._mapping, self._ict = column_mapping, in_commit_timestamps
        settings = dict(properties or {})
        wanted = set(features)
        if row_tracking:
            wanted |= {"rowTracking", "domainMetadata"}
            settings |= {"delta.enableRowTracking": "true"}
            settings |= {_ID: f"_row-id-col-{self.uuid()}", _VERSION: f"_row-commit-version-col-{self.uuid()}"}
        if deletion_vectors:
            wanted.add("deletionVectors")
            settings["delta.enableDeletionVectors"] = "true"
        if column_mapping:
            wanted.add("columnMapping")
            settings["delta.columnMapping.mode"] = column_mapping
        if in_commit_timestamps:
            wanted.add("inCommitTimestamp")
            settings["delta.enableInCommitTimestamps"] = "true"
        if "timestamp_ntz" in json.dumps(schema):
            wanted.add("timestampNtz")
        metadata = self._metadata(schema, partition_by, settings)
        self.commit([{"protocol": protocol(wanted)}, {"metaData": metadata}], operation="CREATE TABLE")

    # What is known of the table.

    @property
    def version(self) -> int:
        return len(self.log) - 1

    @property
    def url(self) -> str:
        return self._where.url if isinstance(self._where, Location) else address(self._where.resolve())

    def live(self, version: int | None = None) -> list[Json]:
        """The add actions of a version, in the order their data files were written."""
        order = {key: at for at, key in enumerate(self._contents)}
        adds = [action["add"] for action in self.replay(version) if "add" in action]
        return sorted(adds, key=lambda add: order.get(unquote(add["path"]), len(order)))

    def metadata(self, version: int | None = None) -> Json:
        return next(a["metaData"] for a in self.replay(version) if "metaData" in a)

    def fields(self, version: int | None = None) -> list[Json]:
        found: list[Json] = json.loads(self.metadata(version)["schemaString"])["fields"]
        return found

    def high_water(self, version: int | None = None) -> int:
        domains = [a["domainMetadata"] for a in self.replay(version) if "domainMetadata" in a]
        marks = [json.loads(d["configuration"])["rowIdHighWaterMark"] for d in domains if d["domain"] == ROW_TRACKING]
        return marks[0] if marks else -1

    def rows(self, version: int | None = None) -> list[Json]:
        """The rows of a version with `_row_id`, `_row_commit_version`, `_row_index` and `_file`."""
        fields = self.fields(version)
        found = []
        for add in self.live(version):
            key = unquote(add["path"])
            content = self._contents[key]
            hidden = self._vectors[dv_id(add)] if "deletionVector" in add else frozenset()
            for i, row in enumerate(content.rows):
                if i in hidden:
                    continue
                values = {f["name"]: smith_values.to_logical(row.get(physical_name(f)), f["type"]) for f in fields}
                base, default = add.get("baseRowId"), add.get("defaultRowCommitVersion")
                id_, changed = content.ids[i], content.versions[i]
                values["_row_id"] = id_ if id_ is not None or base is None else base + i
                values["_row_commit_version"] = default if changed is None else changed
                found.append({**values, "_row_index": i, "_file": key})
        return found

    # Verbs: one commit each.

    def append(
        self,
        rows: Sequence[Json] | pa.Table,
        *,
        files: int = 1,
        partition: Json | None = None,
        materialized_ids: Sequence[int | None] | None = None,
        materialized_versions: Sequence[int | None] | None = None,
        stats: bool | str = True,
    ) -> int:
        """Add rows, `files` files to a partition. `stats` is True, False, "wide" or "count"."""
        adds = self.write(
            rows,
            files=files,
            partition=partition,
            ids=materialized_ids,
            versions=materialized_versions,
            stats=stats,
        )
        return self.commit(self._stamped(adds), operation="WRITE")

    def hide(self, file: int | str, positions: Iterable[int], *, storage: str = "u") -> int:
        """Hide more positions of a file."""
        return self.hide_many({file: positions}, storage=storage)

    def hide_many(self, positions: Mapping[int | str, Iterable[int]], *, storage: str = "u") -> int:
        """Hide positions in several files, their vectors packed together: i inline, u, up with a prefix, p absolute."""
        return self.commit(self._hidden(positions, storage), operation="DELETE")

    def remove(self, *files: int | str) -> int:
        return self.commit([self._removed(self._find(f)) for f in files], operation="DELETE")

    def update(self, file: int | str, changes: Mapping[int, Json], *, storage: str = "u") -> int:
        """Give rows of a file new values: the old positions are hidden, the new rows keep their ids."""
        key = unquote(self._find(file)["path"])
        by_index = {row["_row_index"]: row for row in self.rows() if row["_file"] == key}
        changed = [{**without_metadata(by_index[i]), **values} for i, values in changes.items()]
        ids = [by_index[i]["_row_id"] for i in changes]
        adds = self.write(changed, ids=ids, versions=[None] * len(ids)) if changed else []
        return self.commit([*self._hidden({file: changes}, storage), *self._stamped(adds)], operation="UPDATE")

    def rewrite(self, *chosen: int | str, files: int = 1) -> int:
        """Compact files (all by default) into `files` new ones: rows move, ids and versions stay."""
        old = [self._find(f) for f in chosen] if chosen else self.live()
        keys = {unquote(add["path"]) for add in old}
        rows = [row for row in self.rows() if row["_file"] in keys]
        kept = [row["_row_id"] for row in rows], [row["_row_commit_version"] for row in rows]
        ids, versions = kept if self.row_tracking else (None, None)
        adds = self.write(
            [without_metadata(row) for row in rows], files=files, ids=ids, versions=versions, data_change=False
        )
        return self.commit(
            [*(self._removed(add, data_change=False) for add in old), *self._stamped(adds)], operation="OPTIMIZE"
        )

    def evolve(self, *, schema: Sequence[tuple[str, Any] | Json] | None = None, **properties: str) -> int:
        """Replace the schema (fields that keep their name keep their mapping) and set properties (`a__b` is `a.b`)."""
        old = self.metadata()
        settings = {**old["configuration"], **{k.replace("__", "."): v for k, v in properties.items()}}
        fields = self.fields() if schema is None else schema
        metadata = self._metadata(fields, old["partitionColumns"], settings, id_=old["id"], known=self.fields())
        return self.commit([{"metaData": metadata}], operation="SET TBLPROPERTIES")

    def commit(self, actions: Iterable[Json], *, operation: str = "MANUAL", info: Json | None = None) -> int:
        """Write these actions as the next version, behind a commitInfo."""
        now = next(self._clock)
        said: Json = {"timestamp": now, "operation": operation, "operationParameters": {}, **(info or {})}
        if self._ict:
            said["inCommitTimestamp"] = now
        commit = [{"commitInfo": said}, *actions]
        self.log.append(commit)
        self._put_log(f"{self.version:020}.json", lines(commit), modified_ms=now)
        return self.version

    # Files of the log beside the commits.

    def checkpoint(
        self,
        kind: str = "classic",
        *,
        version: int | None = None,
        stats: str = "json",
        sidecars: int = 2,
        last_checkpoint: bool = True,
    ) -> list[str]:
        """Write a checkpoint; the names of its files below `_delta_log`. `sidecars` are the parts of a multi-part."""
        at = self.version if version is None else version
        actions = self.replay(at)
        writer = next(a["protocol"] for a in actions if "protocol" in a).get("writerFeatures", ())
        assert "v2Checkpoint" in writer or not kind.startswith("v2"), 'needs features=["v2Checkpoint"]'
        names = self.metadata(at)["partitionColumns"]
        data_fields = [f for f in self.fields(at) if f["name"] not in names]
        files, hint = smith_checkpoint.lay_out(
            kind,
            at,
            actions,
            data_fields,
            stats=stats,
            pieces=sidecars,
            new_uuid=self.uuid,
            now_ms=next(self._clock),
        )
        for name, data in files.items():
            self._put_log(name, data)
        if last_checkpoint:
            self._put_log("_last_checkpoint", dumps(hint).encode())
        return list(files)

    def compact_log(self, first: int, last: int) -> str:
        """Write the compaction of versions `first` to `last`."""
        name = f"{first:020}.{last:020}.compacted.json"
        self._put_log(name, lines(reconciled(self.log[first : last + 1], keep_removed_domains=True)))
        return name

    def crc(self) -> str:
        """Write the version checksum of the latest version."""
        timestamp = self.log[-1][0]["commitInfo"].get("inCommitTimestamp")
        body = checksum(self.replay(), timestamp)
        name = f"{self.version:020}.crc"
        self._put_log(name, dumps(body).encode())
        return name

    def forget(self, before: int) -> None:
        """Delete the commit files of versions below `before`, as log cleanup does."""
        for version in range(before):
            self.delete(f"_delta_log/{version:020}.json")

    # Pieces of commits, for tests that put their own together.

    def replay(self, version: int | None = None) -> list[Json]:
        """The reconciled actions of a version: live adds, tombstones, and the latest of everything else."""
        return reconciled(self.log[: (self.version if version is None else version) + 1])

    def write(
        self,
        rows: Sequence[Json] | pa.Table,
        *,
        files: int = 1,
        partition: Json | None = None,
        ids: Sequence[int | None] | None = None,
        versions: Sequence[int | None] | None = None,
        stats: bool | str = True,
        data_change: bool = True,
    ) -> list[Json]:
        """Write data files and return their add actions, without row ids and not committed."""
        plain = rows.to_pylist() if isinstance(rows, pa.Table) else list(rows)
        fields = self.fields()
        by_name = {f["name"]: f for f in fields}
        parts = [by_name[name] for name in self.metadata()["partitionColumns"]]
        groups: dict[tuple[str | None, ...], list[int]] = {}
        physical = []
        for i, row in enumerate({**row, **(partition or {})} for row in plain):
            assert row.keys() <= by_name.keys(), f"no such columns: {row.keys() - by_name.keys()}"
            physical.append({physical_name(f): smith_values.to_physical(row.get(f["name"]), f["type"]) for f in fields})
            key = tuple(smith_values.partition_text(row.get(f["name"])) for f in parts)
            groups.setdefault(key, []).append(i)
        adds = []
        for key, members in groups.items():
            texts = dict(zip(map(physical_name, parts), key, strict=True))
            for chunk in split(members, files):
                content = Content(
                    tuple(physical[i] for i in chunk),
                    tuple(ids[i] if ids else None for i in chunk),
                    tuple(versions[i] if versions else None for i in chunk),
                )
                carries = ids is not None, versions is not None
                add = self._write_file(content, carries, texts, [f for f in fields if f not in parts], stats)
                adds.append({**add, "dataChange": data_change})
        return adds

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        """Write any file of the table, by its decoded path."""
        if isinstance(self._where, Location):
            self._where.store.put(self._where.key(path), data)
            return
        target = self._where / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        if modified_ms is not None:
            os.utime(target, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def delete(self, path: str) -> None:
        if isinstance(self._where, Location):
            self._where.store.delete(self._where.key(path))
        else:
            (self._where / path).unlink()

    def uuid(self) -> UUID:
        return UUID(int=self._rng.getrandbits(128), version=4)

    def _uuids(self) -> Iterator[UUID]:
        while True:
            yield self.uuid()

    def _put_log(self, name: str, data: bytes, *, modified_ms: int | None = None) -> None:
        self.put(f"_delta_log/{name}", data, modified_ms=modified_ms)

    def _metadata(
        self,
        schema: Sequence[tuple[str, Any] | Json],
        partition_by: Sequence[str],
        settings: Json,
        *,
        id_: str | None = None,
        known: Sequence[Json] = (),
    ) -> Json:
        kept = {f["name"]: f["metadata"] for f in known}
        fields = [
            f if isinstance(f, dict) else {"name": f[0], "type": f[1], "nullable": True, "metadata": kept.get(f[0], {})}
            for f in schema
        ]
        if self._mapping:
            fields = smith_values.mapped(fields, self._uuids(), self._ids)
            largest = max(column_ids(fields), default=0)
            settings = {**settings, "delta.columnMapping.maxColumnId": str(largest)}
        return {
            "id": id_ or str(self.uuid()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(partition_by),
            "configuration": settings,
            "createdTime": next(self._clock),
        }

    def _write_file(
        self,
        content: Content,
        carries: tuple[bool, bool],
        partition: Mapping[str, str | None],
        fields: Sequence[Json],
        stats: bool | str,
    ) -> Json:
        key = f"{smith_values.hive_directory(partition)}part-00000-{self.uuid()}.c000.snappy.parquet"
        stored = [f for f in fields if f["type"] != "void"]
        schema = pa.schema([smith_values.arrow_field(f) for f in stored])
        names = set(schema.names)
        table = pa.Table.from_pylist(
            [{k: v for k, v in row.items() if k in names} for row in content.rows], schema=schema
        )
        settings = self.metadata()["configuration"]
        for carried, setting, values in zip(carries, (_ID, _VERSION), (content.ids, content.versions), strict=True):
            if carried:
                table = table.append_column(settings[setting], pa.array(values, pa.int64()))
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="snappy")
        now = next(self._clock)
        self.put(key, sink.getvalue(), modified_ms=now)
        self._contents[key] = content
        add: Json = {
            "path": smith_values.uri_path(key),
            "partitionValues": dict(partition),
            "size": len(sink.getvalue()),
            "modificationTime": now,
            "dataChange": True,
        }
        if stats == "count":
            return {**add, "stats": dumps({"numRecords": len(content.rows)})}
        tight = stats != "wide" if self.deletion_vectors else None
        return {**add, "stats": dumps(smith_values.statistics(content.rows, fields, tight=tight))} if stats else add

    def _stamped(self, adds: Sequence[Json]) -> list[Json]:
        """Add actions with row ids above the mark, and the new mark."""
        if not self.row_tracking:
            return [{"add": add} for add in adds]
        mark = self.high_water()
        stamped = []
        for add in adds:
            ids = {"baseRowId": mark + 1, "defaultRowCommitVersion": self.version + 1}
            stamped.append({"add": {**add, **ids}})
            mark += len(self._contents[unquote(add["path"])].rows)
        return [*stamped, domain(ROW_TRACKING, {"rowIdHighWaterMark": mark})] if adds else []

    def _hidden(self, positions: Mapping[int | str, Iterable[int]], storage: str) -> list[Json]:
        adds = [self._find(file) for file in positions]
        merged = [
            frozenset(more) | (self._vectors[dv_id(add)] if "deletionVector" in add else frozenset())
            for add, more in zip(adds, positions.values(), strict=True)
        ]
        actions = []
        for add, stored, hidden in zip(adds, self._store_vectors(merged, storage), merged, strict=True):
            self._vectors[dv_id({"deletionVector": stored})] = hidden
            stats = json.loads(add.get("stats") or "{}", parse_float=Decimal)
            rows = len(self._contents[unquote(add["path"])].rows)
            wide = dumps({**stats, "numRecords": rows, "tightBounds": False})
            actions += [self._removed(add), {"add": {**add, "stats": wide, "deletionVector": stored}}]
        return actions

    def _store_vectors(self, sets: Sequence[frozenset[int]], storage: str) -> list[Json]:
        if storage == "i":
            return [inline_vector(hidden) for hidden in sets]
        path, data, descriptors = packed_vectors(sets, storage, self.uuid(), self.url)
        self.put(path, data)
        return descriptors

    def _find(self, file: int | str) -> Json:
        live = self.live()
        if isinstance(file, int):
            return live[file]
        return next(add for add in live if file in (add["path"], unquote(add["path"])))

    def _removed(self, add: Json, *, data_change: bool = True) -> Json:
        kept = ("path", "partitionValues", "size", "deletionVector", "baseRowId", "defaultRowCommitVersion", "stats")
        facts = {"deletionTimestamp": next(self._clock), "dataChange": data_change, "extendedFileMetadata": True}
        return {"remove": {**{k: add[k] for k in kept if k in add}, **facts}}
