"""Enumerations whose numbers stand in the protocol."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class ProtocolEnum(IntEnum):
    """Numbers of the protocol, of which 0 is UNKNOWN; so is every number that a newer broker may send."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls["UNKNOWN"]
