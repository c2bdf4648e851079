"""Makes the plans that the codec works by, from the field tables of the generated classes.

A line of a field table reads `name type versions`, then any of
`null=VERSIONS` (versions in which the field may be null), `tag=N` (a tagged field), `default=VALUE` (`null` or a
number; without it the type's zero), `ignorable` (dropped silently by a version that lacks it) and
`plain` (never compact, not even in a flexible version).
Versions are written `4`, `4-7` or `4+`.
"""

from __future__ import annotations

import sys

from barnabas.errors import UnsupportedVersionError
from barnabas.protocol.codec import KINDS, NEW, Field, Plan
from barnabas.protocol.kafka_uuid import ZERO_UUID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class MessageType(Protocol):
        """What a plan needs of a generated class."""

        NAME: str
        FLEXIBLE_FROM: int

        @property
        def VALID_VERSIONS(self) -> tuple[int, int]: ...  # noqa: N802, D102 - a class attribute


_plans: dict[tuple[object, int], Plan] = {}

_ZEROS: dict[str, Any] = {
    "bool": False,
    "float64": 0.0,
    "uuid": ZERO_UUID,
    "string": "",
    "bytes": b"",
    "records": None,
}


def plan_of(cls: MessageType, version: int) -> Plan:
    """Return the plan of a message in a version; `UnsupportedVersionError` when there is no such version."""
    plan = _plans.get((cls, version))
    if plan is None:
        low, high = cls.VALID_VERSIONS
        if not low <= version <= high:
            raise UnsupportedVersionError(f"{cls.NAME} has the versions {low} to {high}; {version} was asked for")
        plan = _build(cls, version, version >= cls.FLEXIBLE_FROM)
    return plan


def _build(cls: Any, version: int, flexible: bool) -> Plan:
    plan = _plans.get((cls, version))
    if plan is not None:
        return plan
    present: list[Field] = []
    absent: list[Field] = []
    for line in cls.FIELDS:
        name, kind, versions, *rest = line.split(" ")
        marks = dict(mark.partition("=")[::2] for mark in rest)
        field = _field(cls, name, kind, marks, version, flexible)
        (present if covers(versions, version) else absent).append(field)
    plan = Plan(cls, version, flexible, present, absent)
    _plans[cls, version] = plan
    return plan


def _field(cls: type, name: str, kind: str, marks: dict[str, str], version: int, flexible: bool) -> Field:
    struct_name = kind.removeprefix("[]")
    plan = None
    if struct_name not in KINDS:
        plan = _build(getattr(sys.modules[cls.__module__], struct_name), version, flexible)
    return Field(
        cls,
        name,
        kind,
        compact=flexible and "plain" not in marks,
        nullable="null" in marks and covers(marks["null"], version),
        ignorable="ignorable" in marks,
        tag=int(marks.get("tag", -1)),
        default=_default(kind, marks.get("default")),
        plan=plan,
    )


def _default(kind: str, written: str | None) -> Any:
    if written == "null":
        return None
    if kind.startswith("[]") or (kind not in KINDS):
        return NEW
    if written is None:
        return _ZEROS.get(kind, 0)
    return written == "true" if kind == "bool" else int(written)


def covers(versions: str, version: int) -> bool:
    """Whether versions written as `4`, `4-7` or `4+` include one."""
    low, dash, high = versions.rstrip("+").partition("-")
    if versions.endswith("+"):
        return version >= int(low)
    return int(low) <= version <= int(high if dash else low)
