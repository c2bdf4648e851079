"""Closing many logs: what they lack on the disk is brought there side by side, some logs at a time."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.broker.log.filesystem import Sync
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.storage_threads import Storage

#: A flush holds descriptors of its own.
_AT_ONCE = 64


class _Flush(NamedTuple):
    log: UnifiedLog
    end: int
    sync: Sync


def close_logs(logs: Iterable[UnifiedLog], storage: Storage) -> Iterator[tuple[UnifiedLog, KafkaStorageError]]:
    """Flush and close logs; give those that could not be, with the error, and close the others."""
    remaining = iter(logs)
    while piece := list(islice(remaining, _AT_ONCE)):
        flushes: list[_Flush] = []
        for log in piece:
            end = log.log_end_offset
            try:
                flush = _Flush(log, end, log.prepare_flush(end))
            except KafkaStorageError as error:
                yield log, error
                continue
            storage.submit(flush.sync.run, _nothing)
            flushes.append(flush)
        storage.drain()
        for flush in flushes:
            try:
                flush.log.end_flush(flush.end, flush.sync.error, flush.log.last_flushed_ms)
                flush.log.close()
            except KafkaStorageError as error:
                yield flush.log, error


def _nothing() -> None:
    """Do nothing: `drain` tells that all is done."""
