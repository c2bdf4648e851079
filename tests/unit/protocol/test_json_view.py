"""Messages as JSON objects, beyond what the vectors hold."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.errors import IllegalArgumentError, IllegalTypeError, ProtocolError, UnsupportedVersionError
from barnabas.protocol.json_view import from_bytes, to_bytes
from barnabas.protocol.messages.fetch_request import FetchRequest


def test_what_is_left_out_has_its_default() -> None:
    assert to_bytes("FetchRequest", 17, {}) == FetchRequest().encode(17)
    assert from_bytes("FetchRequest", 17, FetchRequest().encode(17))["maxBytes"] == 0x7FFFFFFF


def test_unknown_tagged_fields_are_kept() -> None:
    obj = {**from_bytes("FetchRequest", 17, FetchRequest().encode(17)), "unknownTaggedFields": {"99": "AAE="}}

    data = to_bytes("FetchRequest", 17, obj)

    assert FetchRequest.decode(data, 17).unknown_tagged_fields == {99: b"\x00\x01"}
    assert from_bytes("FetchRequest", 17, data) == obj


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 0.1, -0.0])
def test_floats_survive(value: float) -> None:
    ops = [{"key": "k", "value": value, "remove": False}]
    data = to_bytes("AlterClientQuotasRequest", 1, {"entries": [{"entity": [], "ops": ops}]})

    shown = from_bytes("AlterClientQuotasRequest", 1, data)

    assert float(shown["entries"][0]["ops"][0]["value"]) == value
    assert to_bytes("AlterClientQuotasRequest", 1, shown) == data


def test_what_is_no_number_in_json_is_written_as_kafka_does() -> None:
    ops = [{"key": "k", "value": number, "remove": False} for number in ("NaN", "Infinity", "-Infinity")]
    data = to_bytes("AlterClientQuotasRequest", 1, {"entries": [{"entity": [], "ops": ops}]})

    shown = from_bytes("AlterClientQuotasRequest", 1, data)["entries"][0]["ops"]

    assert [op["value"] for op in shown] == ["NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize(
    ("obj", "error", "message"),
    [
        ({"maxWait": 5}, IllegalArgumentError, "FetchRequest has no field 'maxWait'; did you mean 'maxWaitMs'?"),
        ({"zzzz": 5}, IllegalArgumentError, "FetchRequest has no field 'zzzz'$"),
        ({"topics": {}}, IllegalTypeError, r"FetchRequest\.topics: a JSON array is needed"),
        ({"topics": [5]}, IllegalTypeError, r"FetchRequest\.topics\[0\]: a JSON object is needed, not 5"),
        ({"topics": [{"topicId": "x"}]}, IllegalArgumentError, "'x' is not a uuid"),
        ({"maxWaitMs": "5"}, IllegalTypeError, r"FetchRequest\.max_wait_ms: '5' is not a value for int32"),
        ({"unknownTaggedFields": {"99": "?"}}, IllegalArgumentError, "'\\?' is not base64"),
    ],
)
def test_bad_json_is_a_usage_error(obj: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        to_bytes("FetchRequest", 17, obj)


def test_unknown_names_and_versions_are_usage_errors() -> None:
    with pytest.raises(IllegalArgumentError, match="There is no message named 'Fetch'"):
        from_bytes("Fetch", 17, b"")
    with pytest.raises(UnsupportedVersionError):
        to_bytes("FetchRequest", 99, {})


def test_malformed_bytes_are_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        from_bytes("FetchRequest", 17, b"\x00")
