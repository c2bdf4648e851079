"""What the benchmarks of brokers that end have in common."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

from barnabas import AdminClient, NewTopic, Producer
from barnabas.errors import KafkaError, TopicExistsError

#: Seconds for which records are sent after the end at least.
_AFTERWARDS = 2.0
_PATIENCE = 90.0
#: Of a producer that shows when a partition is led again, and not how long a request may take.
IMPATIENT = {"request.timeout.ms": 1000}


def longest_gap(producer: Producer, topic: str, end: Callable[[], None]) -> float:
    """Return the longest time between two acknowledgements while `end` runs, and for some seconds."""
    thread = threading.Thread(target=end)
    longest, last = 0.0, time.perf_counter()
    until = last + _AFTERWARDS
    thread.start()
    while thread.is_alive() or time.perf_counter() < until:
        producer.send(topic, b"value").result(_PATIENCE)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


def until_created(admin: AdminClient, topic: str, began: float, timeout: float) -> float:
    """Return how long after `began` a topic was created; each try may take `timeout` seconds."""
    while True:
        try:
            admin.create_topics([NewTopic(topic, 1, 2)], timeout=timeout)
        except TopicExistsError:
            # By a request before this one, whose answer did not come in time.
            return time.perf_counter() - began
        except KafkaError:
            if time.perf_counter() - began > max(_PATIENCE, timeout):
                raise
            time.sleep(0.02)
        else:
            return time.perf_counter() - began


def end_in_order_when_told() -> None:
    """Have SIGTERM and SIGHUP end this process as Ctrl-C does: what it started is stopped, what it made is removed."""

    def end(number: int, frame: object) -> None:
        # Once: what is being put in order must come to its end.
        for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(one, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(one, end)
