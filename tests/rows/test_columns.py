from __future__ import annotations

import pytest

from holdfast.errors import UnknownColumn
from holdfast.rows import columns


def test_pos_is_another_spelling_of_row_index() -> None:
    assert columns.canonical("_pos") == columns.canonical("_row_index") == "_row_index"


def test_an_unknown_name_is_refused_with_what_there_is() -> None:
    with pytest.raises(UnknownColumn, match=r"'_rowid'.*_row_id, .*_pos") as caught:
        columns.canonical("_rowid")
    assert caught.value.column == "_rowid"


def test_place_is_known_for_every_table_and_identity_only_where_rows_are_tracked() -> None:
    offered = (*columns.METADATA_COLUMNS, *columns.OTHER_SPELLINGS)
    needs = {name for name in offered if columns.canonical(name) in columns.NEEDS_TRACKING}
    own = {"_row_id", "_row_commit_version", "_base_row_id", "_default_row_commit_version"}
    assert needs == {*own, "_last_updated_sequence_number"}
