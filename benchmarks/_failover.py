"""What the benchmarks of brokers that end have in common."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from barnabas import Producer

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
