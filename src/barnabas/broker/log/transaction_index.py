"""The transaction index: the aborted transactions whose markers lie in a segment (TransactionIndex, AbortedTxn).

An entry is 34 bytes: version (16 bits, 0), producer id, first offset, last offset (the marker's) and the last stable
offset when the marker was written (64 bits each), big-endian. The file exists only where something was aborted.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from barnabas.broker.log.abstract_index import CorruptIndexError
from barnabas.broker.log.filesystem import File, FileSystem

CURRENT_VERSION = 0
_ENTRY = Struct(">hqqqq")


class AbortedTxn(NamedTuple):
    """One aborted transaction of one partition."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions of one segment, read when first asked for."""

    __slots__ = ("_filesystem", "_transactions", "exists", "path", "start_offset")

    def __init__(self, filesystem: FileSystem, path: str, start_offset: int, *, exists: bool) -> None:
        self._filesystem = filesystem
        self._transactions: list[AbortedTxn] | None = None if exists else []
        self.path = path
        self.start_offset = start_offset
        self.exists = exists

    @property
    def transactions(self) -> list[AbortedTxn]:
        """All entries, by last offset; `CorruptIndexError` when the file cannot be this segment's."""
        if self._transactions is None:
            self._transactions = self._read()
        return self._transactions

    def _read(self) -> list[AbortedTxn]:
        data = self._filesystem.read(self.path)
        if len(data) % _ENTRY.size:
            raise CorruptIndexError(
                f"transaction index {self.path}: {len(data)} bytes are no multiple of {_ENTRY.size}"
            )
        entries = []
        last = self.start_offset - 1
        for version, *fields in _ENTRY.iter_unpack(data):
            entry = AbortedTxn(*fields)
            if version > CURRENT_VERSION or entry.last_offset <= last:
                raise CorruptIndexError(f"transaction index {self.path}: {entry} (version {version}) does not fit")
            last = entry.last_offset
            entries.append(entry)
        return entries

    def append(self, aborted: AbortedTxn) -> None:
        """Add an entry; last offsets must grow."""
        transactions = self.transactions
        if transactions and aborted.last_offset <= transactions[-1].last_offset:
            raise CorruptIndexError(f"transaction index {self.path}: {aborted} does not follow {transactions[-1]}")
        file = self._filesystem.open(self.path)
        try:
            file.pwrite(_ENTRY.pack(CURRENT_VERSION, *aborted), len(transactions) * _ENTRY.size)
        finally:
            file.close()
        self.exists = True
        transactions.append(aborted)

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTxn], bool]:
        """Return the entries that concern [fetch_offset, upper_bound_offset), and whether later files need no look."""
        found = []
        for txn in self.transactions:
            if txn.last_offset >= fetch_offset and txn.first_offset < upper_bound_offset:
                found.append(txn)
            # A follower that took the marker and a later transaction in one Fetch noted where that begins.
            if min(txn.last_stable_offset, txn.last_offset + 1) >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose markers lie at or beyond the offset."""
        kept = [txn for txn in self.transactions if txn.last_offset < offset]
        if len(kept) < len(self.transactions):
            self._rewrite(kept)

    def reset(self) -> None:
        """Drop all entries, in memory and in the file."""
        if self.exists:
            self._rewrite([])
        self._transactions = []

    def _rewrite(self, kept: list[AbortedTxn]) -> None:
        file = self._filesystem.open(self.path)
        try:
            file.truncate(len(kept) * _ENTRY.size)
        finally:
            file.close()
        self._transactions = kept

    @property
    def files(self) -> list[File]:
        """The file, if there is one, for a flush."""
        return [self._filesystem.open(self.path)] if self.exists else []

    def release(self) -> None:
        """Forget the entries until they are needed again."""
        if self.exists:
            self._transactions = None
