"""Any value for any argument of any public method of a producer: an error that names the argument, and no harm.

The methods and their parameters are found by `inspect`, so a new one is tried without a word here.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from barnabas import aio
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.client.producer.producer import Producer
from barnabas.errors import IllegalArgumentError, IllegalTypeError, KafkaError, KafkaTimeoutError, SerializationError
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.virtual_loop import VirtualBroker, VirtualEnvironment, run
from tests.unit.client.producer.test_producer import StoringBroker
from tests.unit.client.producer.test_producer_unforeseen import all_memory_is_back


class Name(StrEnum):
    ONE = "one"


VALUES: tuple[Any, ...] = (
    1.5, -1, 0, 2**31, 2**40, 2**63, 2**70, math.nan, math.inf, True, "", "x\ud800", "x" * 40_000, "no such:thing",
    b"bytes", b"\xff", [], [1], [("h", "text")], [("h\ud800", b"")], {}, {"a": 1}, {TopicPartition("one", 0): 1.5},
    {TopicPartition("one", 0): OffsetAndMetadata(2**70)}, {TopicPartition("one", 0): OffsetAndMetadata(1, "\ud800")},
    {TopicPartition("x\ud800", 0): 1}, {TopicPartition("one", 2**40): 1}, {("one",): 1}, (), object(), object, Name.ONE,
    np.int64(0), np.float32(0.1), np.str_("one"), 3 + 2j,
)  # fmt: skip
# What methods need besides, so that the one value is what is wrong with a call.
GIVEN: dict[str, Any] = {
    "topic": "one",
    "table": pa.table({"value": [b"v"]}),
    "offsets": {TopicPartition("one", 0): 1},
    "group_metadata": "g",
    "prepared": "",
}
# They end the producer, and are tried on one of their own each time.
LAST = ("close",)
# Metrics of the application: their own room has the tests of its values.
OTHERS = {"register_metric_for_subscription", "unregister_metric_from_subscription"}


def calls(kind: type) -> Iterator[tuple[str, str, Any]]:
    for name in dir(kind):
        if name.startswith("_") or name in OTHERS or not callable(getattr(kind, name)):
            continue
        for parameter in inspect.signature(getattr(kind, name)).parameters:
            if parameter != "self":
                yield from ((name, parameter, value) for value in VALUES)


def arguments(method: Any, parameter: str, value: Any) -> dict[str, Any]:
    needed = {
        name: GIVEN[name]
        for name, known in inspect.signature(method).parameters.items()
        if known.default is inspect.Parameter.empty and name in GIVEN
    }
    return {**needed, parameter: value}


def is_named(error: KafkaError, parameter: str) -> bool:
    """Whether the error says which argument it is about; errors of the state or of the cluster are about none."""
    about_argument = isinstance(error, IllegalArgumentError | IllegalTypeError | SerializationError)
    return not about_argument or parameter.split("_")[0] in str(error).lower()


def connect(broker: StoringBroker, max_block_ms: int = 30) -> Producer[Any, Any]:
    return Producer(
        bootstrap_servers=f"{broker.host}:{broker.port}",
        max_block_ms=max_block_ms,
        linger_ms=0,
        enable_metrics_push=False,
    )


def knows_topic(producer: Producer[Any, Any]) -> None:
    """Wait for the metadata longer than `max.block.ms`, which is short for the sake of topics that are not there."""
    until = time.monotonic() + 20
    while True:
        try:
            producer.partitions_for("one")
        except KafkaTimeoutError:
            assert time.monotonic() < until
        else:
            return


def test_whatever_is_given_to_a_producer_is_taken_or_refused_by_name_and_does_no_harm() -> None:
    wrong = []
    with StoringBroker() as broker, connect(broker) as shared:
        knows_topic(shared)
        for name, parameter, value in calls(Producer):
            producer = connect(broker) if name in LAST else shared
            try:
                getattr(producer, name)(**arguments(getattr(producer, name), parameter, value))
            except KafkaError as error:
                if not is_named(error, parameter):
                    wrong.append((name, parameter, repr(value)[:40], repr(error)))
            except Exception as error:  # noqa: BLE001  whatever else it is, it is none of ours
                wrong.append((name, parameter, repr(value)[:40], repr(error)))
            if name in LAST:
                producer.close(0)
        assert shared.send("one", b"after all of it").result(20).partition == 0
        shared.flush(20)
        assert all_memory_is_back(shared)

    assert wrong == []


def test_whatever_is_given_to_a_producer_for_asyncio_likewise() -> None:
    wrong = []

    async def scenario(broker: VirtualBroker) -> None:
        broker.create("one")

        def connect() -> aio.Producer[Any, Any]:
            return aio.Producer(
                bootstrap_servers="broker:9092", environment=VirtualEnvironment(broker), max_block_ms=500, linger_ms=0,
                enable_metrics_push=False,
            )  # fmt: skip

        async with connect() as shared:
            for name, parameter, value in calls(aio.Producer):
                producer = connect() if name in LAST else shared
                try:
                    result = getattr(producer, name)(**arguments(getattr(producer, name), parameter, value))
                    if inspect.isawaitable(result):
                        await asyncio.wait_for(result, 30)
                except KafkaError as error:
                    if not is_named(error, parameter):
                        wrong.append((name, parameter, repr(value)[:40], repr(error)))
                except Exception as error:  # noqa: BLE001  whatever else it is, it is none of ours
                    wrong.append((name, parameter, repr(value)[:40], repr(error)))
                if name in LAST:
                    await producer.close(0)
            assert (await (await shared.send("one", b"after all of it"))).partition == 0
            await shared.flush(20)
            assert shared.metrics()["buffer-available-bytes"] == shared.metrics()["buffer-total-bytes"]

    run(scenario, {"auto.create.topics.enable": "false"})
    assert wrong == []


@pytest.mark.parametrize("topic", [Name.ONE, np.str_("one")])
def test_a_topic_may_be_any_str_and_numbers_any_integers(topic: Any) -> None:
    with StoringBroker() as broker, connect(broker, max_block_ms=20_000) as producer:
        future = producer.send(topic, b"v", partition=np.int64(0), timestamp_ms=np.int64(7))
        assert str(future.result(20)) == "one-0@0"
        assert type(future.result(0).topic) is str
