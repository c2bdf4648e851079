"""How to wait in asyncio until a record is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from barnabas.client.producer.produce_request_result import ProduceRequestResult

Stored = TypeVar("Stored", covariant=True)


class StoredRecord(Protocol[Stored]):
    """What is waited for of a record's future."""

    request_result: ProduceRequestResult
    relative_offset: int

    def done(self) -> bool:
        """Whether the record is stored, or has failed."""

    def result(self, timeout: float) -> Stored:
        """Return where it was stored; raises its error."""


async def wait_in_loop(future: StoredRecord[Stored]) -> Stored:
    """Return what `await future` does: wait in the running asyncio loop without blocking it."""
    if not future.done():
        await wait_for_record(future.request_result, future.relative_offset)
    return future.result(0)


async def wait_for_record(result: ProduceRequestResult, index: int) -> None:
    """Wait in the running asyncio loop until the record is stored or has failed."""
    import asyncio

    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def done(_: object) -> None:
        if asyncio._get_running_loop() is loop:
            wake()
        elif not loop.is_closed():
            # Once the loop is closed no task waits any more.
            loop.call_soon_threadsafe(wake)

    result.add_done_callback(None, index, done)
    await waiter
