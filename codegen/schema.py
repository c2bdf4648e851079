"""Reads the schema into small objects in which every implicit rule is spelled out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.protocol.names import snake_case

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "src" / "barnabas" / "protocol" / "schema"

SCALARS = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "uint16": "int",
    "int32": "int",
    "uint32": "int",
    "int64": "int",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "Buffer",
}
"""The types that are not structs, and what they are in Python."""

NEVER = 1 << 15


class Field(NamedTuple):
    """One field: its Kafka name, type, and in which versions what holds."""

    kafka_name: str
    type: str
    versions: str
    nullable: str | None
    tag: int | None
    default: str | None
    ignorable: bool
    plain: bool

    @property
    def name(self) -> str:
        """The attribute's name."""
        return snake_case(self.kafka_name)

    @property
    def element(self) -> str:
        """The type without the brackets of an array."""
        return self.type.removeprefix("[]")

    @property
    def is_array(self) -> bool:
        """Whether the field holds many."""
        return self.type.startswith("[]")


class Struct(NamedTuple):
    """A class to write: the message itself, or a part of it."""

    name: str
    fields: list[Field]
    where: str


class Message(NamedTuple):
    """One message of the schema; `structs[0]` is the message itself."""

    name: str
    kind: str
    api_key: int
    versions: tuple[int, int]
    flexible_from: int
    latest_unstable: bool
    structs: list[Struct]

    @property
    def module(self) -> str:
        """The name of the message's module."""
        return snake_case(self.name)


def read_messages() -> list[Message]:
    """Every message of Kafka 4.3, the records of its logs, and what brokers of 3.9 speak that 4.0 dropped."""
    removed = {entry["name"]: entry for entry in _entries("messages-3.9.json")}
    current = [removed.get(entry["name"], entry) for entry in _entries("messages.json")]
    return [_message(entry) for entry in current + _entries("messages-metadata.json") + _entries("messages-share.json")]


def _entries(name: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((HOME / name).read_text(encoding="utf-8"))
    return entries


def read_errors() -> dict[str, list[dict[str, Any]]]:
    """Return the codes, families and client errors of `errors.json`."""
    content: dict[str, list[dict[str, Any]]] = json.loads((HOME / "errors.json").read_text(encoding="utf-8"))
    return content


def version_range(written: str) -> tuple[int, int]:
    """`4` or `4-7` as a pair. Raises `ValueError` for `none`: what Kafka dropped stands in a schema of its own."""
    low, dash, high = written.partition("-")
    return int(low), int(high if dash else low)


def _message(entry: dict[str, Any]) -> Message:
    structs = [Struct(entry["name"], [], "")]
    common = {struct["name"]: struct for struct in entry.get("commonStructs", [])}
    _collect(structs, structs[0], entry["fields"], common, entry["name"])
    flexible = entry.get("flexibleVersions", "none")
    return Message(
        name=entry["name"],
        kind=entry["type"],
        api_key=entry.get("apiKey", -1),
        versions=version_range(entry["validVersions"]),
        flexible_from=NEVER if flexible == "none" else int(flexible.removesuffix("+")),
        latest_unstable=entry.get("latestVersionUnstable", False),
        structs=structs,
    )


def _collect(structs: list[Struct], owner: Struct, fields: list[Any], common: dict[str, Any], where: str) -> None:
    """Add the fields to their owner, and after it the structs that they hold, each once."""
    for entry in fields:
        field = _field(entry)
        owner.fields.append(field)
        if field.element in SCALARS or field.element in (struct.name for struct in structs):
            continue
        place = f"{where}.{field.name}{'[]' if field.is_array else ''}"
        struct = Struct(field.element, [], place)
        structs.append(struct)
        inner = entry.get("fields") or common[field.element]["fields"]
        _collect(structs, struct, inner, common, place)


def _field(entry: dict[str, Any]) -> Field:
    versions = entry["versions"]
    if entry.get("taggedVersions", versions) != versions:
        raise ValueError(f"{entry['name']}: a field that is tagged in only some of its versions is not supported")
    if entry.get("flexibleVersions", "none") != "none":
        raise ValueError(f"{entry['name']}: flexible versions of its own, other than none, are not supported")
    return Field(
        kafka_name=entry["name"],
        type=entry["type"],
        versions=versions,
        nullable=entry.get("nullableVersions"),
        tag=entry.get("tag"),
        default=_default(entry),
        ignorable=entry.get("ignorable", False),
        plain="flexibleVersions" in entry,
    )


def _default(entry: dict[str, Any]) -> str | None:
    """`null`, `true`, a decimal number, or None for the zero of the type.

    Only the string `"null"` means null: JSON's own null is no default at all, as in Kafka's generator.
    """
    written = entry.get("default")
    if written is None or written == "null":
        return written
    if entry["type"] == "bool":
        return "true" if str(written).lower() == "true" else None
    if entry["type"] == "string":
        if written != "":
            raise ValueError(f"{entry['name']}: a string's default other than empty is not supported")
        return None
    return str(int(str(written), 0)) if int(str(written), 0) else None
