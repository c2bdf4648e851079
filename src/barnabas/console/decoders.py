"""Keys and values as people read them: text, JSON, Avro, Protobuf, msgpack, or bytes as digits."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from barnabas.console import protobuf_values
from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    from barnabas.console.protobuf_values import MessageRule, Messages
    from barnabas.console.registry import Schema

#: The form of a message by its name begins so.
_MESSAGE = "protobuf:"
FORMS = ("auto", "text", "json", "avro", "protobuf", "msgpack", "hex")
#: What text does not have, near its beginning.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
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

    `schema_of` gives a schema of a registry by its id; None where there is no registry. With `messages` the form
    `protobuf:TYPE` reads one of them; `rules` say for which topics that is what `auto` means.
    """

    def __init__(
        self,
        schema_of: Callable[[int], Schema] | None = None,
        messages: Messages | None = None,
        rules: Iterable[MessageRule] = (),
    ) -> None:
        self._schema_of = schema_of
        self._messages = messages
        self._rules = tuple(rules)
        self._of_schema: dict[int, tuple[str, Callable[[bytes], Any]]] = {}
        self._readers: Mapping[str, Callable[[bytes], Any]] = {
            "text": lambda data: data.decode("utf-8"),
            "json": lambda data: json.loads(data.decode("utf-8")),
            "avro": lambda data: self._of_registry(data).document,
            "protobuf": self._protobuf,
            "msgpack": _msgpack,
            "hex": bytes.hex,
        }

    def decode(self, data: bytes | None, form: str) -> Decoded:
        """Return a document. Raises `IllegalArgumentError` for a form that there is not."""
        read = self._reader(form)
        if data is None:
            return Decoded("null", None)
        if form == "auto":
            return self._detected(data)
        try:
            return Decoded(form.partition(":")[0], read(data))
        except Exception as problem:  # noqa: BLE001 - decoders raise anything for bytes that were not written for them
            return Decoded("hex", data.hex(), " ".join(str(problem).split())[:300] or type(problem).__name__)

    @property
    def forms(self) -> list[str]:
        """All forms, those of messages last."""
        return [*FORMS, *(f"{_MESSAGE}{name}" for name in (self._messages.names if self._messages else ()))]

    def form_of(self, topic: str, side: str, asked: str) -> str:
        """Return the form in which a side of a topic's records is read: the one asked for, or of `auto` a rule's."""
        rule = next((rule for rule in self._rules if rule.side == side and fnmatchcase(topic, rule.topics)), None)
        return asked if rule is None or asked != "auto" else f"{_MESSAGE}{rule.message}"

    def _reader(self, form: str) -> Callable[[bytes], Any]:
        if form in FORMS:
            return self._readers.get(form, bytes)
        if self._messages is not None and form.startswith(_MESSAGE):
            return self._messages.reader(form.removeprefix(_MESSAGE))
        hint = f"; {form} needs the file of its descriptors: --protobuf" if form.startswith(_MESSAGE) else ""
        raise IllegalArgumentError(f"there is no form {form!r}; there are {', '.join(FORMS)}{hint}")

    def is_plain(self, form: str) -> bool:
        """Whether documents of a form have their names and texts as they lie in the bytes (Avro has no names)."""
        return form in ("json", "msgpack", "text") or (form == "auto" and self._schema_of is None)

    def shown(
        self, data: bytes | None, form: str, longest: int, mask: Callable[[Decoded], Decoded] | None = None
    ) -> Shown:
        """Return a key or value as text of at most so many characters; `mask` takes out what is not to be seen."""
        decoded = self.decode(data, form)
        if mask is not None:
            decoded = mask(decoded)
        if decoded.form in ("text", "hex", "null", "masked"):
            text = decoded.document
        elif decoded.form == "json" and mask is None:
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
                return self._of_registry(data)
            except Exception:  # noqa: BLE001, S110 - a zero byte may begin anything else, too
                pass
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return _packed_or_hex(data)
        if _CONTROL.search(text, 0, 200) is not None:
            return _packed_or_hex(data)
        if text[:1] in ("{", "["):
            try:
                return Decoded("json", json.loads(text))
            except (ValueError, RecursionError):
                pass
        return Decoded("text", text)

    def _protobuf(self, data: bytes) -> Any:
        if self._schema_of is not None and data[:1] == bytes([_REGISTRY_MAGIC]):
            # No field of a message has the number zero, so this is no message by itself.
            return self._of_registry(data).document
        return protobuf_values.fields_by_number(data)

    def _of_registry(self, data: bytes) -> Decoded:
        if self._schema_of is None:
            raise IllegalArgumentError("Avro needs a schema: start the console with --schema-registry")
        if len(data) <= _REGISTRY_PREFIX or data[0] != _REGISTRY_MAGIC:
            raise IllegalArgumentError("these bytes do not begin with the id of a registry's schema")
        number = int.from_bytes(data[1:_REGISTRY_PREFIX])
        if number not in self._of_schema:
            schema = self._schema_of(number)
            if len(self._of_schema) >= _SCHEMAS_KEPT:
                self._of_schema.clear()
            self._of_schema[number] = schema.kind.lower(), _reader_of(schema)
        form, read = self._of_schema[number]
        # Documents of JSON Schema are shown as Avro's, from what was read: bytes stand before their text.
        return Decoded("avro" if form == "json" else form, read(data[_REGISTRY_PREFIX:]))


def _reader_of(schema: Schema) -> Callable[[bytes], Any]:
    if schema.kind == "AVRO":
        from barnabas.serializers import AvroDeserializer

        return AvroDeserializer(schema.text)
    if schema.kind == "JSON":
        return json.loads
    if schema.kind == "PROTOBUF":
        return protobuf_values.reader_of(schema.files)
    raise IllegalArgumentError(f"schemas of type {schema.kind} are not read here")


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


def as_json(document: Any) -> str:
    """Return any document as JSON; bytes as base64, what JSON does not know as text."""

    def other(value: Any) -> Any:
        return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray) else str(value)

    try:
        return json.dumps(document, ensure_ascii=False, default=other)
    except (TypeError, ValueError):
        return repr(document)
