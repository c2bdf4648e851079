"""aiokafka's transactional producer and its read_committed consumer against our broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from barnabas import Broker


def test_transactions_with_offsets(broker: Broker, new_name: Callable[[str], str]) -> None:
    topic, group = new_name("aio"), new_name("aio-group")

    async def run() -> tuple[list[bytes], int | None]:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic)
        await producer.start()
        for number in range(4):
            await producer.begin_transaction()
            for record in range(5):
                await producer.send_and_wait(topic, b"%d-%d" % (number, record), partition=0)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.send_offsets_to_transaction({TopicPartition(topic, 0): number + 1}, group)
                await producer.commit_transaction()
        await producer.stop()
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=group + "-reader",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        await consumer.start()
        found = [(await asyncio.wait_for(consumer.getone(), 30)).value for _ in range(10)]
        assert await consumer.getmany(timeout_ms=300) == {}
        await consumer.stop()
        committed = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=group)
        await committed.start()
        offset = await committed.committed(TopicPartition(topic, 0))
        await committed.stop()
        return found, offset

    found, offset = asyncio.run(run())
    assert found == [b"%d-%d" % (number, record) for number in (0, 2) for record in range(5)]
    assert offset == 3
