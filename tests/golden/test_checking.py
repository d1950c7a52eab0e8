"""Tables of other engines are found sound, but for those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import DeltaTable
from holdfast.model.finding import FindingKind
from tests.golden.cases import Case, each, of_status, prepared

pytestmark = pytest.mark.golden

# Made to be wrong by whoever made them.
WRONG: dict[str, FindingKind] = {
    "delta-kernel-rs__corrupted-last-checkpoint-kernel": FindingKind.BAD_HINT,
    "delta-kernel-rs__crc-full": FindingKind.BAD_CHECKSUM,
    "delta-kernel-rs__parquet_row_group_skipping": FindingKind.WRONG_CHECKPOINT,
}
READABLE = of_status("readable", "readable-after-prep")
SAMPLE = [
    case
    for number, case in enumerate(READABLE)
    if number % 5 == 0 or case.id in WRONG or case.says.get("expected_row_ids")
]


@each(SAMPLE)
def test_a_golden_table_is_sound(case: Case | None, tmp_path: Path) -> None:
    case, path = prepared(case, tmp_path)
    report = DeltaTable.forPath(None, path).check()
    found = {finding.kind for finding in report.findings if not finding.kind.is_harmless}
    assert found == ({WRONG[case.id]} if case.id in WRONG else set()), str(report)
