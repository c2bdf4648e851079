"""How `consume` writes a record: as a line for people, as JSON, raw, as a hex dump, or by a format string."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments import unescaped
from barnabas.cli.output import printable, time_text
from barnabas.errors import IllegalArgumentError, RecordDeserializationError

if TYPE_CHECKING:
    from pathlib import Path

    from barnabas.records.decoder import ConsumerRecord

Formatter = Callable[["ConsumerRecord"], bytes]
Encodings = Mapping[str, Callable[[bytes], bytes]]

FORMS = ("human", "json", "raw", "hex")
#: How keys and values are written: as they are, or as digits.
ENCODINGS: Encodings = {
    "utf8": bytes,
    "hex": lambda data: data.hex().encode(),
    "base64": b64encode,
}
#: Before the name of a message of Protobuf, which is written as JSON.
MESSAGE = "protobuf:"
_TIMESTAMP_TYPES = {-1: None, 0: "CreateTime", 1: "LogAppendTime"}
_TOKEN = re.compile(r"%(.?)", re.DOTALL)
_DUMP_WIDTH = 16
# json.dumps would make an encoder for each record.
_to_json = json.JSONEncoder(ensure_ascii=False).encode


def encodings_of(names: Iterable[str], descriptors: Iterable[Path]) -> Encodings:
    """Return ENCODINGS, with those of messages (`protobuf:TYPE`) that are named, from descriptor files.

    Raises `IllegalArgumentError` for a message that there is not, `ConfigError` for a file that is none.
    """
    wanted = {name for name in names if name.startswith(MESSAGE)}
    if not wanted:
        return ENCODINGS
    from barnabas.console.decoders import as_json
    from barnabas.console.protobuf_values import Messages

    messages = Messages(descriptors)

    def encoder(read: Callable[[bytes], Any]) -> Callable[[bytes], bytes]:
        return lambda data: as_json(read(data)).encode()

    return {**ENCODINGS, **{name: encoder(messages.reader(name.removeprefix(MESSAGE))) for name in wanted}}


def saying_where(write: Formatter) -> Formatter:
    """Return a formatter that says of which record the bytes are no message of the type.

    It raises `RecordDeserializationError`.
    """

    def write_or_say(record: ConsumerRecord) -> bytes:
        try:
            return write(record)
        except IllegalArgumentError as problem:
            place = f"{record.topic}-{record.partition}@{record.offset}"
            raise RecordDeserializationError(f"{place}: {problem}") from problem

    return write_or_say


def write_formatted(write: Callable[[bytes], object], form: Formatter, records: Iterable[ConsumerRecord]) -> int:
    """Write records in one piece, and return how many; those before one that cannot be formatted are written, too."""
    pieces: list[bytes] = []
    try:
        for record in records:
            pieces.append(form(record))
    finally:
        write(b"".join(pieces))
    return len(pieces)


def formatter(form: str, key_as: str = "utf8", value_as: str = "utf8", encodings: Encodings = ENCODINGS) -> Formatter:
    """Return what writes a record in one of FORMS; keys and values in encodings by name."""
    encode_key, encode_value = encodings[key_as], encodings[value_as]
    if form == "raw":
        return lambda record: b"\n" if record.value is None else encode_value(record.value) + b"\n"
    if form == "hex":
        return _hex_dump
    if form == "json":
        return lambda record: _json_line(record, key_as, value_as, encodings)
    return lambda record: _human_line(record, encode_key, encode_value)


def _human_line(
    record: ConsumerRecord, encode_key: Callable[[bytes], bytes], encode_value: Callable[[bytes], bytes]
) -> bytes:
    key = "-" if record.key is None else _shown(encode_key(record.key))
    value = "null" if record.value is None else _shown(encode_value(record.value))
    line = f"{record.topic}-{record.partition}@{record.offset}  {time_text(record.timestamp)}  {key}  {value}"
    if record.headers:
        line += f"  [{_headers_text(record)}]"
    return line.encode() + b"\n"


def _shown(data: bytes) -> str:
    return printable(data.decode("utf-8", "backslashreplace"))


def _headers_text(record: ConsumerRecord) -> str:
    return ", ".join(
        f"{printable(name)}={'null' if value is None else _shown(value)}" for name, value in record.headers
    )


def _json_line(record: ConsumerRecord, key_as: str, value_as: str, encodings: Encodings) -> bytes:
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestampType": _TIMESTAMP_TYPES.get(record.timestamp_type),
    }
    put_bytes(document, "key", record.key, key_as, encodings)
    put_bytes(document, "value", record.value, value_as, encodings)
    document["headers"] = [_json_header(name, value) for name, value in record.headers]
    return _to_json(document).encode() + b"\n"


def _json_header(name: str, value: bytes | None) -> dict[str, Any]:
    header: dict[str, Any] = {"key": name}
    put_bytes(header, "value", value)
    return header


def put_bytes(
    document: dict[str, Any], name: str, data: bytes | None, encoding: str = "utf8", encodings: Encodings = ENCODINGS
) -> None:
    """Note the bytes as text; bytes that are not UTF-8 become base64, marked as such, so that nothing is lost.

    A message of Protobuf becomes a document.
    """
    if data is None:
        document[name] = None
        return
    try:
        text = encodings[encoding](data).decode()
        document[name] = json.loads(text) if encoding.startswith(MESSAGE) else text
    except UnicodeDecodeError:
        encoding = "base64"
        document[name] = b64encode(data).decode()
    if encoding != "utf8":
        document[f"{name}Encoding"] = encoding


def _hex_dump(record: ConsumerRecord) -> bytes:
    head = f"{record.topic}-{record.partition}@{record.offset}  {time_text(record.timestamp)}"
    parts = [("key", record.key), ("value", record.value)]
    parts += [(f"header {printable(name)}", value) for name, value in record.headers]
    lines = [head]
    for name, data in parts:
        lines.append(f"  {name}: " + ("null" if data is None else f"{len(data)} bytes"))
        lines.extend(_dump_lines(data or b""))
    return "\n".join(lines).encode() + b"\n"


def _dump_lines(data: bytes) -> list[str]:
    lines = []
    for start in range(0, len(data), _DUMP_WIDTH):
        row = data[start : start + _DUMP_WIDTH]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"    {start:08x}  {row.hex(' '):{_DUMP_WIDTH * 3 - 1}}  |{text}|")
    return lines


def _size(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers)


#: kcat's tokens, those that need no encoding.
_TOKENS: dict[str, Formatter] = {
    "S": lambda record: _size(record.value),
    "R": lambda record: (-1 if record.value is None else len(record.value)).to_bytes(4, "big", signed=True),
    "K": lambda record: _size(record.key),
    "T": lambda record: b"%d" % record.timestamp,
    "h": _headers,
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "%": lambda record: b"%",
}


def format_string(
    text: str, key_as: str = "utf8", value_as: str = "utf8", encodings: Encodings = ENCODINGS
) -> Formatter:
    """Return what writes a record by kcat's format string, such as `%k: %s\\n`. Raises IllegalArgumentError."""
    encode_key, encode_value = encodings[key_as], encodings[value_as]
    tokens: dict[str, Formatter] = {
        **_TOKENS,
        "k": lambda record: b"" if record.key is None else encode_key(record.key),
        "s": lambda record: b"" if record.value is None else encode_value(record.value),
    }
    # Literals stand at even places, tokens at odd ones.
    pieces = _TOKEN.split(text)
    unknown = [token for token in pieces[1::2] if token not in tokens]
    if unknown:
        raise IllegalArgumentError(
            f"-f {text!r}: there is no %{unknown[0]}; there are {' '.join(map('%'.__add__, tokens))}"
        )
    literals = [unescaped(piece).encode(errors="surrogateescape") for piece in pieces[0::2]]
    first, rest = literals[0], list(zip([tokens[token] for token in pieces[1::2]], literals[1:], strict=True))
    return lambda record: first + b"".join([write(record) + literal for write, literal in rest])
