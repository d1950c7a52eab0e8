"""Tables of a catalog, through pyiceberg: finding, creating, altering and committing to them."""

from holdfast.errors import Unsupported

try:
    import pyiceberg.catalog.sql  # noqa: F401
except ImportError as _error:
    raise Unsupported("reading Iceberg tables needs pyiceberg: pip install 'holdfast[iceberg]'") from _error
