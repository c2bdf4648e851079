"""Schemas: the subjects of a registry, a subject's versions, and what each has changed."""

from __future__ import annotations

import asyncio
import difflib
import json
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
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


def readable(version: Version) -> list[str]:
    """Return a schema's lines: JSON is laid out, so that versions differ in the lines that were changed."""
    text = version.schema.text
    if version.schema.kind != "PROTOBUF":
        try:
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    return text.splitlines()
