"""What Holdfast takes from pyiceberg, and how it says that pyiceberg is missing.

Everything that knows pyiceberg's inner modules is here and in `catalog`, so that a release which moves them is met in
two files.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.errors import Unsupported

try:
    from pyiceberg.avro.decoder import new_decoder as _new_decoder
except ImportError as _error:
    raise Unsupported("reading Iceberg tables needs pyiceberg: pip install 'holdfast[iceberg]'") from _error


class Decoder(Protocol):
    """Reads Avro's binary encoding, value after value."""

    def tell(self) -> int: ...

    def read(self, n: int) -> bytes: ...

    def read_boolean(self) -> bool: ...

    def read_int(self) -> int: ...

    def read_ints(self, count: int) -> tuple[int, ...]: ...

    def read_int_bytes_dict(self, count: int, dest: dict[int, bytes]) -> None: ...

    def read_bytes(self) -> bytes: ...

    def read_float(self) -> float: ...

    def read_double(self) -> float: ...

    def read_utf8(self) -> str: ...

    def skip(self, n: int) -> None: ...

    def skip_int(self) -> None: ...

    def skip_bytes(self) -> None: ...


def new_decoder(data: bytes) -> Decoder:
    """A decoder at the beginning of some bytes: the compiled one where pyiceberg brings it."""
    return _new_decoder(data)
