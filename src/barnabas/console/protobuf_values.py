"""Protobuf values: with descriptors of a registry or a file by name, without by the numbers of their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from barnabas.errors import ConfigError, IllegalArgumentError

if TYPE_CHECKING:
    from google.protobuf.message import Message as ProtobufMessage

Reader = Callable[[bytes], Any]
#: A registry's schema id, after a zero byte, before the message's indexes; no message begins with a zero byte.
_REGISTRY_PREFIX = 5
_WELL_KNOWN_PACKAGE = "google.protobuf."

#: What the package brings itself, dependencies first.
_WELL_KNOWN = (
    "any", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "wrappers", "type", "api",
)  # fmt: skip
_WELL_KNOWN_FILES = frozenset(f"google/protobuf/{name}.proto" for name in _WELL_KNOWN)


def check_installed() -> None:
    """Raise `ImportError` that says what to install, where protobuf is missing."""
    try:
        import google.protobuf  # noqa: F401 - whether it is there
    except ImportError:
        raise ImportError("Protobuf needs the package protobuf: pip install 'barnabas[protobuf]'") from None


def fields_by_number(data: bytes) -> dict[str, list[Any]]:
    """Return a message's fields by number, as the bytes tell them without a schema."""
    check_installed()
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.unknown_fields import UnknownFieldSet

    message = _parsed(Empty(), data)
    fields: dict[str, list[Any]] = {}
    for field in cast("Any", UnknownFieldSet(message)):
        value = field.data
        if isinstance(value, bytes):
            value = value.decode("utf-8", "backslashreplace")
        elif not isinstance(value, int | float):
            value = "a group"
        fields.setdefault(str(field.field_number), []).append(value)
    return fields


class MessageRule(NamedTuple):
    """The message that a side (key or value) of the records of topics holds; `topics` may end in `*`."""

    topics: str
    side: str
    message: str


def parse_rule(text: str) -> MessageRule:
    """Return a rule. Raises `ConfigError` that says how one is written."""
    place, _, message = text.rpartition("=")
    topics, _, side = place.rpartition(":")
    if not topics or side not in ("key", "value") or not message:
        raise ConfigError(f"--protobuf-type {text}: write TOPIC:SIDE=TYPE, such as orders*:value=shop.Order")
    return MessageRule(topics, side, message)


class Messages:
    """The messages of descriptor files, by their full names.

    A file is a serialized FileDescriptorSet, as `protoc --include_imports --descriptor_set_out=FILE` makes it.
    Raises `ConfigError` for a file that is none, `IllegalArgumentError` for files that do not fit together.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._descriptors: dict[str, Any] = {}
        self._readers: dict[str, Reader] = {}
        files: dict[str, bytes] = {}
        for path in paths:
            for name, data in _files_of(path).items():
                if files.setdefault(name, data) != data:
                    raise ConfigError(f"{path} has another {name} than the descriptor files before it")
        pool = _pool(files.values())
        for name in files:
            for descriptor in pool.FindFileByName(name).message_types_by_name.values():
                self._add(descriptor)

    def _add(self, descriptor: Any) -> None:
        if not descriptor.GetOptions().map_entry:
            self._descriptors[descriptor.full_name] = descriptor
            for nested in descriptor.nested_types:
                self._add(nested)

    @property
    def names(self) -> list[str]:
        """The full names of all messages, such as `shop.Order`."""
        return sorted(self._descriptors)

    def reader(self, name: str) -> Reader:
        """Return what reads a message. Raises `IllegalArgumentError` for a name that there is not."""
        if name not in self._descriptors:
            raise IllegalArgumentError(f"the descriptors have no message {name!r}; they have {_some(self.names)}")
        if name not in self._readers:
            self._readers[name] = _reader_by_name(self._descriptors[name])
        return self._readers[name]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:10]) or "none"
    return f"{shown}, and {len(names) - 10} more" if len(names) > 10 else shown


def _files_of(path: Path) -> dict[str, bytes]:
    """Return the files of a descriptor set, each as serialized, by their names."""
    check_installed()
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    make = f"protoc --include_imports --descriptor_set_out=FILE {path.name if path.suffix == '.proto' else 'X.proto'}"
    if path.suffix == ".proto":
        raise ConfigError(f"{path} is a source; make a descriptor file of it: {make}")
    try:
        found = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {problem.strerror}") from None
    except DecodeError:
        raise ConfigError(f"{path} is no descriptor file; make one: {make}") from None
    known = {file.name for file in found.file} | _WELL_KNOWN_FILES
    missing = sorted({name for file in found.file for name in file.dependency} - known)
    if missing or not found.file:
        what = f"lacks {_some(missing)}" if missing else "has no messages"
        raise ConfigError(f"{path} {what}; make it with --include_imports: {make}")
    return {
        file.name: file.SerializeToString()
        for file in found.file
        # The package brings these itself, perhaps in another version.
        if file.name not in _WELL_KNOWN_FILES
    }


def _reader_by_name(descriptor: Any) -> Reader:
    from google.protobuf import message_factory
    from google.protobuf.unknown_fields import UnknownFieldSet

    make = message_factory.GetMessageClass(descriptor)

    def read(data: bytes) -> Any:
        start = 0
        if data[:1] == b"\0" and len(data) > _REGISTRY_PREFIX:
            start = _REGISTRY_PREFIX + _message_indexes(data[_REGISTRY_PREFIX:])[1]
        message = _parsed(make(), data[start:], descriptor.full_name)
        if not message.ListFields() and len(cast("Any", UnknownFieldSet(message))):
            raise IllegalArgumentError(f"these {len(data)} bytes have none of the fields of {descriptor.full_name}")
        return _document(message)

    return read


def _document(message: ProtobufMessage) -> Any:
    """Return a message as a document: whole numbers stay numbers, as filters want them; bytes stay bytes.

    A field that cannot tell whether it was set is there with its default; one that can is there when it was set.
    """
    from google.protobuf import json_format

    if message.DESCRIPTOR.full_name.startswith(_WELL_KNOWN_PACKAGE):
        return json_format.MessageToDict(message, preserving_proto_field_name=True)
    document: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.is_repeated:
            if not value:
                continue
            entry = field.message_type
            if entry is not None and entry.GetOptions().map_entry:
                each = entry.fields_by_name["value"]
                document[field.name] = {str(key): _value(each, value[key]) for key in value}
            else:
                document[field.name] = [_value(field, item) for item in value]
        elif not field.has_presence or message.HasField(field.name):
            document[field.name] = _value(field, value)
    return document


def _value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _document(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value


def reader_of(files: Iterable[bytes]) -> Reader:
    """Return what reads the bytes behind a schema's id: the message's place in the last file, and the message.

    `files` are serialized FileDescriptorProtos, dependencies first. Raises `IllegalArgumentError` where they do not
    fit together.
    """
    check_installed()
    from google.protobuf import descriptor_pb2, message_factory

    each = list(files)
    pool = _pool(each)
    try:
        file = pool.FindFileByName(descriptor_pb2.FileDescriptorProto.FromString(each[-1]).name)
    except (KeyError, IndexError) as problem:
        raise IllegalArgumentError(f"the schema's descriptors do not fit together: {problem}") from None

    def read(data: bytes) -> Any:
        place, start = _message_indexes(data)
        found, siblings = None, list(file.message_types_by_name.values())
        for index in place:
            if not 0 <= index < len(siblings):
                raise IllegalArgumentError(f"the schema has no message at {place}")
            found = siblings[index]
            siblings = list(found.nested_types)
        message = message_factory.GetMessageClass(cast("Any", found))()
        return _document(_parsed(message, data[start:]))

    return read


def _pool(files: Iterable[bytes]) -> Any:
    """Return a pool of the files and those that the package brings. Raises `IllegalArgumentError`."""
    import importlib

    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    for name in _WELL_KNOWN:
        pool.AddSerializedFile(importlib.import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR.serialized_pb)
    try:
        for data in files:
            pool.AddSerializedFile(data)
    except Exception as problem:  # noqa: BLE001 - each implementation of protobuf has errors of its own
        raise IllegalArgumentError(f"the schema's descriptors do not fit together: {problem}") from None
    return pool


def _parsed(message: ProtobufMessage, data: bytes, name: str = "Protobuf message") -> ProtobufMessage:
    from google.protobuf.message import DecodeError

    try:
        message.ParseFromString(data)
    except DecodeError as problem:
        raise IllegalArgumentError(f"these {len(data)} bytes are no {name}: {problem}") from None
    return message


def _message_indexes(data: bytes) -> tuple[list[int], int]:
    """Read Confluent's message indexes: zigzag varints, first how many there are; none stands for the first message."""
    count, at = _zigzag(data, 0)
    if count == 0:
        return [0], at
    if not 0 < count <= len(data):
        raise IllegalArgumentError("these bytes do not begin with the place of a message")
    place = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        place.append(index)
    return place, at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise IllegalArgumentError("these bytes do not begin with the place of a message")
