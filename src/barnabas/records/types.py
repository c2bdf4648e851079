"""Names for the types that several modules of this room speak of; imported by type checkers only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from barnabas.protocol.buffer import Buffer as Buffer

Headers = Iterable[tuple[str, Buffer | None]]
EncodedHeaders = list[tuple[bytes, bytes | None]]
AbortedTransactions = Iterable[tuple[int, int]]
"""Producer id and first offset of each aborted transaction, as a fetch response lists them."""
# Called with the bytes of a key or value, and where headers are wanted with the record's headers.
Deserializer = Callable[[bytes], Any] | Callable[[bytes, list[tuple[str, bytes | None]]], Any]
