"""The names of the metadata columns that a scan can read.

1. A column has one canonical name; `_pos` is only another spelling of `_row_index`, and
   `_last_updated_sequence_number` of `_row_commit_version`.
2. A column in NEEDS_TRACKING has a value only where the table tracks rows; the others exist for every table.
"""

from __future__ import annotations

from holdfast.errors import UnknownColumn

ROW_ID = "_row_id"
ROW_COMMIT_VERSION = "_row_commit_version"
ROW_INDEX = "_row_index"  # physical position in the file, 0-based
FILE = "_file"
FILE_SIZE = "_file_size"
FILE_TIME = "_file_modification_time"
FILE_BLOCK_START = "_file_block_start"  # in bytes
FILE_BLOCK_LENGTH = "_file_block_length"
PARTITION = "_partition"
BASE_ROW_ID = "_base_row_id"
DEFAULT_ROW_COMMIT_VERSION = "_default_row_commit_version"
SPEC_ID = "_spec_id"  # of the partition spec of a file, in Iceberg tables
DELETED = "_deleted"  # whether a row is hidden; a scan with this column returns hidden rows too
FILE_NUMBER = "_file_number"  # of a file in its plan; for plans, not for users

METADATA_COLUMNS = (
    ROW_ID,
    ROW_COMMIT_VERSION,
    ROW_INDEX,
    FILE,
    PARTITION,
    BASE_ROW_ID,
    DEFAULT_ROW_COMMIT_VERSION,
    SPEC_ID,
    DELETED,
    FILE_SIZE,
    FILE_TIME,
    FILE_BLOCK_START,
    FILE_BLOCK_LENGTH,
)
OTHER_SPELLINGS = {"_pos": ROW_INDEX, "_last_updated_sequence_number": ROW_COMMIT_VERSION}
NEEDS_TRACKING = frozenset({ROW_ID, ROW_COMMIT_VERSION, BASE_ROW_ID, DEFAULT_ROW_COMMIT_VERSION})


def canonical(name: str) -> str:
    """The one name of a metadata column."""
    column = OTHER_SPELLINGS.get(name, name)
    if column not in METADATA_COLUMNS:
        names = ", ".join((*METADATA_COLUMNS, *OTHER_SPELLINGS))
        raise UnknownColumn(f"there is no metadata column {name!r}; ask for one of {names}", column=name)
    return column
