"""The producer for asyncio, with a broker in memory on virtual time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa
import pytest

from barnabas import errors
from barnabas.aio import Consumer, Producer
from barnabas.client.producer.producer_record import ProducerRecord
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.virtual_loop import Interruptions, VirtualBroker, VirtualEnvironment, run


def connect(broker: VirtualBroker, **settings: Any) -> Producer[Any, Any]:
    return Producer(bootstrap_servers="broker:9092", environment=VirtualEnvironment(broker), **settings)


async def took(sending: Coroutine[Any, Any, Any]) -> bool:
    """Whether a record was taken within five seconds."""
    try:
        await asyncio.wait_for(sending, 5)
    except TimeoutError:
        return False
    return True


def test_a_record_is_sent_and_its_future_awaited() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights", 2)
        async with connect(broker) as producer:
            future = await producer.send("flights", b"value", key=b"key", partition=1, headers={"h": b"1"})
            assert not future.done()
            metadata = await future
            assert str(metadata) == "flights-1@0"
            assert await future == metadata, "a future can be awaited again"
            assert future.result() == metadata
        assert broker.values("flights", 1) == [b"value"]

    run(scenario)


def test_offsets_in_a_transaction_get_the_leader_epochs_that_the_consumer_knew() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        first = TopicPartition("flights", 0)
        reader = Consumer(
            *("flights",),
            bootstrap_servers="broker:9092",
            environment=VirtualEnvironment(broker),
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with connect(broker, transactional_id="tx") as producer, reader as consumer:
            await producer.init_transactions()
            for offsets, epoch in (({first: 1}, 0), ({first: 1}, -1)):
                producer.begin_transaction()
                await (await producer.send("flights", b"value"))
                while not await consumer.poll(1.0):
                    pass
                await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                await producer.commit_transaction()
                committed = (await consumer.committed([first]))[first]
                assert committed == (1, "", epoch), "the second time it has read on"

    run(scenario)


def test_a_producer_record_can_be_sent_too() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        async with connect(broker) as producer:
            await (await producer.send(ProducerRecord("flights", b"value")))
            with pytest.raises(errors.IllegalTypeError, match="a topic's name or a ProducerRecord"):
                await producer.send(7)  # type: ignore[arg-type]  # what is refused here
        assert broker.values("flights") == [b"value"]

    run(scenario)


def test_records_linger_together_and_no_longer_than_linger_ms() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        loop = asyncio.get_running_loop()
        async with connect(broker, linger_ms=500) as producer:
            await producer.partitions_for("flights")
            began = loop.time()
            first = await producer.send("flights", b"1")
            await asyncio.sleep(0.2)
            second = await producer.send("flights", b"2")
            await first
            assert second.done(), "both were in one batch"
            assert 0.5 <= loop.time() - began < 0.6

    run(scenario)


def test_sending_waits_for_room_in_buffer_memory_and_for_nothing_else() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        async with connect(broker, buffer_memory=4000, batch_size=1000, linger_ms=0) as producer:
            await producer.partitions_for("flights")
            broker.is_silent = True
            sent = 0
            while await took(producer.send("flights", b"x" * 900)):
                sent += 1
            assert sent == 4
            assert producer.metrics()["buffer-available-bytes"] == 0
            assert producer.metrics()["waiting-threads"] == 0, "who was cancelled has left the line"
            broker.is_silent = False
            await producer.flush()
        assert len(broker.values("flights")) == sent

    run(scenario)


def test_without_room_for_max_block_ms_the_record_fails_through_its_future() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        failed: list[BaseException | None] = []
        settings = {"buffer_memory": 1000, "batch_size": 1000, "linger_ms": 0, "max_block_ms": 3000}
        async with connect(broker, **settings) as producer:
            await producer.partitions_for("flights")
            broker.is_silent = True
            await producer.send("flights", b"x" * 900)
            began = asyncio.get_running_loop().time()
            future = await producer.send("flights", b"y" * 900, on_delivery=lambda _, error: failed.append(error))
            assert asyncio.get_running_loop().time() - began == pytest.approx(3.0)
            with pytest.raises(errors.BufferExhaustedError):
                await future
            assert [type(error) for error in failed] == [errors.BufferExhaustedError]
            broker.is_silent = False

    run(scenario)


def test_a_topic_that_nobody_knows_fails_the_record_after_max_block_ms() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        async with connect(broker, max_block_ms=2000) as producer:
            future = await producer.send("nowhere", b"x")
            with pytest.raises(errors.KafkaTimeoutError, match="nowhere"):
                await future

    run(scenario, {"auto.create.topics.enable": "false"})


def test_callbacks_may_be_functions_and_coroutine_functions() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        told: list[tuple[str, int]] = []

        async def slowly(metadata: Any, error: BaseException | None) -> None:
            await asyncio.sleep(3)
            told.append(("coroutine", metadata.offset))

        async with connect(broker) as producer:
            await producer.send("flights", b"0", on_delivery=lambda m, _: told.append(("function", m.offset)))
            await producer.send("flights", b"1", on_delivery=slowly)
            await producer.flush()
            assert told == [("function", 0)]
        assert told == [("function", 0), ("coroutine", 1)], "close() waits for the callbacks"

    run(scenario)


def test_what_a_coroutine_callback_raises_is_logged_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")

        async def fails(metadata: Any, error: BaseException | None) -> None:
            raise RuntimeError("mine")

        async with connect(broker) as producer:
            await (await producer.send("flights", b"0", on_delivery=fails))

    run(scenario)
    assert "the record itself is not affected" in caplog.text


def test_flush_sends_what_lingers_and_waits_for_it() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights", 3)
        async with connect(broker, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
            futures = [await producer.send("flights", b"%d" % n, partition=n % 3) for n in range(9)]
            await producer.flush()
            assert all(future.done() for future in futures)

    run(scenario)


def test_flush_gives_up_after_its_timeout_and_the_records_go_on() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        async with connect(broker) as producer:
            await producer.partitions_for("flights")
            broker.is_silent = True
            future = await producer.send("flights", b"x")
            with pytest.raises(errors.KafkaTimeoutError, match="1 records"):
                await producer.flush(2)
            broker.is_silent = False
            await future

    run(scenario)


def test_close_sends_what_is_left_and_fails_after_its_timeout_what_is_not_acknowledged() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        first = connect(broker, linger_ms=60_000)
        future = await first.send("flights", b"1")
        await first.close()
        assert future.done()
        second = connect(broker)
        await second.partitions_for("flights")
        broker.is_silent = True
        future = await second.send("flights", b"2")
        began = asyncio.get_running_loop().time()
        await second.close(timeout=5)
        assert asyncio.get_running_loop().time() - began == pytest.approx(5, abs=0.1)
        with pytest.raises(errors.KafkaError, match="closed before the record was acknowledged"):
            await future
        with pytest.raises(errors.IllegalStateError, match="closed"):
            await second.send("flights", b"3")
        await second.close()

    run(scenario)


def test_a_close_that_is_cancelled_goes_on() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        producer = connect(broker, linger_ms=60_000)
        future = await producer.send("flights", b"1")
        with pytest.raises(asyncio.CancelledError):
            await Interruptions(at=1).call(producer.close())
        await future
        await producer.close()
        assert not broker.links

    run(scenario)


def test_a_batch_is_sent_again_after_the_connection_broke() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        async with connect(broker, linger_ms=0) as producer:
            await (await producer.send("flights", b"1"))
            future = await producer.send("flights", b"2")
            broker.drop_connections()
            await future
        assert broker.values("flights") == [b"1", b"2"]

    run(scenario)


def test_a_table_is_sent_and_its_future_awaited() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights", 2)
        values = [b"%06d" % number for number in range(3000)]
        table = pa.table({"value": values, "partition": [number % 2 for number in range(3000)]})
        async with connect(broker, buffer_memory=20_000, batch_size=4000) as producer:
            future = await producer.send_table("flights", table)
            assert await future == 3000
        assert broker.values("flights", 0) == values[::2]
        assert broker.values("flights", 1) == values[1::2]

    run(scenario)


def test_a_row_larger_than_a_batch_gets_the_memory_that_it_takes() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        async with connect(broker, buffer_memory=10_000, batch_size=1000, linger_ms=0) as producer:
            await producer.send("flights", b"x" * 900)
            assert await (await producer.send_table("flights", pa.table({"value": [b"y" * 9500]}))) == 1
            assert producer.metrics()["buffer-available-bytes"] == 10_000

    run(scenario)


async def fail_in_transaction(producer: Producer[Any, Any]) -> None:
    async with producer.transaction():
        await (await producer.send("flights", b"aborted"))
        raise RuntimeError("mine")


def forget(made: list[Any]) -> None:
    made.clear()
    gc.collect()


def test_transactions_commit_and_abort_as_contexts() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        async with connect(broker, transactional_id="tx") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send("flights", b"committed")
            with pytest.raises(RuntimeError, match="mine"):
                await fail_in_transaction(producer)
            with pytest.raises(errors.IllegalStateError):
                await producer.send("flights", b"outside")
            async with producer.transaction():
                await producer.send("flights", b"again")
        assert broker.values("flights") == [b"committed", b"aborted", b"again"]

    run(scenario)


def test_a_transaction_that_lacks_a_record_which_send_could_not_take_cannot_be_committed() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        async with connect(broker, transactional_id="tx", max_request_size=1000) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send("flights", b"small")
            large = await producer.send("flights", bytes(2000))
            with pytest.raises(errors.RecordTooLargeError):
                await large
            with pytest.raises(errors.TransactionAbortableError):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send("flights", b"next")

    run(scenario)


def test_a_commit_that_is_cancelled_anywhere_is_called_again_until_it_returns() -> None:
    def scenario(interruptions: Interruptions) -> Callable[[VirtualBroker], Any]:
        async def commit(broker: VirtualBroker) -> None:
            broker.create("flights")
            async with connect(broker, transactional_id="tx") as producer:
                await producer.init_transactions()
                producer.begin_transaction()
                await producer.send("flights", b"1")
                try:
                    await interruptions.call(producer.commit_transaction())
                except asyncio.CancelledError:
                    with pytest.raises(errors.IllegalStateError, match="must be called again"):
                        producer.begin_transaction()
                    await producer.commit_transaction()
                producer.begin_transaction()
                await producer.send("flights", b"2")
                await producer.commit_transaction()
            assert broker.values("flights") == [b"1", b"2"]

        return commit

    assert everywhere(scenario) >= 2


def everywhere(scenario: Callable[[Interruptions], Callable[[VirtualBroker], Any]]) -> int:
    """Run the scenario with an interruption at every place where it waits, in both ways; returns how many there are."""
    struck = 0
    for when in ("waiting", "ready"):
        at = 0
        while True:
            at += 1
            interruptions = Interruptions(at, when)
            run(scenario(interruptions))
            if not interruptions.has_struck:
                break
            struck += 1
    return struck


@pytest.mark.parametrize("interceptors", [False, True])
def test_a_send_that_is_cancelled_anywhere_has_not_taken_its_record_and_all_others_are_stored_once_in_order(
    interceptors: bool,
) -> None:
    class Passing:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record

    def scenario(interruptions: Interruptions) -> Callable[[VirtualBroker], Any]:
        async def send(broker: VirtualBroker) -> None:
            broker.create("flights")
            taken = []
            settings = {"interceptor_classes": [Passing()]} if interceptors else {}
            async with connect(broker, buffer_memory=1500, batch_size=500, linger_ms=0, **settings) as producer:
                for number in range(12):
                    value = b"%d" % number + b"x" * 200
                    try:
                        await interruptions.call(producer.send("flights", value))
                    except asyncio.CancelledError:
                        continue
                    taken.append(value)
                await producer.flush()
                assert producer.metrics()["buffer-available-bytes"] == 1500
            assert broker.values("flights") == taken
            assert len(taken) == 12 - interruptions.has_struck

        return send

    assert everywhere(scenario) >= 6


def test_many_tasks_share_a_producer_and_each_ones_records_stay_in_order() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")

        async def work(producer: Producer[Any, Any], name: int) -> None:
            for number in range(30):
                await producer.send("flights", b"%d:%d" % (name, number) + b"." * 100)

        async with connect(broker, buffer_memory=3000, batch_size=500) as producer:
            await asyncio.gather(*(work(producer, name) for name in range(10)))
        stored = [value.rstrip(b".") for value in broker.values("flights") if value is not None]
        assert len(stored) == 300
        for name in range(10):
            mine = [value for value in stored if value.startswith(b"%d:" % name)]
            assert mine == [b"%d:%d" % (name, number) for number in range(30)]

    run(scenario)


def test_waiting_without_await_is_refused_where_it_would_hold_up_the_loop_for_ever() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        async with connect(broker, linger_ms=60_000) as producer:
            future = await producer.send("flights", b"1")
            with pytest.raises(errors.IllegalStateError, match="await the future instead"):
                future.result()
            table = await producer.send_table("flights", pa.table({"value": [b"1"]}))
            with pytest.raises(errors.IllegalStateError, match="await the future instead"):
                table.result()

    run(scenario)


def test_a_producer_of_another_loop_refuses_and_says_why() -> None:
    made: list[Producer[Any, Any]] = []

    async def first(broker: VirtualBroker) -> None:
        broker.create("flights")
        made.append(connect(broker))
        await (await made[0].send("flights", b"1"))

    async def second(broker: VirtualBroker) -> None:
        with pytest.raises(errors.IllegalStateError, match="event loop that this client belongs to is closed"):
            await made[0].send("flights", b"2")

    run(first)
    run(second)
    with pytest.raises(errors.IllegalStateError, match="no running event loop"):
        made[0].send("flights", b"3").send(None)
    with pytest.warns(ResourceWarning, match="never closed"):
        forget(made)


def test_a_forgotten_producer_warns_and_its_records_are_sent_all_the_same() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        made = [connect(broker, linger_ms=60_000)]
        future = await made[0].send("flights", b"1")
        with pytest.warns(ResourceWarning, match="its records are being sent"):
            forget(made)
        await future
        await asyncio.sleep(1)
        assert not broker.links

    run(scenario)


@pytest.mark.parametrize(("batch_size", "expected"), [(1000, 300 // 32 - 1), (300_000, 1)])
def test_a_busy_sender_lets_other_tasks_live(batch_size: int, expected: int) -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async with connect(broker, batch_size=batch_size) as producer:
            await producer.partitions_for("flights")
            task = asyncio.get_running_loop().create_task(other())
            for _ in range(300 if batch_size == 1000 else 700):
                await producer.send("flights", b"x" * 900)
            task.cancel()
            assert turns >= expected

    run(scenario)


def test_records_survive_a_broker_that_is_gone_for_a_minute_and_nothing_spins_meanwhile() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        environment = VirtualEnvironment(broker)
        async with Producer(bootstrap_servers="broker:9092", environment=environment) as producer:
            await (await producer.send("flights", b"1"))
            going = asyncio.get_running_loop().create_task(broker.go_away(60))
            await asyncio.sleep(1)
            futures = [await producer.send("flights", b"2"), await producer.send("flights", b"3")]
            polls = environment.ports[0].polls
            await going
            assert environment.ports[0].polls - polls < 1000
            for future in futures:
                await future
        assert broker.values("flights") == [b"1", b"2", b"3"]

    run(scenario)


def test_a_send_that_waits_for_metadata_when_the_producer_is_closed_says_so() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.is_silent = True
        producer = connect(broker)
        sending = asyncio.get_running_loop().create_task(producer.send("flights", b"x"))
        await asyncio.sleep(1)
        await producer.close(timeout=1)
        with pytest.raises(errors.IllegalStateError, match="closed while it waited"):
            await sending

    run(scenario)


def test_a_send_that_waits_for_memory_when_the_producer_is_closed_says_so() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        producer = connect(broker, buffer_memory=1000, batch_size=1000, linger_ms=0)
        await producer.partitions_for("flights")
        broker.is_silent = True
        lost = await producer.send("flights", b"x" * 900)
        sending = asyncio.get_running_loop().create_task(producer.send("flights", b"y" * 900))
        await asyncio.sleep(1)
        await producer.close(timeout=1)
        with pytest.raises(errors.IllegalStateError, match="closed while a record waited"):
            await sending
        assert isinstance(lost.exception(), errors.KafkaError)

    run(scenario)
