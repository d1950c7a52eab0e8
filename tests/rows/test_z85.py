from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers, text, uuids

from holdfast.errors import Damaged
from holdfast.rows import z85
from tests.support.depth import examples


def test_the_vector_of_the_z85_definition() -> None:
    assert z85.encode(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld"
    assert z85.decode("HelloWorld", 8) == bytes.fromhex("864FD26FB559F75B")


def test_the_uuid_of_a_vector_file() -> None:
    uuid = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
    assert z85.decode_uuid("^-aqEH.-t@S}K{vb[*k^") == uuid
    assert z85.encode_uuid(uuid) == "^-aqEH.-t@S}K{vb[*k^"


@examples(100)
@given(binary(max_size=70))
def test_bytes_come_back(data: bytes) -> None:
    assert z85.decode(z85.encode(data), len(data)) == data


@examples(50)
@given(uuids())
def test_uuids_come_back_from_twenty_characters(uuid: UUID) -> None:
    spelled = z85.encode_uuid(uuid)
    assert len(spelled) == z85.UUID_LENGTH
    assert z85.decode_uuid(spelled) == uuid


@examples(200)
@given(text(max_size=30), integers(-5, 30))
def test_any_text_decodes_to_its_size_or_is_damaged(spelled: str, size: int) -> None:
    match outcome(spelled, size):
        case Damaged() as error:
            assert error.path == "here"
        case got:
            assert len(got) == size


def outcome(spelled: str, size: int) -> bytes | Damaged:
    try:
        return z85.decode(spelled, size, where="here")
    except Damaged as error:
        return error


@pytest.mark.parametrize(
    ("spelled", "size", "what"),
    [
        ("Hello", 8, "10 characters"),
        ("HelloWorld", 4, "5 characters"),
        ("Hell~", 4, "not Z85"),
        ("Hellé", 4, "not Z85"),
        ("#####", 4, "beyond four bytes"),
        ("", -4, "-4 bytes"),
    ],
)
def test_what_is_wrong_is_said(spelled: str, size: int, what: str) -> None:
    with pytest.raises(Damaged, match=what):
        z85.decode(spelled, size)
