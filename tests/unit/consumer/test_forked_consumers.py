"""A consumer belongs to the process that made it."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from typing import Any

import pytest

from barnabas import Broker, Consumer, Producer
from barnabas.errors import IllegalStateError


def in_child(consumer: Consumer, said: Any) -> None:
    try:
        consumer.poll(0.1)
    except IllegalStateError as error:
        said.put(str(error))
    consumer.close()
    said.put("closed")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_is_refused_and_does_not_disturb_the_parent() -> None:
    context = multiprocessing.get_context("fork")
    said = context.Queue()
    with Broker(num_partitions=1) as broker, Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("t", b"before").result()
        settings = {"group_id": "g", "auto_offset_reset": "earliest", "bootstrap_servers": broker.bootstrap_servers}
        with Consumer("t", **settings) as consumer:
            while not (found := consumer.poll(1.0)):
                pass
            assert [record.value for record in found] == [b"before"]

            with warnings.catch_warnings():
                # Newer Pythons warn of forking beside threads, which is what is tested here.
                warnings.simplefilter("ignore", DeprecationWarning)
                child = context.Process(target=in_child, args=(consumer, said))
                child.start()
            assert "before the process forked" in said.get(timeout=20)
            assert said.get(timeout=20) == "closed"
            child.join(20)
            assert child.exitcode == 0

            producer.send("t", b"after").result()
            while not (found := consumer.poll(1.0)):
                pass
            assert [record.value for record in found] == [b"after"]
            consumer.commit()
