"""The share consumer for asyncio against a running cluster: what it does otherwise than the one for threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from barnabas import TopicIdPartition
from barnabas.aio import ShareConsumer
from barnabas.errors import KafkaError
from tests.contract.queue import Queue
from tests.contract.waiting import create_topic


@pytest.fixture
def queue(bootstrap_servers: str, new_name: Callable[[str], str]) -> Queue:
    """A queue of five records in one partition."""
    made = Queue(bootstrap_servers, create_topic(bootstrap_servers, new_name("queue"), 1), new_name("share"))
    made.send(*[b"%d" % number for number in range(5)])
    return made


def consumer_of(queue: Queue) -> ShareConsumer:
    """A member of its group."""
    return ShareConsumer(queue.topic, group_id=queue.group, bootstrap_servers=queue.bootstrap_servers)


def test_a_loop_and_a_callback_that_are_coroutines(queue: Queue) -> None:
    told: list[tuple[list[int], KafkaError | None]] = []

    async def tell(offsets: dict[TopicIdPartition, set[int]], error: KafkaError | None) -> None:
        await asyncio.sleep(0)
        told.append((sorted(*offsets.values()), error))

    async def read() -> list[bytes | None]:
        async with consumer_of(queue) as consumer:
            consumer.set_acknowledgement_commit_callback(tell)
            found = []
            async for record in consumer:
                found.append(record.value)
                if len(found) == 3:
                    break
            assert list((await consumer.commit_sync()).values()) == [None]
            return found

    assert asyncio.run(read()) == [b"0", b"1", b"2"]
    assert told == [([0, 1, 2], None)]
    assert queue.rest() == [b"3", b"4"]


def test_a_poll_that_is_cancelled_loses_nothing(queue: Queue) -> None:
    async def read() -> list[bytes | None]:
        async with consumer_of(queue) as consumer:
            for _ in range(20):
                task = asyncio.ensure_future(consumer.poll(5))
                await asyncio.sleep(0.02)
                if task.done():
                    break
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            found = [record.value for record in (task.result() if not task.cancelled() and task.done() else ())]
            while len(found) < 5:
                found += [record.value for record in await consumer.poll(5)]
            await consumer.commit_sync()
            return found

    assert asyncio.run(read()) == [b"%d" % number for number in range(5)]
    assert queue.rest() == []
