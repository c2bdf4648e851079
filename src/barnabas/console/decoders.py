"""Keys and values as people read them: text, JSON, Avro, Protobuf, msgpack, or bytes as digits."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypedDict, cast

from barnabas.errors import IllegalArgumentError

FORMS = ("auto", "text", "json", "avro", "protobuf", "msgpack", "hex")
_REGISTRY_MAGIC = 0
_REGISTRY_PREFIX = 5
_SCHEMAS_KEPT = 1000


class Shown(TypedDict):
    """A key or value: `form` is how it was read, `bytes` its size; `isCut` when `text` is only its beginning.

    `problem` says why it could not be read in the form that was asked for.
    """

    form: str
    text: str | None
    bytes: int
    isCut: bool
    problem: str | None


class Decoded(NamedTuple):
    """A document, and the form in which it was found; a `problem` where the form asked for did not fit."""

    form: str
    document: Any
    problem: str | None = None


class Decoders:
    """Reads keys and values in one of FORMS; `auto` goes by what the bytes look like.

    `schema_of` gives a schema of a registry by its id (its type, its text); None where there is no registry.
    """

    def __init__(self, schema_of: Callable[[int], tuple[str, str]] | None = None) -> None:
        self._schema_of = schema_of
        self._of_schema: dict[int, Callable[[bytes], Any]] = {}
        self._readers: Mapping[str, Callable[[bytes], Any]] = {
            "text": lambda data: data.decode("utf-8"),
            "json": lambda data: json.loads(data.decode("utf-8")),
            "avro": self._of_registry,
            "protobuf": _protobuf_fields,
            "msgpack": _msgpack,
            "hex": bytes.hex,
        }

    def decode(self, data: bytes | None, form: str) -> Decoded:
        """Return a document. Raises `IllegalArgumentError` for a form that there is not."""
        if form not in FORMS:
            raise IllegalArgumentError(f"there is no form {form!r}; there are {', '.join(FORMS)}")
        if data is None:
            return Decoded("null", None)
        if form == "auto":
            return self._detected(data)
        try:
            return Decoded(form, self._readers[form](data))
        except Exception as problem:  # noqa: BLE001 - decoders raise anything for bytes that were not written for them
            return Decoded("hex", data.hex(), " ".join(str(problem).split())[:300] or type(problem).__name__)

    def is_plain(self, form: str) -> bool:
        """Whether documents of a form have their names and texts as they lie in the bytes (Avro has no names)."""
        return form in ("json", "msgpack", "text") or (form == "auto" and self._schema_of is None)

    def shown(self, data: bytes | None, form: str, longest: int) -> Shown:
        """Return a key or value as text of at most so many characters."""
        decoded = self.decode(data, form)
        if decoded.form in ("text", "hex", "null"):
            text = decoded.document
        elif decoded.form == "json":
            # As it lies there: numbers keep their digits, names their order and their doubles.
            text = (data or b"").decode("utf-8", "replace")
        else:
            text = as_json(decoded.document)
        is_cut = text is not None and len(text) > longest
        return {
            "form": decoded.form,
            "text": text[:longest] if is_cut else text,
            "bytes": 0 if data is None else len(data),
            "isCut": is_cut,
            "problem": decoded.problem,
        }

    def _detected(self, data: bytes) -> Decoded:
        if self._schema_of is not None and len(data) > _REGISTRY_PREFIX and data[0] == _REGISTRY_MAGIC:
            try:
                return Decoded("avro", self._of_registry(data))
            except Exception:  # noqa: BLE001, S110 - a zero byte may begin anything else, too
                pass
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return _packed_or_hex(data)
        if any(ord(c) < 32 and c not in "\t\r\n" for c in text[:200]):
            return _packed_or_hex(data)
        if text[:1] in ("{", "["):
            try:
                return Decoded("json", json.loads(text))
            except (ValueError, RecursionError):
                pass
        return Decoded("text", text)

    def _of_registry(self, data: bytes) -> Any:
        if self._schema_of is None:
            raise IllegalArgumentError("Avro needs a schema: start the console with --schema-registry")
        if len(data) <= _REGISTRY_PREFIX or data[0] != _REGISTRY_MAGIC:
            raise IllegalArgumentError("these bytes do not begin with the id of a registry's schema")
        number = int.from_bytes(data[1:_REGISTRY_PREFIX])
        reader = self._of_schema.get(number)
        if reader is None:
            reader = _reader_of(*self._schema_of(number))
            if len(self._of_schema) >= _SCHEMAS_KEPT:
                self._of_schema.clear()
            self._of_schema[number] = reader
        return reader(data[_REGISTRY_PREFIX:])


def _reader_of(kind: str, schema: str) -> Callable[[bytes], Any]:
    if kind == "AVRO":
        from barnabas.serializers import AvroDeserializer

        return AvroDeserializer(schema)
    if kind == "JSON":
        return json.loads
    raise IllegalArgumentError(f"schemas of type {kind} are not read here; choose protobuf to see the fields by number")


def _packed_or_hex(data: bytes) -> Decoded:
    try:
        document = _msgpack(data)
    except Exception:  # noqa: BLE001 - as above
        return Decoded("hex", data.hex())
    # Nearly any byte is a number in msgpack; only a document of some structure is a sign of it.
    return Decoded("msgpack", document) if isinstance(document, dict) and document else Decoded("hex", data.hex())


def _msgpack(data: bytes) -> Any:
    from barnabas.serializers import MsgpackDeserializer

    return MsgpackDeserializer()(data)


def _protobuf_fields(data: bytes) -> Any:
    """Return a message's fields by number, as the bytes tell them without a schema."""
    try:
        from google.protobuf.empty_pb2 import Empty
        from google.protobuf.message import DecodeError
        from google.protobuf.unknown_fields import UnknownFieldSet
    except ImportError:
        raise ImportError("Protobuf needs the package protobuf: pip install 'barnabas[protobuf]'") from None
    message = Empty()
    try:
        message.ParseFromString(data)
    except DecodeError as problem:
        raise IllegalArgumentError(f"this is no Protobuf message: {problem}") from None
    fields: dict[str, list[Any]] = {}
    for field in cast("Any", UnknownFieldSet(message)):
        value = field.data
        if isinstance(value, bytes):
            value = value.decode("utf-8", "backslashreplace")
        elif not isinstance(value, int | float):
            value = "a group"
        fields.setdefault(str(field.field_number), []).append(value)
    return fields


def as_json(document: Any) -> str:
    """Return any document as JSON; bytes as base64, what JSON does not know as text."""

    def other(value: Any) -> Any:
        return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray) else str(value)

    try:
        return json.dumps(document, ensure_ascii=False, default=other)
    except (TypeError, ValueError):
        return repr(document)


def registry_schemas(url: str) -> Callable[[int], tuple[str, str]]:
    """Return what fetches schemas of a registry by id. Raises `IllegalArgumentError` where its client is missing."""
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
    except ImportError:
        raise IllegalArgumentError(
            "--schema-registry needs its client: pip install 'barnabas[schema-registry]'"
        ) from None
    client = SchemaRegistryClient({"url": url, "timeout": 5})

    def schema_of(number: int) -> tuple[str, str]:
        try:
            schema = client.get_schema(number)
        except (SchemaRegistryError, OSError) as problem:
            raise IllegalArgumentError(f"the registry has no schema {number}: {problem}") from None
        return str(schema.schema_type), str(schema.schema_str)

    return schema_of
