"""Wherever and however often calls are cancelled and connections break: each record once, in order, memory back."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.aio import Consumer, Producer
from tests.support.virtual_loop import Interruptions, VirtualBroker, VirtualEnvironment, run

places = st.dictionaries(st.integers(1, 60), st.sampled_from(["waiting", "ready"]), max_size=12)
breaks = st.sets(st.integers(0, 400), max_size=3)
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MEMORY = 1500


async def disturb(broker: VirtualBroker, at: set[int]) -> None:
    """Break all connections after so many milliseconds."""
    began = asyncio.get_running_loop().time()
    for moment in sorted(at):
        await asyncio.sleep(max(0.0, began + moment / 1000 - asyncio.get_running_loop().time()))
        broker.drop_connections()


@quick
@given(places=places, breaks=breaks, tasks=st.integers(1, 3))
def test_sends_that_are_cancelled_have_taken_nothing_and_the_others_are_stored_once_in_order(
    places: dict[int, str], breaks: set[int], tasks: int
) -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        interruptions = Interruptions(places)
        taken: dict[int, list[bytes]] = {task: [] for task in range(tasks)}

        async def send(producer: Producer[Any, Any], task: int) -> None:
            for number in range(12):
                value = b"%d:%d:" % (task, number) + b"x" * 200
                try:
                    await interruptions.call(producer.send("flights", value))
                except asyncio.CancelledError:
                    continue
                taken[task].append(value)

        disturbing = asyncio.get_running_loop().create_task(disturb(broker, breaks))
        async with Producer(
            bootstrap_servers="broker:9092", environment=VirtualEnvironment(broker), linger_ms=0,
            buffer_memory=MEMORY, batch_size=500, retry_backoff_ms=10,
        ) as producer:  # fmt: skip
            await asyncio.gather(*(send(producer, task) for task in range(tasks)))
            await producer.flush()
            assert producer.metrics()["buffer-available-bytes"] == MEMORY
        await disturbing
        stored = broker.values("flights")
        assert len(stored) == 12 * tasks - interruptions.struck
        for task, values in taken.items():
            assert [value for value in stored if value is not None and value.startswith(b"%d:" % task)] == values

    run(scenario)


@quick
@given(places=places, breaks=breaks, protocol=st.sampled_from(["classic", "consumer"]), most=st.integers(1, 20))
def test_polls_that_are_cancelled_lose_no_record_and_double_none(
    places: dict[int, str], breaks: set[int], protocol: str, most: int
) -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights", 2)
        values = [[b"%d:%d" % (partition, number) for number in range(20)] for partition in (0, 1)]
        for partition in (0, 1):
            broker.append("flights", partition, *values[partition])
        interruptions = Interruptions(places)
        seen: list[list[bytes | None]] = [[], []]
        disturbing = asyncio.get_running_loop().create_task(disturb(broker, breaks))
        async with Consumer(
            "flights", bootstrap_servers="broker:9092", environment=VirtualEnvironment(broker), group_id="g",
            auto_offset_reset="earliest", group_protocol=protocol, enable_auto_commit=False,
        ) as consumer, asyncio.timeout(300):  # fmt: skip
            while sum(map(len, seen)) < 40:
                try:
                    records = await interruptions.call(consumer.poll(0.5, max_records=most))
                except asyncio.CancelledError:
                    continue
                for record in records:
                    seen[record.partition].append(record.value)
        await disturbing
        assert seen == values

    run(scenario)
