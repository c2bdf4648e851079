"""What the asyncio clients do in producer_throughput.py and consumer_throughput.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks._workload import KEYS, tables_of

PARTITIONS = 6


def in_loop(client: Callable[..., Coroutine[Any, Any, None]], *, uvloop: bool = False) -> Callable[..., None]:
    """Return the client as a plain function that runs it in a new event loop."""

    def run(*arguments: Any) -> None:
        if uvloop:
            import uvloop as faster

            with asyncio.Runner(loop_factory=faster.new_event_loop) as runner:
                runner.run(client(*arguments))
        else:
            asyncio.run(client(*arguments))

    return run


async def send_futures(bootstrap: str, topic: str, records: int, value: bytes, settings: dict[str, object]) -> None:
    """Send with a future per record."""
    from barnabas.aio import Producer

    async with Producer({"bootstrap.servers": bootstrap, **settings}) as producer:
        send = producer.send
        last = None
        for _ in range(records // len(KEYS)):
            for key in KEYS:
                last = await send(topic, value, key)
        await producer.flush()
        assert last is not None
        assert (await last).offset >= 0
        assert producer.metrics()["record-error-total"] == 0


async def send_callbacks(bootstrap: str, topic: str, records: int, value: bytes, settings: dict[str, object]) -> None:
    """Send with a callback per record."""
    from barnabas.aio import Producer

    done = [0]

    def on_delivery(_: object, error: BaseException | None) -> None:
        assert error is None
        done[0] += 1

    async with Producer({"bootstrap.servers": bootstrap, **settings}) as producer:
        send = producer.send
        for _ in range(records // len(KEYS)):
            for key in KEYS:
                await send(topic, value, key, on_delivery=on_delivery)
        await producer.flush()
    assert done[0] == records, done


async def send_tables(bootstrap: str, topic: str, records: int, value: bytes, settings: dict[str, object]) -> None:
    """Send Arrow tables of 10,000 rows."""
    from barnabas.aio import Producer

    async with Producer({"bootstrap.servers": bootstrap, **settings}) as producer:
        futures = [await producer.send_table(topic, table) for table in tables_of(value, records)]
        assert sum([await future for future in futures]) == records


async def aiokafka_send(bootstrap: str, topic: str, records: int, value: bytes, settings: dict[str, object]) -> None:
    """Send with aiokafka, which makes a future per record."""
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, **settings)
    await producer.start()
    try:
        last = None
        for _ in range(records // len(KEYS)):
            for key in KEYS:
                last = await producer.send(topic, value, key)
        await producer.flush()
        assert last is not None
        assert (await last).offset >= 0
    finally:
        await producer.stop()


async def poll(bootstrap: str, topic: str, records: int) -> None:
    """Read by polling, as many records as aiokafka gets."""
    from barnabas.aio import Consumer

    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, number) for number in range(PARTITIONS)])
        count = 0
        while count < records:
            for record in await consumer.poll(5.0, 10_000):
                _ = record.key, record.value, record.headers, record.offset, record.timestamp
                count += 1


async def iterate(bootstrap: str, topic: str, records: int) -> None:
    """Read one record at a time."""
    from barnabas.aio import Consumer

    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, number) for number in range(PARTITIONS)])
        count = 0
        async for record in consumer:
            _ = record.key, record.value, record.headers, record.offset, record.timestamp
            count += 1
            if count >= records:
                break


async def poll_arrow(bootstrap: str, topic: str, records: int) -> None:
    """Read whole batches as columns."""
    from barnabas.aio import Consumer

    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, number) for number in range(PARTITIONS)])
        count = 0
        while count < records:
            batch = await consumer.poll_arrow(5.0)
            count += 0 if batch is None else batch.num_rows


async def _aiokafka_consumer(bootstrap: str, topic: str) -> Any:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
    return consumer


async def aiokafka_getmany(bootstrap: str, topic: str, records: int) -> None:
    """Read by aiokafka's getmany()."""
    consumer = await _aiokafka_consumer(bootstrap, topic)
    count = 0
    while count < records:
        for found in (await consumer.getmany(timeout_ms=5000, max_records=10_000)).values():
            for record in found:
                _ = record.key, record.value, record.headers, record.offset, record.timestamp
                count += 1
    await consumer.stop()


async def aiokafka_iterate(bootstrap: str, topic: str, records: int) -> None:
    """Read one record at a time with aiokafka."""
    consumer = await _aiokafka_consumer(bootstrap, topic)
    count = 0
    async for record in consumer:
        _ = record.key, record.value, record.headers, record.offset, record.timestamp
        count += 1
        if count >= records:
            break
    await consumer.stop()
