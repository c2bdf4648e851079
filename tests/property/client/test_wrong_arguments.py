"""Every public method with every kind of wrong value: an error of ours that names the argument, and no harm done.

Methods and parameters come from their signatures, so that a new one is included by itself.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import barnabas
from barnabas import Consumer, ShareConsumer, TopicPartition, aio
from barnabas.errors import KafkaError
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.scripted_queue import ACCEPTED, ScriptedQueue
from tests.support.virtual_loop import VirtualBroker, VirtualEnvironment, run
from tests.unit.broker.share.configs import set_group

WRONG: tuple[Any, ...] = (
    1.5, -1, 2**70, float("nan"), "x\ud800", b"bytes", object(), [object()], {"x": object()}, {("t", 0): 1.5},
    {TopicPartition("t", 0): (5, b"note")}, [("t", 1.5)], [("t", 2**40)], ("t", -1), ("t", None), [None], ..., int,
)  # fmt: skip
T0 = TopicPartition("t", 0)
ROOT = Path(__file__).parents[3]
#: A right value for each parameter that has no default.
RIGHT: dict[str, Any] = {
    "topics": ["t"], "partitions": [T0], "partition": T0, "offset": 3, "offsets": {T0: 3}, "timestamps": {T0: 5},
    "topic": "t",
}  # fmt: skip
#: They take no argument that could be wrong, end the client, or are for the house.
LEFT_OUT = {"close", "wakeup"}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def methods(client: type) -> Iterator[tuple[str, list[inspect.Parameter]]]:
    for name, method in inspect.getmembers(client, inspect.isfunction):
        parameters = list(inspect.signature(method).parameters.values())[1:]
        if not name.startswith("_") and name not in LEFT_OUT and parameters and "metric" not in name:
            yield name, parameters


def calls(parameters: list[inspect.Parameter]) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Each parameter with each wrong value, the others as they should be."""
    for wrong in parameters:
        for value in WRONG:
            if wrong.name == "timeout" and value == 2**70:
                continue  # it is right, but nobody waits so long
            if wrong.name == "callback" and value is int:
                continue  # it can be called, and what it raises is the application's
            positional: list[Any] = []
            keywords: dict[str, Any] = {}
            for parameter in parameters:
                if parameter is wrong and parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                    positional = [value]
                elif parameter is wrong:
                    keywords[parameter.name] = value
                elif parameter.default is inspect.Parameter.empty and parameter.kind not in (
                    inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD,
                ):  # fmt: skip
                    keywords[parameter.name] = RIGHT.get(parameter.name, "g")
            if any(p.name == "timeout" for p in parameters) and wrong.name != "timeout":
                keywords["timeout"] = 0.2
            yield wrong.name, positional, keywords


#: Where each client is tried; `Broker` takes settings only.
TRIED = {
    "barnabas": {
        "AdminClient": "tests/property/client/admin/test_admin_wrong_values.py", "Consumer": __file__,
        "Producer": "tests/property/client/producer/test_producer_wrong_values.py", "ShareConsumer": __file__,
        "Broker": "tests/contract/broker/test_broker_process.py",
    },
    "barnabas.aio": {
        "AdminClient": "tests/property/client/admin/test_admin_wrong_values.py", "Consumer": __file__,
        "Producer": "tests/property/client/producer/test_producer_wrong_values.py", "ShareConsumer": __file__,
    },
}  # fmt: skip


@pytest.mark.parametrize("room", [barnabas, aio], ids=lambda room: room.__name__)
def test_every_public_client_is_tried_somewhere(room: Any) -> None:
    closed = {name for name in room.__all__ if hasattr(getattr(room, name), "close")}
    assert closed == TRIED[room.__name__].keys(), "a client that a program opens and closes has its values tried"
    for name, file in TRIED[room.__name__].items():
        assert name in (ROOT / file).read_text(encoding="utf-8")


CONSUMER = dict(methods(Consumer))


@pytest.mark.parametrize("name", CONSUMER)
def test_a_wrong_value_does_a_consumer_no_harm(name: str) -> None:
    cluster = ScriptedCluster()
    cluster.append("t", 0, *[b"x"] * 10)
    consumer = cluster.consumer(group_id="g", enable_auto_commit=False, auto_offset_reset="earliest")
    consumer.assign([T0])

    for wrong, positional, keywords in calls(CONSUMER[name]):
        error = refusal(getattr(consumer, name), *positional, **keywords)
        assert not isinstance(error, TypeError) or wrong.rstrip("s") in str(error), (wrong, keywords, error)
        if consumer.subscription():
            consumer.unsubscribe()
        consumer.assign([T0])
        consumer.resume(T0)
        consumer.seek(T0, 4)
        assert next_offset(consumer) == 4, (wrong, positional, keywords)
    consumer.commit({T0: 7}, timeout=5)
    assert cluster.committed[T0][0] == 7


SHARE_CONSUMER = dict(methods(ShareConsumer))


@pytest.mark.parametrize("name", SHARE_CONSUMER)
def test_a_wrong_value_does_a_share_consumer_no_harm(name: str) -> None:
    cluster = ScriptedQueue()
    cluster.append("t", 0, *[b"x"] * 10)
    consumer = cluster.share_consumer("t", group_id="g", share_acknowledgement_mode="explicit")
    records = list(consumer.poll(5))

    for wrong, positional, keywords in calls(SHARE_CONSUMER[name]):
        if "record" in keywords and wrong != "record":
            keywords["record"] = records[0]
        error = refusal(getattr(consumer, name), *positional, **keywords)
        assert not isinstance(error, TypeError) or wrong.rstrip("s") in str(error), (wrong, keywords, error)
        consumer.set_acknowledgement_commit_callback(None)
        consumer.subscribe("t")
    for record in records:
        consumer.acknowledge(record)
    assert list(consumer.commit_sync(timeout=5).values()) == [None]
    assert cluster.states() == {ACCEPTED: 10}


def refusal(call: Callable[..., object], *arguments: Any, **keywords: Any) -> KafkaError | None:
    """The error, which must be one of ours."""
    try:
        call(*arguments, **keywords)
    except KafkaError as error:
        return error
    return None


def next_offset(consumer: Consumer) -> int | None:
    for _ in range(20):
        for record in consumer.poll(0.5):
            return record.offset
    return None


ASYNCHRONOUS = dict(methods(aio.Consumer))


def test_a_wrong_value_does_a_consumer_for_asyncio_no_harm() -> None:
    wrong_outcomes: list[str] = []

    async def scenario(broker: VirtualBroker) -> None:
        broker.create("t")
        broker.append("t", 0, *[b"x"] * 10)
        async with aio.Consumer(
            bootstrap_servers="broker:9092", environment=VirtualEnvironment(broker), group_id="g",
            enable_auto_commit=False, auto_offset_reset="earliest", default_api_timeout_ms=2000,
        ) as consumer:  # fmt: skip
            for name, parameters in ASYNCHRONOUS.items():
                for wrong, positional, keywords in calls(parameters):
                    said = f"{name}(*{positional}, **{keywords})"
                    consumer.assign([T0])
                    try:
                        result = getattr(consumer, name)(*positional, **keywords)
                        if inspect.isawaitable(result):
                            await asyncio.wait_for(result, 60)
                    except KafkaError as error:
                        if isinstance(error, TypeError) and wrong.rstrip("s") not in str(error):
                            wrong_outcomes.append(f"{said} is refused without its name: {error!r}")
                    except Exception as error:  # noqa: BLE001  whatever else it is, it is none of ours
                        wrong_outcomes.append(f"{said} raises {error!r}")
                    if consumer.subscription() or not consumer.assignment():
                        await consumer.unsubscribe()
                    consumer.assign([T0])
                    consumer.resume(T0)
                    consumer.seek(T0, 4)
                    found = [record.offset for record in await consumer.poll(5.0, 1)]
                    if found != [4]:
                        wrong_outcomes.append(f"after {said} the next record is {found}")
            await consumer.commit({T0: 7}, timeout=5)
            committed = (await consumer.committed([T0]))[T0]
            assert committed is not None
            assert committed.offset == 7

    run(scenario)
    assert wrong_outcomes == []


ASYNCHRONOUS_SHARE = dict(methods(aio.ShareConsumer))


def test_a_wrong_value_does_a_share_consumer_for_asyncio_no_harm() -> None:
    wrong_outcomes: list[str] = []

    async def scenario(broker: VirtualBroker) -> None:
        broker.create("t")
        broker.append("t", 0, *[b"x"] * 10)
        set_group(broker, "share.auto.offset.reset", "earliest")
        async with aio.ShareConsumer(
            "t", bootstrap_servers="broker:9092", environment=VirtualEnvironment(broker), group_id="g",
            share_acknowledgement_mode="explicit",
        ) as consumer:  # fmt: skip
            records = list(await consumer.poll(30.0))
            assert len(records) == 10
            for name, parameters in ASYNCHRONOUS_SHARE.items():
                for wrong, positional, keywords in calls(parameters):
                    if "record" in keywords and wrong != "record":
                        keywords["record"] = records[0]
                    said = f"{name}(*{positional}, **{keywords})"
                    try:
                        result = getattr(consumer, name)(*positional, **keywords)
                        if inspect.isawaitable(result):
                            await asyncio.wait_for(result, 60)
                    except KafkaError as error:
                        if isinstance(error, TypeError) and wrong.rstrip("s") not in str(error):
                            wrong_outcomes.append(f"{said} is refused without its name: {error!r}")
                    except Exception as error:  # noqa: BLE001  whatever else it is, it is none of ours
                        wrong_outcomes.append(f"{said} raises {error!r}")
                    consumer.set_acknowledgement_commit_callback(None)
                    consumer.subscribe("t")
            for record in records:
                consumer.acknowledge(record)
            assert list((await consumer.commit_sync(timeout=5)).values()) == [None]

    run(scenario)
    assert wrong_outcomes == []
