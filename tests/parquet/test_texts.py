"""Texts found by stepping through their pages are the texts the plain reader gives."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Damaged
from holdfast.parquet.pages import take
from holdfast.parquet.pages.splice import spliced
from holdfast.parquet.pages.take import Pick, Taking
from holdfast.parquet.read import FileTask
from holdfast.storage.local import LocalStore
from tests.parquet.taking import expected, spec_of, stored, taken
from tests.support.depth import examples


@pytest.fixture
def no_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither pages nor row groups are decoded."""
    monkeypatch.setattr(take, "spliced", lambda *_: pytest.fail("a page was decoded"))
    monkeypatch.setattr(take, "_plain", lambda *_: pytest.fail("a row group was decoded"))


def names(count: int, *, nulls: int | None = None) -> list[Any]:
    """Texts of all lengths, some empty; every so many a null."""
    return [None if nulls and n % nulls == 0 else "é" * (n % 7) + f"{n}" * (n % 3) for n in range(count)]


@examples(120)
@given(st.data())
def test_any_texts_and_layout(tmp_path: Path, data: st.DataObject) -> None:
    words = (
        st.one_of(st.none(), st.text(max_size=12), st.just("long " * 100)) if data.draw(st.booleans()) else st.text()
    )
    some = data.draw(st.lists(words, min_size=1, max_size=12))
    order = data.draw(st.lists(st.integers(0, len(some) - 1), min_size=1, max_size=120))
    required = None not in some and data.draw(st.booleans())
    type_ = data.draw(st.sampled_from((pa.string(), pa.binary(), pa.large_string())))
    table = pa.table(
        [pa.array([some[i] for i in order], pa.string()).cast(type_), pa.array(range(len(order)))],
        pa.schema([pa.field("s", type_, nullable=not required), pa.field("n", pa.int64())]),
    )
    file = stored(
        table,
        compression=data.draw(st.sampled_from(("none", "snappy", "zstd"))),
        use_dictionary=data.draw(st.sampled_from((False, False, True))),
        data_page_version=data.draw(st.sampled_from(("1.0", "1.0", "2.0"))),
        max_rows_per_page=data.draw(st.integers(1, 30)),
        write_batch_size=data.draw(st.integers(1, 20)),
        row_group_size=data.draw(st.integers(1, 60)),
        write_statistics=data.draw(st.booleans()),
        write_page_checksum=data.draw(st.booleans()),
    )
    spec, task = spec_of(table.schema), FileTask("x", size=len(file))
    key, taking = f"{str(tmp_path)[1:]}/{uuid4()}", Taking(spec)
    LocalStore().put(key, file)
    for _ in range(3):  # the second and third time by what was learned
        wanted = np.array(data.draw(st.lists(st.integers(0, len(order) - 1), min_size=1, max_size=9)), np.int64)
        got = taking.rows([Pick(LocalStore(), key, task, wanted)])
        got.validate(full=True)
        assert got.equals(expected(file, spec, task, wanted))


@pytest.mark.parametrize("codec", ["none", "snappy"])
@pytest.mark.parametrize("nulls", [None, 3, 1])
def test_the_texts_of_few_rows_are_not_decoded(
    codec: str, nulls: int | None, no_decoding: None, tmp_path: Path
) -> None:
    table = pa.table({"s": pa.array(names(3000, nulls=nulls), pa.string()), "b": names(3000)})
    options = {"use_dictionary": False, "max_rows_per_page": 128, "row_group_size": 1000, "compression": codec}
    file, spec, task = stored(table, **options), spec_of(table.schema), FileTask("x")
    for wanted in ([17], [2999, 0, 127, 128, 1000, 999, 128], [18, 21, 1500]):
        key = f"{str(tmp_path)[1:]}/{uuid4()}"
        got = taken(LocalStore(), file, spec, np.array(wanted), key=key, task=task)
        assert got.equals(expected(file, spec, task, np.array(wanted)))


def test_files_share_their_steps_and_keep_their_order(no_decoding: None, tmp_path: Path) -> None:
    store, picks, wanted = LocalStore(), [], []
    rng = np.random.default_rng(4)
    for number in range(9):
        texts = [f"{number}-{n}" if n % (number + 2) else None for n in range(700)]
        table = pa.table({"s": pa.array(texts, pa.string())})
        key = f"{str(tmp_path)[1:]}/{number}"
        store.put(key, stored(table, use_dictionary=False, max_rows_per_page=32 + number, compression="snappy"))
        at = rng.permutation(700)[: 1 + number * 3]
        picks.append(Pick(store, key, FileTask(key), at))
        wanted += [texts[n] for n in at.tolist()]
    spec = spec_of(pa.schema([("s", pa.string())]), metadata={})
    assert Taking(spec).rows(picks).column("s").to_pylist() == wanted


def test_where_most_of_a_page_is_wanted_it_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[Any] = []

    def watched(*given: Any) -> dict[str, pa.Array]:
        decoded.append(given)
        return spliced(*given)

    monkeypatch.setattr(take, "spliced", watched)
    table = pa.table({"s": names(500)})
    file = stored(table, use_dictionary=False, max_rows_per_page=100, compression="snappy")
    wanted, spec, task = np.arange(300), spec_of(table.schema), FileTask("x")
    got = taken(LocalStore(), file, spec, wanted, key=f"{str(tmp_path)[1:]}/f", task=task)
    assert got.equals(expected(file, spec, task, wanted))
    assert decoded


@pytest.mark.parametrize("codec", ["none", "snappy"])
@examples(60)
@given(st.data())
def test_a_damaged_page_gives_what_arrow_gives_or_is_damage(codec: str, tmp_path: Path, data: st.DataObject) -> None:
    """Bytes of pages are changed; no answer lies outside its page, and nothing but Damaged is raised."""
    table = pa.table({"s": [f"name {n}" for n in range(400)]})
    file = bytearray(stored(table, use_dictionary=False, max_rows_per_page=50, compression=codec))
    for _ in range(data.draw(st.integers(1, 3))):
        file[data.draw(st.integers(4, len(file) // 2))] = data.draw(st.integers(0, 255))
    spec = spec_of(table.schema)
    wanted = np.array(data.draw(st.lists(st.integers(0, 399), min_size=1, max_size=6)), np.int64)
    key = f"{str(tmp_path)[1:]}/{uuid4()}"
    LocalStore().put(key, bytes(file))
    with suppress(Damaged):
        got = Taking(spec).rows([Pick(LocalStore(), key, FileTask("x"), wanted)])
        got.column("s").cast(pa.binary()).validate(full=True)
        assert got.column("at").to_pylist() == wanted.tolist()
