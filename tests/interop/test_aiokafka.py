"""aiokafka against our broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin import RecordsToDelete as Records
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from barnabas import Broker
from tests.interop.three_brokers import count_of

NewName = Callable[[str], str]


async def produce(broker: Broker, topic: str, count: int, **settings: Any) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, **settings) as producer:
        sent = [await producer.send(topic, key=b"%d" % n, value=b"value %d" % n) for n in range(count)]
        await asyncio.gather(*sent)


def consumer(broker: Broker, topic: str, group: str | None, **settings: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **settings,
    )


async def poll(member: AIOKafkaConsumer, count: int) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    end = time.monotonic() + 20
    while len(found) < count and time.monotonic() < end:
        for records in (await member.getmany(timeout_ms=200)).values():
            found.update((record.key, record.value) for record in records)
    return found


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_what_is_produced_is_consumed(broker: Broker, new_name: NewName, codec: str | None, idempotent: bool) -> None:
    topic = new_name("aio")

    async def scenario() -> dict[bytes, bytes]:
        await produce(broker, topic, 300, compression_type=codec, enable_idempotence=idempotent)
        async with consumer(broker, topic, new_name("group")) as reader:
            return await poll(reader, 300)

    assert asyncio.run(scenario()) == {b"%d" % n: b"value %d" % n for n in range(300)}


def test_two_members_share_the_partitions_and_one_takes_over(broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("aio"), new_name("group")

    async def assigned(member: AIOKafkaConsumer, count: int) -> None:
        while len(member.assignment()) != count:
            await member.getmany(timeout_ms=50)

    async def scenario() -> list[int]:
        await produce(broker, topic, 1)
        quick = {"heartbeat_interval_ms": 100, "metadata_max_age_ms": 1000}
        first = consumer(broker, topic, group, **quick)
        await first.start()
        await asyncio.wait_for(assigned(first, 3), 20)
        async with consumer(broker, topic, group, **quick) as second:
            while sorted((len(first.assignment()), len(second.assignment()))) != [1, 2]:
                await asyncio.gather(first.getmany(timeout_ms=50), second.getmany(timeout_ms=50))
            shared = sorted((len(first.assignment()), len(second.assignment())))
            await first.stop()
            await asyncio.wait_for(assigned(second, 3), 20)
        return shared

    assert asyncio.run(asyncio.wait_for(scenario(), 40)) == [1, 2]


def test_a_group_goes_on_where_it_committed(broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("aio"), new_name("group")

    async def scenario() -> dict[bytes, bytes]:
        await produce(broker, topic, 50)
        async with consumer(broker, topic, group) as reader:
            await poll(reader, 50)
            await reader.commit()
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait(topic, key=b"new", value=b"new")
        async with consumer(broker, topic, group) as reader:
            return await poll(reader, 1)

    assert asyncio.run(scenario()) == {b"new": b"new"}


def test_offsets_by_time(broker: Broker, new_name: NewName) -> None:
    topic = new_name("aio")
    start = int(time.time() * 1000) - 60_000

    async def scenario() -> Any:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, b"v", partition=0, timestamp_ms=start + number * 1000)
        async with consumer(broker, topic, None) as reader:
            partition = TopicPartition(topic, 0)
            found = await reader.offsets_for_times({partition: start + 4500})
            ends = await reader.end_offsets([partition])
            return found[partition].offset, ends[partition]

    assert asyncio.run(scenario()) == (5, 10)


def test_administration(broker: Broker, new_name: NewName) -> None:
    topic = new_name("aio")

    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        await admin.start()

        async def until(is_there: bool) -> None:
            # A broker of several hears of a change a moment after the controller has answered.
            while (topic in await admin.list_topics()) != is_there:
                await asyncio.sleep(0.05)

        try:
            await admin.create_topics([NewTopic(topic, 2, count_of(broker))])
            await asyncio.wait_for(until(True), 20)
            await admin.delete_topics([topic])
            await asyncio.wait_for(until(False), 20)
        finally:
            await admin.close()

    asyncio.run(scenario())


def test_more_administration(broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("aio"), new_name("group")
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "7200000"})

    async def walk(admin: AIOKafkaAdminClient) -> None:
        await admin.create_topics([NewTopic(topic, 2, count_of(broker))])
        await admin.create_partitions({topic: NewPartitions(3)})
        (described,) = await admin.describe_topics([topic])
        assert len(described["partitions"]) == 3
        await admin.alter_configs([resource])
        (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        (found,) = response.to_object()["resources"]
        assert {entry["config_names"]: entry["config_value"] for entry in found["config_entries"]}[
            "retention.ms"
        ] == "7200000"
        await produce(broker, topic, 50)
        async with consumer(broker, topic, group) as reader:
            await poll(reader, 50)
            await reader.commit()
            ends = await reader.end_offsets([TopicPartition(topic, at) for at in range(3)])
        committed = await admin.list_consumer_group_offsets(group)
        assert {at: found.offset for at, found in committed.items()} == ends
        assert group in {found[0] for found in await admin.list_consumer_groups()}
        full = max(ends, key=lambda at: ends[at])
        assert (await admin.delete_records({full: Records(before_offset=2)}))[full] == 2
        async with consumer(broker, topic, None) as reader:
            assert (await reader.beginning_offsets([full]))[full] == 2

    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        await admin.start()
        try:
            await walk(admin)
        finally:
            await admin.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_transactions(broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("aio"), new_name("group")

    async def scenario() -> dict[bytes, bytes]:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": new_name("transaction")}
        async with AIOKafkaProducer(**settings) as producer:
            for number, committed in enumerate([True, False, True]):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, key=b"%d" % number, value=b"v", partition=0)
                await producer.send_offsets_to_transaction({TopicPartition(topic, 1): number + 1}, group)
                await (producer.commit_transaction() if committed else producer.abort_transaction())
        async with consumer(broker, topic, group, isolation_level="read_committed") as reader:
            assert await reader.committed(TopicPartition(topic, 1)) == 3
            return await poll(reader, 2)

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == {b"0": b"v", b"2": b"v"}
