"""Producer: flush and close, and what becomes of records that are unsent then."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

from barnabas.errors import IllegalStateError, KafkaTimeoutError
from tests.unit.client.producer.storing_broker import StoringBroker, connect

PRODUCER = "barnabas.client.producer.producer:Producer"


@pytest.mark.shows("S3.40", breaks=f"{PRODUCER}.flush")
def test_flush_sends_what_lingers_and_returns_when_all_of_it_is_done(broker: StoringBroker) -> None:
    with connect(broker, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        futures = [producer.send("one", b"v") for _ in range(10)]
        assert not any(future.done() for future in futures)

        producer.flush(10)

        assert all(future.done() for future in futures)


def test_flush_with_a_timeout_says_what_is_left_and_the_records_go_on(broker: StoringBroker) -> None:
    broker.gate.clear()
    with connect(broker) as producer:
        future = producer.send("one", b"v")
        with pytest.raises(KafkaTimeoutError, match="1 records were not acknowledged within"):
            producer.flush(0.05)
        broker.gate.set()
        assert future.result(10).offset == 0


@pytest.mark.shows("S3.41", breaks=f"{PRODUCER}.close")
def test_a_closed_producer_takes_no_records_and_closing_twice_is_fine(broker: StoringBroker) -> None:
    producer = connect(broker)
    future = producer.send("one", b"v")
    producer.close()
    producer.close()

    assert future.result(0).offset == 0
    with pytest.raises(IllegalStateError, match="closed"):
        producer.send("one", b"v")
    with pytest.raises(IllegalStateError):
        producer.partitions_for("one")


@pytest.mark.parametrize("timeout", [0, 0.1])
def test_close_with_a_timeout_fails_what_is_left_and_never_hangs(
    broker: StoringBroker, timeout: float, caplog: pytest.LogCaptureFixture
) -> None:
    broker.gate.clear()
    seen: list[Any] = []
    producer = connect(broker)
    futures = [producer.send("one", b"v", on_delivery=lambda _, error: seen.append(error)) for _ in range(3)]

    producer.close(timeout)

    assert ["closed before the record was acknowledged" in str(future.exception(0)) for future in futures] == [True] * 3
    assert len(seen) == 3
    assert producer.metrics()["buffer-available-bytes"] == producer.metrics()["buffer-total-bytes"]


def test_closing_from_a_callback_does_not_wait_for_itself(broker: StoringBroker) -> None:
    producer = connect(broker)
    closed = threading.Event()

    def on_delivery(*_: Any) -> None:
        producer.close()
        closed.set()

    producer.send("one", b"v", on_delivery=on_delivery)

    assert closed.wait(10)
    producer.close()


def test_flushing_from_a_callback_is_refused(broker: StoringBroker) -> None:
    seen: list[Any] = []
    with connect(broker) as producer:

        def on_delivery(*_: Any) -> None:
            try:
                producer.flush()
            except IllegalStateError as error:
                seen.append(error)

        producer.send("one", b"v", on_delivery=on_delivery).result(10)

    assert "callback" in str(seen[0])


def test_a_forgotten_producer_warns_and_ends_its_thread(broker: StoringBroker) -> None:
    producer = connect(broker)
    producer.send("one", b"v").result(10)
    thread = producer._thread

    with pytest.warns(ResourceWarning, match="never closed"):
        del producer
    thread.join(10)

    assert not thread.is_alive()


def test_records_that_are_unsent_when_the_process_ends_are_sent(broker: StoringBroker) -> None:
    program = (
        "from barnabas import Producer\n"
        f"producer = Producer(bootstrap_servers='{broker.host}:{broker.port}', linger_ms=9_000)\n"
        "for n in range(100): producer.send('one', b'%d' % n)\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)

    assert len(broker.records) == 100
