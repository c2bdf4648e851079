"""What the RecordAccumulator says of an append that it did, or did not for want of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas.client.producer.append import FutureRecordMetadata
    from barnabas.client.producer.produce_request_result import ProduceRequestResult


class RecordAppendResult(NamedTuple):
    """What `append_nowait` did: the record's future and partition.

    Without a future nothing was appended, for want of `memory_needed` bytes, or (0) as a new batch was not wanted.
    """

    future: FutureRecordMetadata | None
    partition: int
    memory_needed: int = 0
    batch_is_full: bool = False
    new_batch_created: bool = False


class RowsAppendResult(NamedTuple):
    """What `append_rows_nowait` did: rows up to `next_row` are records `first` to `last` of the result's batch.

    Without a result nothing was appended, for want of `memory_needed` bytes.
    """

    request_result: ProduceRequestResult | None
    first: int = 0
    last: int = -1
    next_row: int = 0
    batch_is_full: bool = False
    new_batch_created: bool = False
    memory_needed: int = 0
