"""Where a record was stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas.client.producer.append import FutureRecordMetadata


class RecordMetadata(NamedTuple):
    """A stored record's place in the log; prints as `topic-partition@offset`, as in Kafka.

    `offset` is -1 where the broker did not tell (acks=0, a duplicate whose offset it has forgotten, a failed record).
    `timestamp` is in epoch milliseconds: the broker's where the topic stamps on append, else the record's own. The
    sizes are in bytes, -1 for null.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int
    serialized_value_size: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


async def wait_in_loop(future: FutureRecordMetadata) -> RecordMetadata:
    """What `await future` does: wait in the running asyncio loop without blocking it."""
    import asyncio

    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def done(_: FutureRecordMetadata) -> None:
        # The loop may be closed by the time the broker answers; then nobody waits any more.
        if not loop.is_closed():
            loop.call_soon_threadsafe(wake)

    future.add_done_callback(done)
    await waiter
    return future.result(0)
