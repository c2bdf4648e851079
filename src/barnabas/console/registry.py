"""`Registry`: schemas of a schema registry, by id for values, and by subject for people."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from barnabas.errors import IllegalArgumentError

T = TypeVar("T")

_SECONDS = 5
#: What the protobuf package brings itself.
_WELL_KNOWN = "google/protobuf/"


class Schema(NamedTuple):
    """A schema: its type (AVRO, JSON, PROTOBUF) and text; of Protobuf also its files, dependencies first.

    A file is a serialized FileDescriptorProto; the last one has the message.
    """

    kind: str
    text: str
    files: tuple[bytes, ...] = ()


class Version(NamedTuple):
    """A version of a subject's schema."""

    version: int
    number: int
    schema: Schema


class Registry:
    """Asks a registry that speaks Confluent's REST interface; its methods wait for the answers.

    They raise `IllegalArgumentError` that says what the registry said.
    """

    def __init__(self, url: str) -> None:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
        except ImportError:
            raise IllegalArgumentError(
                "--schema-registry needs its client: pip install 'barnabas[schema-registry]'"
            ) from None
        self._error = SchemaRegistryError
        self._client = SchemaRegistryClient({"url": url, "timeout": _SECONDS})
        # A client caches by id, in one form; the serialized form has a client of its own.
        self._of_files = SchemaRegistryClient({"url": url, "timeout": _SECONDS})

    def schema(self, number: int) -> Schema:
        """Return the schema with an id."""
        found = self._asked(f"the registry has no schema {number}", partial(self._client.get_schema, number))
        kind, text = str(found.schema_type), str(found.schema_str)
        if kind != "PROTOBUF":
            return Schema(kind, text)
        what = f"the registry does not give schema {number} as descriptors"
        serialized = self._asked(what, partial(self._of_files.get_schema, number, fmt="serialized"))
        files = [*self._imports(found.references, set()), _file(serialized.schema_str, what)]
        return Schema(kind, text, tuple(files))

    def _imports(self, references: Any, known: set[str]) -> list[bytes]:
        files: list[bytes] = []
        for reference in references or ():
            if reference.name in known or reference.name.startswith(_WELL_KNOWN):
                continue
            known.add(reference.name)
            what = f"the registry does not give {reference.name}, which a schema imports"
            ask = partial(self._of_files.get_version, reference.subject, reference.version, fmt="serialized")
            found = self._asked(what, ask).schema
            files += [*self._imports(found.references, known), _file(found.schema_str, what)]
        return files

    def subjects(self) -> list[str]:
        """Return the names of all subjects."""
        return sorted(self._asked("the registry does not tell its subjects", self._client.get_subjects))

    def versions(self, subject: str) -> list[Version]:
        """Return the versions of a subject, the newest last."""
        missing = f"the registry has no subject {subject!r}"
        numbers = self._asked(missing, partial(self._client.get_versions, subject))
        found = [self._asked(missing, partial(self._client.get_version, subject, number)) for number in sorted(numbers)]
        return [
            Version(number, one.schema_id or 0, Schema(str(one.schema.schema_type), str(one.schema.schema_str)))
            for number, one in zip(sorted(numbers), found, strict=True)
        ]

    def compatibility(self, subject: str) -> str | None:
        """Return the compatibility that a subject's next version must have, None where the registry does not tell."""
        for name in (subject, None):
            try:
                return str(self._client.get_compatibility(name))
            except (self._error, OSError):
                # A subject without a setting of its own has the registry's.
                continue
        return None

    def problems(self, subject: str, schema: Schema) -> list[str]:
        """Return why a schema cannot be a subject's next version; empty where it can, or the subject is new."""
        what = f"the registry does not check a schema for {subject!r}"
        if subject not in self.subjects():
            return []
        answer = self._asked(what, partial(self._client.test_compatibility_all_versions, subject, _sent(schema)))
        return [] if answer else [f"it is not {self.compatibility(subject)} compatible with the versions there are"]

    def register(self, subject: str, schema: Schema) -> int:
        """Register a schema; returns its id."""
        what = f"the registry does not take the schema for {subject!r}"
        return int(self._asked(what, partial(self._client.register_schema, subject, _sent(schema))))

    def set_compatibility(self, subject: str, level: str) -> None:
        """Say what the next version of a subject must be compatible with."""
        what = f"the registry does not take a compatibility for {subject!r}"
        self._asked(what, partial(self._client.set_compatibility, subject_name=subject, level=level))

    def delete(self, subject: str, version: int | None) -> list[int]:
        """Delete a subject or a version of it; returns the versions that are gone. Their ids stay known."""
        what = f"the registry does not delete {subject!r}"
        if version is None:
            return sorted(self._asked(what, partial(self._client.delete_subject, subject)))
        return [int(self._asked(what, partial(self._client.delete_version, subject, version)))]

    def _asked(self, what: str, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except (self._error, OSError) as problem:
            raise IllegalArgumentError(f"{what}: {problem}") from None


def _sent(schema: Schema) -> Any:
    from confluent_kafka.schema_registry import Schema as Sent

    return Sent(schema.text, schema.kind)


def _file(text: str | None, what: str) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except binascii.Error:
        raise IllegalArgumentError(f"{what}: it is no base64") from None
