"""One class per error code, and the errors without one."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from barnabas import errors

SCHEMA = Path(errors.__file__).parent / "protocol" / "schema" / "errors.json"
CODES = [entry for entry in json.loads(SCHEMA.read_text(encoding="utf-8"))["codes"] if entry["code"] != 0]


def test_every_code_has_a_class_with_kafkas_name_and_traits() -> None:
    assert len(CODES) == 134
    for entry in CODES:
        error = errors.for_code(entry["code"])
        assert (error.code, error.name) == (entry["code"], entry["name"])
        assert (error.retriable, error.refresh_metadata) == (entry["retriable"], entry["refreshMetadata"])
        expected = entry["exception"].removesuffix("Exception") + "Error"
        assert type(error).__name__ == {"TimeoutError": "KafkaTimeoutError"}.get(expected, expected)
        assert type(error) is getattr(errors, type(error).__name__)


def test_every_error_says_something_without_a_message() -> None:
    for entry in CODES:
        text = str(errors.for_code(entry["code"]))
        assert text[0].isupper()
        assert text.endswith(".")


def test_a_message_replaces_the_text() -> None:
    assert str(errors.for_code(3, "Topic a-1 is not here")) == "Topic a-1 is not here"


def test_an_unknown_code_is_kept() -> None:
    error = errors.for_code(999)

    assert type(error) is errors.UnknownServerError
    assert error.code == 999
    assert "999" in str(error)
    assert errors.name_of(999) == "999"
    assert errors.UnknownServerError.code == -1


def test_code_0_is_no_error() -> None:
    assert errors.name_of(errors.NONE) == "NONE"
    with pytest.raises(errors.IllegalArgumentError):
        errors.for_code(0)


def test_families() -> None:
    assert issubclass(errors.UnknownTopicOrPartitionError, errors.InvalidMetadataError)
    assert issubclass(errors.NotEnoughReplicasError, errors.RetriableError)
    assert issubclass(errors.TopicAuthorizationError, errors.AuthorizationError)
    assert issubclass(errors.SaslAuthenticationError, errors.AuthenticationError)
    assert issubclass(errors.OffsetOutOfRangeError, errors.InvalidOffsetError)
    assert issubclass(errors.NoOffsetForPartitionError, errors.InvalidOffsetError)
    assert issubclass(errors.DecompressionError, errors.CorruptRecordError)
    assert issubclass(errors.BufferExhaustedError, errors.KafkaTimeoutError)
    assert issubclass(errors.KafkaTimeoutError, TimeoutError)


def test_usage_errors_are_value_and_type_errors() -> None:
    for cls in (errors.ConfigError, errors.IllegalStateError, errors.IllegalArgumentError):
        assert issubclass(cls, ValueError)
    assert issubclass(errors.IllegalTypeError, TypeError)


def test_every_error_is_a_kafka_error_and_can_be_pickled() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]

    assert len(classes) > 160
    for cls in classes:
        assert issubclass(cls, errors.KafkaError)
        copy = pickle.loads(pickle.dumps(cls("what happened")))
        assert (type(copy), str(copy)) == (cls, "what happened")
