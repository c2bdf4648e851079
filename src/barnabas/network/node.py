"""A broker as the client knows it."""

from __future__ import annotations

from typing import NamedTuple


class Node(NamedTuple):
    """A broker's id and address; ids below zero are bootstrap servers whose real id is not known yet."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port} (id: {self.id} rack: {self.rack})"


NO_NODE = Node(-1, "", -1)
"""Stands for a broker that is not known."""
