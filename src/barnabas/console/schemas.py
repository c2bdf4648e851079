"""Schemas: the subjects of a registry, a subject's versions and what each has changed; registered and deleted."""

from __future__ import annotations

import asyncio
import difflib
import json
from typing import TYPE_CHECKING, TypedDict

from barnabas.console.registry import Schema
from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    from barnabas.console.answers import Body
    from barnabas.console.registry import Registry, Version


class Subjects(TypedDict):
    """The names of all subjects."""

    subjects: list[str]


class VersionRow(TypedDict):
    """A version: its number, the schema's id, type and text, and the lines that it changed (unified diff)."""

    version: int
    id: int
    type: str
    text: str
    changes: list[str]


class Subject(TypedDict):
    """A subject, the newest version first; `compatibility` is None where the registry does not tell."""

    subject: str
    compatibility: str | None
    versions: list[VersionRow]


async def subjects(registry: Registry) -> Subjects:
    """Return all subjects. Raises `IllegalArgumentError` with what the registry said."""
    return {"subjects": await asyncio.to_thread(registry.subjects)}


async def subject(registry: Registry, name: str) -> Subject:
    """Return one subject. Raises `IllegalArgumentError` with what the registry said."""
    versions = await asyncio.to_thread(registry.versions, name)
    before: list[str] = []
    rows: list[VersionRow] = []
    for version in versions:
        lines = readable(version)
        rows.append(
            {
                "version": version.version,
                "id": version.number,
                "type": version.schema.kind,
                "text": "\n".join(lines),
                "changes": list(difflib.unified_diff(before, lines, lineterm="", n=2))[2:] if before else [],
            }
        )
        before = lines
    compatibility = await asyncio.to_thread(registry.compatibility, name)
    return {"subject": name, "compatibility": compatibility, "versions": rows[::-1]}


COMPATIBILITIES = (
    "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE",
)  # fmt: skip
KINDS = ("AVRO", "JSON", "PROTOBUF")


class Checked(TypedDict):
    """Whether a schema may be a subject's next version; `problems` says why not, as the registry does."""

    subject: str
    isCompatible: bool
    problems: list[str]


class Registered(TypedDict):
    """A schema that a subject has; `id` is the registry's."""

    subject: str
    id: int


class Compatibility(TypedDict):
    """What the next version of a subject must be compatible with."""

    subject: str
    compatibility: str


class Deleted(TypedDict):
    """The versions that a subject has no more."""

    subject: str
    versions: list[int]


async def check(registry: Registry, body: Body) -> Checked:
    """Ask whether a schema is compatible. Raises `IllegalArgumentError` for one that cannot be read, ..."""
    name, schema = body.text("subject"), _schema(body)
    problems = await asyncio.to_thread(registry.problems, name, schema)
    return {"subject": name, "isCompatible": not problems, "problems": problems}


async def register(registry: Registry, body: Body) -> Registered:
    """Register a schema as a subject's next version. Raises `IllegalArgumentError` with what the registry said."""
    name, schema = body.text("subject"), _schema(body)
    if not name:
        raise IllegalArgumentError("a subject needs a name, such as flights-value")
    return {"subject": name, "id": await asyncio.to_thread(registry.register, name, schema)}


async def set_compatibility(registry: Registry, body: Body) -> Compatibility:
    """Say what a subject's next version must be compatible with. Raises `IllegalArgumentError`."""
    name, level = body.text("subject"), body.text("compatibility")
    if level not in COMPATIBILITIES:
        raise IllegalArgumentError(f"compatibility must be one of {', '.join(COMPATIBILITIES)}")
    await asyncio.to_thread(registry.set_compatibility, name, level)
    return {"subject": name, "compatibility": level}


async def delete(registry: Registry, body: Body) -> Deleted:
    """Delete a subject, or with `version` one version of it, so that values are still read by their ids.

    Raises `IllegalArgumentError` with what the registry said.
    """
    name, version = body.text("subject"), body.integer("version", 0)
    body.confirmed(name)
    return {"subject": name, "versions": await asyncio.to_thread(registry.delete, name, version or None)}


def _schema(body: Body) -> Schema:
    kind = body.text("type")
    if kind not in KINDS:
        raise IllegalArgumentError(f"type must be one of {', '.join(KINDS)}")
    return Schema(kind, body.text("schema"))


def readable(version: Version) -> list[str]:
    """Return a schema's lines: JSON is laid out, so that versions differ in the lines that were changed."""
    text = version.schema.text
    if version.schema.kind != "PROTOBUF":
        try:
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    return text.splitlines()
