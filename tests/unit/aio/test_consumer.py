"""The consumer for asyncio, with a broker in memory on virtual time."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Collection, Coroutine
from typing import Any

import pytest

from barnabas import errors
from barnabas.aio import Consumer, ConsumerRebalanceListener, TopicPartition
from tests.support.virtual_loop import Interruptions, VirtualBroker, VirtualEnvironment, run
from tests.unit.aio.test_producer import everywhere, forget

CONSUMER_PROTOCOL = {"group_protocol": "consumer"}


def connect(broker: VirtualBroker, *topics: str, **settings: Any) -> Consumer:
    settings = {"auto_offset_reset": "earliest", **settings}
    return Consumer(*topics, bootstrap_servers="broker:9092", environment=VirtualEnvironment(broker), **settings)


def fill(broker: VirtualBroker, topic: str = "flights", partitions: int = 2, count: int = 10) -> list[bytes]:
    """Make a topic with `count` records in each partition; returns all values."""
    broker.create(topic, partitions)
    values = []
    for partition in range(partitions):
        mine = [b"%d:%d" % (partition, number) for number in range(count)]
        broker.append(topic, partition, *mine)
        values += mine
    return values


async def read(consumer: Consumer, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        found += [record.value for record in await consumer.poll(1.0)]
    return found


@pytest.mark.parametrize("protocol", [{}, CONSUMER_PROTOCOL], ids=["classic", "consumer"])
def test_a_group_member_reads_commits_and_another_one_goes_on(protocol: dict[str, str]) -> None:
    async def scenario(broker: VirtualBroker) -> None:
        values = fill(broker)
        async with connect(broker, "flights", group_id="g", enable_auto_commit=False, **protocol) as consumer:
            assert sorted(await read(consumer, 20)) == values
            await consumer.commit()
            found = await consumer.committed(consumer.assignment())
            assert [entry.offset for entry in found.values() if entry] == [10, 10]
        broker.append("flights", 0, b"new")
        async with connect(broker, "flights", group_id="g", **protocol) as consumer:
            assert await read(consumer, 1) == [b"new"]

    run(scenario)


def test_a_loop_over_records_gets_all_of_them_and_a_commit_covers_what_it_got() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        values = fill(broker, partitions=1)
        async with connect(broker, "flights", group_id="g", enable_auto_commit=False) as consumer:
            seen = []
            async for record in consumer:
                seen.append(record.value)
                if len(seen) == 4:
                    break
            await consumer.commit()
            partition = TopicPartition("flights", 0)
            committed = (await consumer.committed([partition]))[partition]
            assert committed is not None
            assert committed.offset == 4
            async for record in consumer:
                seen.append(record.value)
                if len(seen) == 10:
                    break
            assert seen == values

    run(scenario)


def test_arrow_batches_come_with_all_columns() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        values = fill(broker, partitions=1)
        async with connect(broker) as consumer:
            consumer.assign([("flights", 0)])
            batch = await consumer.poll_arrow(5.0)
            assert batch is not None
            assert batch.column("value").to_pylist() == values
            assert await consumer.poll_arrow(0.1) is None

    run(scenario)


def test_a_poll_waits_no_longer_than_its_timeout_and_returns_as_soon_as_records_come() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights", 1)
        loop = asyncio.get_running_loop()
        async with connect(broker) as consumer:
            consumer.assign([("flights", 0)])
            began = loop.time()
            assert not await consumer.poll(3.0)
            assert loop.time() - began == pytest.approx(3.0, abs=0.01)
            loop.call_later(1.0, broker.append, "flights", 0, b"late")
            began = loop.time()
            records = await consumer.poll(30.0)
            assert [record.value for record in records] == [b"late"]
            assert loop.time() - began == pytest.approx(1.0, abs=0.1)

    run(scenario)


def test_positions_can_be_sought_and_bounds_asked_for() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        fill(broker, partitions=1)
        partition = TopicPartition("flights", 0)
        async with connect(broker) as consumer:
            consumer.assign([partition])
            assert await consumer.position(partition) == 0
            consumer.seek(partition, 7)
            assert [record.offset for record in await consumer.poll(1.0)] == [7, 8, 9]
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 10}
            consumer.seek_to_beginning(partition)
            assert await consumer.position(partition) == 0
            consumer.pause(partition)
            assert not await consumer.poll(0.2)
            consumer.resume(partition)
            assert len(await consumer.poll(1.0, max_records=3)) == 3
            assert len(await consumer.partitions_for("flights")) == 1
            assert "flights" in await consumer.list_topics()
            with pytest.raises(errors.IllegalArgumentError, match="negative"):
                await consumer.offsets_for_times({partition: -1})

    run(scenario)


@pytest.mark.parametrize("protocol", [{}, CONSUMER_PROTOCOL], ids=["classic", "consumer"])
def test_listeners_may_be_coroutines_that_use_the_consumer(protocol: dict[str, str]) -> None:
    async def scenario(broker: VirtualBroker) -> None:
        fill(broker)
        told: list[tuple[str, int]] = []

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
                await asyncio.sleep(0.1)
                told.append(("assigned", len(partitions)))

            async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
                await consumer.commit()
                told.append(("revoked", len(partitions)))

        consumer = connect(broker, group_id="g", enable_auto_commit=False, **protocol)
        consumer.subscribe(["flights"], Listener())
        await read(consumer, 20)
        await consumer.close()
        assert told == [("assigned", 2), ("revoked", 2)]
        async with connect(broker, "flights", group_id="g", **protocol) as other:
            assert not await other.poll(8.0), "all was committed when the partitions were given up"

    run(scenario)


def test_commit_callbacks_may_be_coroutines() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        fill(broker)
        told: list[Any] = []

        async def callback(offsets: Any, error: BaseException | None) -> None:
            await asyncio.sleep(0.1)
            told.append(error)

        async with connect(broker, "flights", group_id="g", enable_auto_commit=False) as consumer:
            await read(consumer, 20)
            consumer.commit_async(callback=callback)
            assert told == []
        assert told == [None]

    run(scenario)


@pytest.mark.parametrize("protocol", [{}, CONSUMER_PROTOCOL], ids=["classic", "consumer"])
def test_two_members_share_the_partitions_and_close_gives_them_back(protocol: dict[str, str]) -> None:
    async def scenario(broker: VirtualBroker) -> None:
        fill(broker, partitions=4)
        first = connect(broker, "flights", group_id="g", **protocol)
        await read(first, 40)
        assert len(first.assignment()) == 4
        second = connect(broker, "flights", group_id="g", **protocol)

        async def settle() -> None:
            while not (len(first.assignment()) == len(second.assignment()) == 2):
                await asyncio.gather(first.poll(0.5), second.poll(0.5))

        await asyncio.wait_for(settle(), 60)
        await second.close()
        async with asyncio.timeout(60):
            while len(first.assignment()) < 4:
                await first.poll(0.5)
        await first.close()

    run(scenario)


def test_heartbeats_go_on_while_the_application_waits_for_other_things() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        fill(broker)
        async with connect(broker, "flights", group_id="g", session_timeout_ms=6000) as consumer:
            await read(consumer, 20)
            member = consumer.group_metadata()
            await asyncio.sleep(200)
            broker.append("flights", 0, b"new")
            assert await read(consumer, 1) == [b"new"]
            assert consumer.group_metadata() == member, "it was never put out of the group"

    run(scenario)


def test_wakeup_ends_a_poll_in_progress_and_else_the_next() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights", 1)
        async with connect(broker) as consumer:
            consumer.assign([("flights", 0)])
            asyncio.get_running_loop().call_later(0.5, consumer.wakeup)
            with pytest.raises(errors.WakeupError):
                await consumer.poll(30.0)
            consumer.wakeup()
            with pytest.raises(errors.WakeupError):
                await consumer.poll(30.0)
            assert not await consumer.poll(0.1)

    run(scenario)


def test_one_poll_at_a_time_and_other_calls_meanwhile() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights", 1)
        partition = TopicPartition("flights", 0)
        async with connect(broker, group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([partition])
            polling = asyncio.get_running_loop().create_task(consumer.poll(10.0))
            await asyncio.sleep(1)
            with pytest.raises(errors.ConcurrentModificationError, match="one at a time"):
                await consumer.poll(1.0)
            assert await consumer.position(partition) == 0
            await consumer.commit({partition: 0})
            assert await consumer.end_offsets([partition]) == {partition: 0}
            assert not polling.done()
            broker.append("flights", 0, b"x")
            assert len(await polling) == 1

    run(scenario)


def test_a_consumer_is_not_closed_while_another_task_polls() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights", 1)
        async with connect(broker) as consumer:
            consumer.assign([("flights", 0)])
            polling = asyncio.get_running_loop().create_task(consumer.poll(10.0))
            await asyncio.sleep(1)
            with pytest.raises(errors.ConcurrentModificationError):
                await consumer.close()
            broker.append("flights", 0, b"x")
            assert len(await polling) == 1, "the refused close() did no harm"

    run(scenario)


def reading(protocol: dict[str, str], call: Callable[[Consumer], Coroutine[Any, Any, Any]]) -> Any:
    """A scenario that reads all records by `call`, which returns values and is cancelled somewhere."""

    def scenario(interruptions: Interruptions) -> Callable[[VirtualBroker], Any]:
        async def read_all(broker: VirtualBroker) -> None:
            values = fill(broker, count=6)
            assigned: list[int] = []

            class Listener(ConsumerRebalanceListener):
                async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
                    await asyncio.sleep(0.05)
                    assigned.append(len(partitions))

                async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
                    await asyncio.sleep(0.05)

            seen: list[bytes] = []
            async with connect(broker, group_id="g", enable_auto_commit=False, **protocol) as consumer:
                consumer.subscribe(["flights"], Listener())
                async with asyncio.timeout(120):
                    while len(seen) < len(values):
                        try:
                            seen += await interruptions.call(call(consumer))
                            await interruptions.call(consumer.commit())
                        except asyncio.CancelledError:
                            continue
                        except errors.CommitFailedError:
                            assert not consumer.assignment(), "not joined yet"
                await consumer.commit()
                committed = await consumer.committed([("flights", 0), ("flights", 1)])
            assert sorted(seen) == values, "none lost, none doubled"
            assert sum(assigned) == 2, "listeners run to their end, once"
            assert [entry.offset for entry in committed.values() if entry] == [6, 6]

        return read_all

    return scenario


async def poll_values(consumer: Consumer) -> list[Any]:
    return [record.value for record in await consumer.poll(0.5, max_records=5)]


async def arrow_values(consumer: Consumer) -> list[Any]:
    batch = await consumer.poll_arrow(0.5)
    return [] if batch is None else list(batch.column("value").to_pylist())


@pytest.mark.parametrize("call", [poll_values, arrow_values])
@pytest.mark.parametrize("protocol", [{}, CONSUMER_PROTOCOL], ids=["classic", "consumer"])
def test_a_poll_that_is_cancelled_anywhere_loses_no_record_and_doubles_none(
    protocol: dict[str, str], call: Callable[[Consumer], Coroutine[Any, Any, Any]]
) -> None:
    assert everywhere(reading(protocol, call)) >= 20


def test_a_listener_that_runs_when_its_poll_is_cancelled_ends_before_the_next_poll() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        fill(broker)
        log: list[str] = []

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
                log.append("begins")
                await asyncio.sleep(5)
                log.append("ends")

            async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
                return

        async with connect(broker, group_id="g") as consumer:
            consumer.subscribe(["flights"], Listener())
            polling = asyncio.get_running_loop().create_task(consumer.poll(60))
            while not log:
                await asyncio.sleep(0.1)
            polling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await polling
            assert log == ["begins"]
            assert await read(consumer, 20)
            assert log == ["begins", "ends"]

    run(scenario)


def test_an_empty_subscription_is_ended_by_awaiting_unsubscribe() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        fill(broker)
        async with connect(broker, "flights", group_id="g") as consumer:
            await read(consumer, 20)
            with pytest.raises(errors.IllegalArgumentError, match="await unsubscribe"):
                consumer.subscribe([])
            await consumer.unsubscribe()
            assert not consumer.assignment()

    run(scenario)


def test_what_a_listener_raises_comes_out_of_the_poll() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        fill(broker)

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
                raise RuntimeError("mine")

            async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
                return

        async with connect(broker, group_id="g") as consumer:
            consumer.subscribe(["flights"], Listener())
            with pytest.raises(errors.KafkaError, match="RuntimeError: mine"):
                await consumer.poll(30)
            assert await read(consumer, 20)

    run(scenario)


def test_another_thread_is_refused_but_may_wake_up() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights", 1)
        async with connect(broker) as consumer:
            consumer.assign([("flights", 0)])
            await consumer.poll(0)
            raised: list[BaseException] = []

            def other() -> None:
                try:
                    consumer.seek(("flights", 0), 3)
                except errors.IllegalStateError as error:
                    raised.append(error)
                consumer.wakeup()

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            assert "run_coroutine_threadsafe" in str(raised[0])
            with pytest.raises(errors.WakeupError):
                await consumer.poll(1)

    run(scenario)


def test_a_forgotten_consumer_warns_and_drops_its_connections() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        fill(broker)
        made = [connect(broker, "flights", group_id="g")]
        await read(made[0], 20)
        gc.collect()
        with pytest.warns(ResourceWarning, match="never closed"):
            forget(made)
        await asyncio.sleep(1)
        assert not broker.links

    run(scenario)


def test_a_closed_consumer_refuses_and_closing_twice_is_fine() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        consumer = connect(broker)
        await consumer.close()
        await consumer.close()
        with pytest.raises(errors.IllegalStateError, match="closed"):
            await consumer.poll(0)
        with pytest.raises(errors.IllegalStateError, match="closed"):
            consumer.assignment()

    run(scenario)


def test_a_consumer_recovers_when_its_connections_break() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        fill(broker)
        async with connect(broker, "flights", group_id="g") as consumer:
            await read(consumer, 20)
            broker.drop_connections()
            broker.append("flights", 1, b"new")
            assert await read(consumer, 1) == [b"new"]

    run(scenario)


@pytest.mark.parametrize("protocol", [{}, CONSUMER_PROTOCOL], ids=["classic", "consumer"])
def test_a_consumer_goes_on_after_a_broker_was_gone_for_a_minute_and_nothing_spins_meanwhile(
    protocol: dict[str, str],
) -> None:
    async def scenario(broker: VirtualBroker) -> None:
        fill(broker)
        environment = VirtualEnvironment(broker)
        settings = {"auto_offset_reset": "earliest", "group_id": "g", **protocol}
        async with Consumer(
            "flights", bootstrap_servers="broker:9092", environment=environment, **settings
        ) as consumer:
            await read(consumer, 20)
            await consumer.commit()
            going = asyncio.get_running_loop().create_task(broker.go_away(60))
            await asyncio.sleep(0.1)
            polls = sum(port.polls for port in environment.ports)
            assert not await consumer.poll(30)
            await going
            assert sum(port.polls for port in environment.ports) - polls < 2500
            broker.append("flights", 1, b"new")
            async with asyncio.timeout(120):
                assert await read(consumer, 1) == [b"new"]

    run(scenario)


@pytest.mark.parametrize("protocol", [{}, CONSUMER_PROTOCOL], ids=["classic", "consumer"])
def test_a_member_leaves_although_there_is_no_time_to_wait_for_it(protocol: dict[str, str]) -> None:
    async def scenario(broker: VirtualBroker) -> None:
        values = fill(broker)
        first = connect(broker, "flights", group_id="g", enable_auto_commit=False, **protocol)
        assert sorted(await read(first, 20)) == values
        await first.close(0)

        began = asyncio.get_running_loop().time()
        async with connect(broker, "flights", group_id="g", **protocol) as second:
            assert sorted(await read(second, 20)) == values
        # Much sooner than session.timeout.ms.
        assert asyncio.get_running_loop().time() - began < 15

    run(scenario)
