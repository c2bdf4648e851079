"""Names of operators: the user's, checked, or Kafka's, which count all operators of a builder.

A generated name takes the next number even where the user gave a name, so that naming one operator renames no other.
"""

from __future__ import annotations

import re

from barnabas.streams.errors import TopologyError

_MAX_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]*")
STATE_STORE = "STATE-STORE-"


def validate(name: str) -> str:
    """Return a name. Raises `TopologyError` when it cannot be one of a topic."""
    if name is None:
        raise TypeError("name cannot be null")
    if not isinstance(name, str):
        raise TypeError(f"a name is a str, not {name!r}")
    if not name:
        raise TopologyError("Name is illegal, it can't be empty")
    if name in (".", ".."):
        raise TopologyError('Name cannot be "." or ".."')
    if len(name) > _MAX_LENGTH:
        raise TopologyError(f"Name is illegal, it can't be longer than {_MAX_LENGTH} characters, name: {name}")
    if not _LEGAL.fullmatch(name):
        raise TopologyError(
            f"Name \"{name}\" is illegal, it contains a character other than ASCII alphanumerics, '.', '_' and '-'"
        )
    return name


class Names:
    """The counter of one builder."""

    def __init__(self) -> None:
        self._index = 0

    def processor(self, prefix: str) -> str:
        """Return the next name, such as KSTREAM-MAP-0000000003."""
        name = f"{prefix}{self._index:010d}"
        self._index += 1
        return name

    def store(self, prefix: str) -> str:
        """Return the next name of a store."""
        return self.processor(prefix + STATE_STORE)

    def given_or(self, name: str | None, prefix: str) -> str:
        """Return the user's name, or the next one; the counter moves in both cases."""
        generated = self.processor(prefix)
        return generated if name is None else validate(name)

    def suffixed_or(self, name: str | None, suffix: str, prefix: str) -> str:
        """Return the user's name with a suffix, or the next one; the counter moves in both cases."""
        generated = self.processor(prefix)
        return generated if name is None else validate(name + suffix)
