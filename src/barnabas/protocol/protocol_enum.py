"""Enumerations whose numbers or names stand in the protocol."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Self


class ProtocolEnum(IntEnum):
    """Numbers of the protocol, of which one is UNKNOWN; so is every number that a newer broker may send."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls["UNKNOWN"]


class NamedEnum(StrEnum):
    """Names of the protocol, and UNKNOWN for every name that a newer broker may send."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls["UNKNOWN"]

    @classmethod
    def or_none(cls, name: str) -> Self | None:
        """Return the member of that name; None for an empty one, as a broker leaves what it is too old to tell."""
        return cls(name) if name else None
