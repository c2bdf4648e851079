"""Exceptions of signal handlers in a consumer at work, as of Ctrl-C in a notebook or of a test's time limit."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from barnabas import Consumer, Producer, TopicPartition
from tests.support.patience import PATIENCE


class InterruptionError(Exception):
    """What the signal handler raises."""


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="this platform cannot send signals to a thread")
def test_a_signal_handler_that_raises_in_poll_neither_wedges_a_consumer_nor_loses_records(
    bootstrap_servers: str, topic: str
) -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signal handlers run in the main thread only")
    count = 30_000
    with Producer(bootstrap_servers=bootstrap_servers, linger_ms=5) as producer:
        for number in range(count):
            producer.send(topic, str(number).encode(), partition=0)
    settings = {"auto_offset_reset": "earliest", "max_poll_records": 100, "fetch_max_bytes": 20_000}
    with Consumer(bootstrap_servers=bootstrap_servers, **settings) as first:
        # Loads the modules that a poll needs: of an interrupted import Python leaves the file to the collector.
        first.assign([TopicPartition(topic, 0)])
        while not first.poll(1.0):
            pass
    consumer = Consumer(bootstrap_servers=bootstrap_servers, **settings)
    consumer.assign([TopicPartition(topic, 0)])
    is_polling = False
    main, is_over = threading.get_ident(), threading.Event()

    def interrupt(number: int, frame: object) -> None:
        nonlocal is_polling
        if is_polling:
            is_polling = False
            raise InterruptionError

    def send_signals() -> None:
        while not is_over.wait(0.003):
            signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    thread = threading.Thread(target=send_signals)
    seen: set[int] = set()
    interruptions = 0
    deadline = time.monotonic() + PATIENCE
    try:
        thread.start()
        while len(seen) < count and time.monotonic() < deadline:
            try:
                is_polling = True
                records = consumer.poll(0.2)
                is_polling = False
                seen |= {int(record.value) for record in records}
            except InterruptionError:
                interruptions += 1
                if interruptions >= 60:
                    is_over.set()
    finally:
        is_over.set()
        thread.join()
        # Not the default one at once: a signal may still be on its way to a handler, and Python would complain.
        signal.signal(signal.SIGUSR1, lambda number, frame: None)
        time.sleep(0.05)
        signal.signal(signal.SIGUSR1, before)
        consumer.close(5)

    assert interruptions > 10
    assert len(seen) == count
