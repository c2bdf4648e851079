"""Every message of a client begins with its client id."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from barnabas import Broker, Consumer, Producer
from barnabas.network.log_context import client_logger, enter_client

log = client_logger("barnabas.consumer")


def test_messages_name_the_client_at_work(caplog: pytest.LogCaptureFixture) -> None:
    async def work(client: str) -> None:
        enter_client(client)
        await asyncio.sleep(0)
        log.warning("a fetch from node %s failed", 1)

    async def both() -> None:
        await asyncio.gather(work("one"), work("other"))

    asyncio.run(both())

    assert [record.getMessage() for record in caplog.records] == [
        "one: a fetch from node 1 failed",
        "other: a fetch from node 1 failed",
    ]
    assert {record.funcName for record in caplog.records} == {"work"}
    assert {record.name for record in caplog.records} == {"barnabas.consumer"}


def test_clients_that_share_a_thread_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="barnabas")
    with (
        Broker() as broker,
        Producer(bootstrap_servers=broker.bootstrap_servers, client_id="writer") as producer,
        Consumer(bootstrap_servers=broker.bootstrap_servers, client_id="one", group_id="g1") as one,
        Consumer(bootstrap_servers=broker.bootstrap_servers, client_id="other", group_id="g2") as other,
    ):
        producer.send("logged", b"x").result(10)
        for consumer in (one, other):
            consumer.subscribe(["logged"])
        deadline = time.monotonic() + 30
        while not (one.assignment() and other.assignment()) and time.monotonic() < deadline:
            one.poll(0.2)
            other.poll(0.2)

    lines = [record.getMessage() for record in caplog.records if not record.name.startswith("barnabas.config")]
    assert [line for line in lines if not line.startswith(("writer: ", "one: ", "other: "))] == []
    assert [line for line in lines if "Group g1" in line and not line.startswith("one: ")] == []
    assert [line for line in lines if line.startswith("other: Group g2: assigned")]
