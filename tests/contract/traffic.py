"""A producer and a consumer at work while something happens to their brokers."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from barnabas import Consumer, Producer
from tests.support.patience import PATIENCE

TOPIC = "numbers"


class Numbers:
    """Sends one number after the other, beginning with 0, until the block ends; then it waits for what is in flight."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer: Producer[Any, Any] = Producer(settings)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        #: The error of each number that was answered, None for those that are in the log.
        self.outcomes: list[Exception | None] = []
        self.sent = 0

    def _write(self) -> None:
        while not self._is_over.wait(0.02):
            for _ in range(10):
                self._producer.send(TOPIC, b"%d" % self.sent, on_delivery=lambda _, error: self.outcomes.append(error))
                self.sent += 1

    @property
    def is_over(self) -> bool:
        """Whether no number follows any more."""
        return self._is_over.is_set() and not self._thread.is_alive()

    def __enter__(self) -> Numbers:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.close(0 if kind else 60)


class Traffic:
    """Numbers on their way from a producer to a consumer, as long as the block lasts.

    Then it is checked that each came once, and those of a partition in their order; with `may_repeat` that each came.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        *,
        producer_settings: Mapping[str, Any] | None = None,
        may_repeat: bool = False,
        **consumer_settings: Any,
    ) -> None:
        self._numbers = Numbers({**settings, **(producer_settings or {})})
        self._may_repeat = may_repeat
        self.consumer: Consumer[Any, Any] = Consumer(
            TOPIC, {**settings, "group.id": "readers", "auto.offset.reset": "earliest", **consumer_settings}
        )
        self.read: list[int] = []
        self._by_partition: defaultdict[int, list[int]] = defaultdict(list)
        self._deadline = float("inf")
        self._reader = threading.Thread(target=self._read)
        self._failure: BaseException | None = None

    @property
    def sent(self) -> int:
        """How many numbers were sent so far."""
        return self._numbers.sent

    @property
    def _is_missing(self) -> bool:
        """Whether numbers that were sent were not read so far."""
        return (len(set(self.read)) if self._may_repeat else len(self.read)) < self.sent

    def _read(self) -> None:
        try:
            while not self._numbers.is_over or self._is_missing:
                for record in self.consumer.poll(0.2):
                    self.read.append(int(record.value))
                    self._by_partition[record.partition].append(self.read[-1])
                if time.monotonic() > self._deadline:
                    break
        except Exception as error:  # noqa: BLE001  (raised again by the test's own thread)
            self._failure = error

    def __enter__(self) -> Traffic:
        self._numbers.__enter__()
        self._reader.start()
        try:
            self.wait_until_read(1)
        except BaseException as error:
            # `with` does not call it then, and the threads would keep the process of the tests from ending.
            self.__exit__(type(error))
            raise
        return self

    def wait_until_read(self, count: int, timeout: float = PATIENCE) -> None:
        deadline = time.monotonic() + timeout
        while len(self.read) < count and self._failure is None:
            assert time.monotonic() < deadline, f"{len(self.read)} of {count} were read"
            time.sleep(0.01)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._numbers.__exit__(kind)
        self._deadline = time.monotonic() + (0 if kind else PATIENCE)
        self._reader.join()
        self.consumer.close(1)
        if kind is None:
            if self._failure is not None:
                raise self._failure
            assert self._numbers.outcomes == [None] * self.sent
            if self._may_repeat:
                assert sorted(set(self.read)) == list(range(self.sent))
                return
            assert sorted(self.read) == list(range(self.sent))
            assert all(numbers == sorted(numbers) for numbers in self._by_partition.values())
