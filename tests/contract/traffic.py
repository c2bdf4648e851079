"""A producer and a consumer at work while something happens to their brokers."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Any

from barnabas import Consumer, Producer

TOPIC = "numbers"


class Traffic:
    """Numbers on their way from a producer to a consumer, as long as the block lasts.

    Then it is checked that each came once, and those of a partition in their order.
    """

    def __init__(self, settings: dict[str, Any], **consumer_settings: Any) -> None:
        self.producer: Producer[Any, Any] = Producer(settings)
        self.consumer: Consumer[Any, Any] = Consumer(
            TOPIC, {**settings, "group.id": "readers", "auto.offset.reset": "earliest", **consumer_settings}
        )
        self.outcomes: list[Any] = []
        self.read: list[int] = []
        self._by_partition: defaultdict[int, list[int]] = defaultdict(list)
        self.sent = 0
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._read)]
        self._failure: BaseException | None = None

    def _write(self) -> None:
        while not self._is_over.is_set():
            for _ in range(10):
                self.producer.send(TOPIC, b"%d" % self.sent, on_delivery=lambda _, error: self.outcomes.append(error))
                self.sent += 1
            time.sleep(0.02)

    def _read(self) -> None:
        try:
            while self._threads[0].is_alive() or len(self.read) < self.sent:
                for record in self.consumer.poll(0.2):
                    self.read.append(int(record.value))
                    self._by_partition[record.partition].append(self.read[-1])
                if self._is_over.is_set() and time.monotonic() > self._deadline:
                    break
        except Exception as error:  # noqa: BLE001  (raised again by the test's own thread)
            self._failure = error

    def __enter__(self) -> Traffic:
        self.producer.send(TOPIC, b"0", on_delivery=lambda _, error: self.outcomes.append(error)).result(10)
        self.sent = 1
        for thread in self._threads:
            thread.start()
        self.wait_until_read(self.sent)
        return self

    def wait_until_read(self, count: int, timeout: float = 20.0) -> None:
        deadline = time.monotonic() + timeout
        while len(self.read) < count and self._failure is None:
            assert time.monotonic() < deadline, f"{len(self.read)} of {count} were read"
            time.sleep(0.01)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._deadline = time.monotonic() + 30
        self._is_over.set()
        self._threads[0].join()
        if kind is None:
            self.producer.flush(30)
        self._threads[1].join()
        self.producer.close(0 if kind else 5)
        self.consumer.close(1)
        if kind is None:
            if self._failure is not None:
                raise self._failure
            assert self.outcomes == [None] * self.sent
            assert sorted(self.read) == list(range(self.sent))
            assert all(numbers == sorted(numbers) for numbers in self._by_partition.values())
