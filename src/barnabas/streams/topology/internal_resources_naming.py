"""Names that were generated: changing such a topology may lose state, so they are said, or refused (KIP-1111)."""

from __future__ import annotations

import logging

from barnabas.streams.errors import TopologyError

_log = logging.getLogger(__name__)

_KINDS = ("changelog topic", "state store", "repartition topic")


class InternalNames:
    """The generated names of changelog topics, stores and repartition topics, in the order in which they came."""

    def __init__(self) -> None:
        self.must_be_given = False
        self._names: dict[tuple[str | None, str | None, str | None], None] = {}

    def add(self, *, changelog: str | None = None, store: str | None = None, repartition: str | None = None) -> None:
        """Note names that were generated."""
        self._names[(changelog, store, repartition)] = None

    def check(self) -> None:
        """Raise `TopologyError` for generated names when `ensure.explicit.internal.resource.naming` is set."""
        if not self._names:
            return
        lines = ""
        for at, kind in enumerate(_KINDS):
            names = [name for entry in self._names if (name := entry[at])]
            if names:
                lines += f"Following {kind}(s) has not been named: {', '.join(names)}\n"
        if self.must_be_given:
            raise TopologyError(lines)
        _log.info("Names were generated; changing the topology may change them, and lose what they keep. %s", lines)
