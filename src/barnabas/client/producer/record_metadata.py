"""Where a record was stored, and how to wait for that in asyncio."""

from __future__ import annotations

from barnabas.client.producer.append import FutureRecordMetadata, RecordMetadata

__all__ = ["RecordMetadata", "wait_in_loop"]


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
