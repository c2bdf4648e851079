"""Kafka's uuids."""

from __future__ import annotations

import random

import pytest

from barnabas.errors import IllegalArgumentError
from barnabas.protocol.kafka_uuid import ONE, ZERO_UUID, from_text, random_uuid, to_text


def test_text_is_base64url_without_padding() -> None:
    assert to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert to_text(ONE) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert to_text(bytes.fromhex("fbff" + "00" * 14)).startswith("-_8")


def test_text_becomes_the_same_bytes_again() -> None:
    source = random.Random(5)
    for _ in range(100):
        uuid = source.randbytes(16)
        assert from_text(to_text(uuid)) == uuid


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AAAA",
        "AAAAAAAAAAAAAAAAAAAAA",
        "AAAAAAAAAAAAAAAAAAAAAAA",
        "AAAAAAAAAAAAAAAAAAAAA!",
        "AAAAAAAAAAAAAAAAAAAAAB",
    ],
)
def test_text_that_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(IllegalArgumentError, match="22 characters of base64url"):
        from_text(text)


def test_a_uuid_has_16_bytes() -> None:
    with pytest.raises(IllegalArgumentError, match="16 bytes, not 15"):
        to_text(bytes(15))


def test_random_uuids_come_from_the_given_source_and_are_of_version_4() -> None:
    one, again = random_uuid(random.Random(1)), random_uuid(random.Random(1))

    assert one == again
    assert one[6] >> 4 == 4
    assert one[8] >> 6 == 2


def test_no_random_uuid_starts_with_a_dash() -> None:
    source = random.Random(2)

    assert not any(to_text(random_uuid(source)).startswith("-") for _ in range(2000))
