"""Lets pyiceberg's catalogs read and write metadata files through Holdfast's stores.

A catalog in a database keeps only the path of a table's newest metadata file, and writes and reads these files itself.
Here it does so through `ObjectStore`, also in version 3, which pyiceberg does not write.

1. The user's catalog object stays as it is; the copy shares its connections.
2. A metadata file has a new name and is complete before the catalog points to it.
"""

from __future__ import annotations

import copy
import gzip
import io
from collections.abc import Mapping

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.io import PY_IO_IMPL, FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import IcebergBaseModel

from holdfast.formats.iceberg.metadata.table_metadata import ROW_IDS_SINCE
from holdfast.storage.base import NotFound
from holdfast.storage.location import Location
from holdfast.storage.open import open_location

OPTIONS = {  # pyiceberg's names of storage settings, and ours
    "s3.endpoint": "aws_endpoint",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.region": "aws_region",
    "client.region": "aws_region",
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_token",
}
_USER_OPTION = "holdfast.storage."  # prefix of the user's options among a catalog's properties


def through_stores(catalog: Catalog, storage_options: Mapping[str, str] | None = None) -> Catalog:
    """The same catalog; one that writes metadata files itself does so through our stores, opened with these options."""
    through_ours = catalog.properties.get(PY_IO_IMPL) == _IMPLEMENTATION
    if not isinstance(catalog, MetastoreCatalog) or (through_ours and not storage_options):
        return catalog
    catalog = copy.copy(catalog)
    options = {f"{_USER_OPTION}{name}": value for name, value in (storage_options or {}).items()}
    catalog.properties = {**catalog.properties, PY_IO_IMPL: _IMPLEMENTATION, **options}
    catalog._write_metadata = _write_metadata  # type: ignore[method-assign]
    return catalog


class StoreIO(FileIO):
    """pyiceberg's file access, on our stores."""

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self._options())

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self._options())

    def delete(self, location: str | InputFile | OutputFile) -> None:
        place = open_location(
            location if isinstance(location, str) else location.location, storage_options=self._options()
        )
        place.store.delete(place.directory)

    def _options(self) -> Mapping[str, str] | None:
        properties = {name: str(value) for name, value in self.properties.items()}
        given = {n.removeprefix(_USER_OPTION): v for n, v in properties.items() if n.startswith(_USER_OPTION)}
        return given or {ours: properties[theirs] for theirs, ours in OPTIONS.items() if theirs in properties} or None


_IMPLEMENTATION = f"{StoreIO.__module__}.{StoreIO.__qualname__}"


class _Input(InputFile):
    def __init__(self, location: str, options: Mapping[str, str] | None) -> None:
        super().__init__(location)
        self._place = open_location(location, storage_options=options)

    def __len__(self) -> int:
        return self._place.store.head(self._place.directory).size

    def exists(self) -> bool:
        try:
            self._place.store.head(self._place.directory)
        except NotFound:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:
        try:
            return io.BytesIO(self._place.store.get(self._place.directory))
        except NotFound as error:
            raise FileNotFoundError(f"{self.location} is not there") from error


class _Output(OutputFile):
    def __init__(self, location: str, options: Mapping[str, str] | None) -> None:
        super().__init__(location)
        self._options = options
        self._place = open_location(location, storage_options=options)

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._options)

    def create(self, overwrite: bool = False) -> OutputStream:
        return _PutOnClose(self._place)


class _PutOnClose(io.BytesIO):
    """A buffer that is stored when it is closed."""

    def __init__(self, place: Location) -> None:
        super().__init__()
        self._place = place

    def close(self) -> None:
        if not self.closed:
            self._place.store.put(self._place.directory, self.getvalue())
        super().close()


def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
    """Writes a metadata file of any version; pyiceberg refuses to serialize version 3, though its models have it."""
    if metadata.format_version >= ROW_IDS_SINCE and getattr(metadata, "next_row_id", None) is None:
        metadata = metadata.model_copy(update={"next_row_id": 0})  # a new table
    text = IcebergBaseModel.model_dump_json(metadata, exclude_none=True).encode()
    is_compressed = metadata_path.endswith((".gz.metadata.json", ".metadata.json.gz"))
    with io.new_output(metadata_path).create() as stream:
        stream.write(gzip.compress(text) if is_compressed else text)
