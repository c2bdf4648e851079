"""What a line of input to `produce` means."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from barnabas.client.position_syntax import parse_time
from barnabas.errors import SerializationError


class Line(NamedTuple):
    """A record to send; `timestamp` in epoch milliseconds."""

    key: bytes | None
    value: bytes | None
    partition: int | None
    timestamp: int | None
    headers: list[tuple[str, bytes | None]]


class GivenFields(NamedTuple):
    """What the command line says of every record; with `tombstone` an empty value is one."""

    partition: int | None
    timestamp: int | None
    headers: list[tuple[str, bytes | None]]
    tombstone: bool


Parse = Callable[[bytes], Line]

DECODINGS: dict[str, Callable[[bytes], bytes]] = {
    "utf8": bytes,
    "hex": lambda text: bytes.fromhex(text.decode("ascii")),
    "base64": lambda text: b64decode(text, validate=True),
}
_FIELDS = {"key", "value", "partition", "timestamp", "headers", "keyEncoding", "valueEncoding"}
# What `consume -o json` also writes, and which the broker decides anew.
_IGNORED = {"topic", "offset", "timestampType"}
_HEADER_FIELDS = {"key", "value", "valueEncoding"}


def line_parser(
    delimiter: bytes | None,
    key_as: str,
    value_as: str,
    given: GivenFields,
) -> Parse:
    """Return what reads a line as a value, or as key, delimiter and value. It raises SerializationError."""

    def parse(line: bytes) -> Line:
        key = None
        if delimiter is not None:
            key, found, line = line.partition(delimiter)
            if not found:
                raise SerializationError(f"it has no key: the delimiter {delimiter.decode()!r} is not in it")
            key = _decode(key, key_as, "key")
        value = _decode(line, value_as, "value")
        tombstone = given.tombstone and not value
        return Line(key, None if tombstone else value, given.partition, given.timestamp, given.headers)

    return parse


def json_parser(
    key_as: str,
    value_as: str,
    given: GivenFields,
) -> Parse:
    """Return what reads a line as a JSON object, in the form of `consume -o json`. It raises SerializationError."""

    def parse(line: bytes) -> Line:
        fields = _object(line)
        if "value" not in fields:
            raise SerializationError('it has no field "value"; a tombstone is "value": null')
        value = _data(fields, "value", value_as)
        own = fields.get("partition")
        return Line(
            _data(fields, "key", key_as),
            None if given.tombstone and not value else value,
            given.partition if given.partition is not None else _number(own, "partition"),
            given.timestamp if given.timestamp is not None else _timestamp(fields.get("timestamp")),
            [*given.headers, *_headers(fields.get("headers"))],
        )

    return parse


def _decode(text: bytes, encoding: str, what: str) -> bytes:
    try:
        return DECODINGS[encoding](text)
    except ValueError as problem:
        raise SerializationError(f"its {what} is not {encoding}: {problem}") from None
    except KeyError:
        raise SerializationError(f"{what}Encoding {encoding!r} is not one of {', '.join(DECODINGS)}") from None


def _object(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise SerializationError(f"it is not JSON: {problem}") from None
    if not isinstance(document, dict):
        raise SerializationError(f"it is a JSON {type(document).__name__}, not an object")
    _check_fields(document, _FIELDS | _IGNORED, "field")
    return document


def _check_fields(document: Mapping[str, Any], known: set[str], what: str) -> None:
    unknown = sorted(document.keys() - known)
    if unknown:
        raise SerializationError(f"it has the unknown {what} {unknown[0]!r}; there are {', '.join(sorted(known))}")


def _data(fields: Mapping[str, Any], name: str, default_encoding: str) -> bytes | None:
    """Return a string as its encoding says; any other JSON value as JSON."""
    found = fields.get(name)
    if found is None:
        return None
    try:
        if not isinstance(found, str):
            return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
        text = found.encode()
    except UnicodeEncodeError as problem:
        raise SerializationError(f"its {name} is no valid text: {problem}") from None
    return _decode(text, str(fields.get(f"{name}Encoding", default_encoding)), name)


def _number(value: Any, name: str) -> int | None:
    if value is None or (type(value) is int and 0 <= value < 2**63):
        return value
    raise SerializationError(f"its {name} is {value!r}, not a whole number")


def _timestamp(value: Any) -> int | None:
    if not isinstance(value, str):
        # -1 is what records without a timestamp have.
        return None if value == -1 else _number(value, "timestamp")
    moment = parse_time(value, 0) if not value.startswith("-") else None
    if moment is None:
        raise SerializationError(f"its timestamp {value!r} is neither epoch milliseconds nor like 2013-06-01T12:00Z")
    return moment


def _headers(value: Any) -> list[tuple[str, bytes | None]]:
    if value is None:
        return []
    if isinstance(value, dict):
        value = [{"key": name, "value": content} for name, content in value.items()]
    if not isinstance(value, list) or not all(isinstance(h, dict) and isinstance(h.get("key"), str) for h in value):
        raise SerializationError('its headers must be [{"key": name, "value": text}, ...] or {name: text, ...}')
    for header in value:
        _check_fields(header, _HEADER_FIELDS, "field of a header")
    return [(header["key"], _data(header, "value", "utf8")) for header in value]
