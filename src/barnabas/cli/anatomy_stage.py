"""`Stage`: a broker, a producer, a transactional one, a group and tasks of Spark at work in this process, recorded."""

from __future__ import annotations

import logging
import random
import threading
from importlib.util import find_spec
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer, anatomy
from barnabas.anatomy.recorder import Recorder
from barnabas.anatomy.writer import RecordingWriter
from barnabas.serializers import StringSerializer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("barnabas.anatomy")

TOPIC, TABLE = "orders", "totals"
#: Segments that live for seconds, so that rolling, retention and compaction are seen.
_TOPICS = (
    NewTopic(TOPIC, 3, configs={"segment.ms": "3000", "retention.ms": "9000"}),
    NewTopic(TABLE, 1, configs={"cleanup.policy": "compact", "segment.ms": "3000", "min.cleanable.dirty.ratio": "0.1"}),
)
_BROKER = {
    "log.retention.check.interval.ms": 2000,
    "log.cleaner.backoff.ms": 1000,
    "log.segment.delete.delay.ms": 1000,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}
#: Members stay so long, and stay away so long, in seconds; another rebalance is seen each time.
_LIFE, _ABSENCE = 8.0, 3.0


class Stage:
    """What is shown where no recording is given; used in a `with` block, whose end ends everything.

    Raises `KafkaError` when the broker cannot start, `OSError` when the recording cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._recorder = Recorder()
        self._writer = RecordingWriter(path, "a broker, a producer and a group", self._recorder, anatomy.stop)
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._random = random.Random(4711)

    def __enter__(self) -> Self:
        anatomy.start(self._recorder)
        self._writer.start()
        self._broker = Broker(in_process=True, config=_BROKER)
        with AdminClient(bootstrap_servers=self._broker.bootstrap_servers) as admin:
            admin.create_topics(_TOPICS)
        for name, act in {
            "orders": self._produce,
            "payments": self._transact,
            "reader-1": self._read,
            "reader-2": self._come_and_go,
            "spark-task": self._run_tasks,
        }.items():
            thread = threading.Thread(target=self._act, args=(act, name), name=f"stage-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(10)
        self._broker.close()
        self._writer.close()

    def _act(self, act: Callable[[str], None], name: str) -> None:
        try:
            act(name)
        except Exception as error:  # noqa: BLE001 - the others go on
            # The stage ends in the middle of what they do.
            if not self._is_over.is_set():
                log.warning("%s has left the stage: %r", name, error)

    def _connection(self, name: str) -> dict[str, Any]:
        return {"bootstrap_servers": self._broker.bootstrap_servers, "client_id": name}

    def _produce(self, name: str) -> None:
        settings: dict[str, Any] = {"linger_ms": 200, "batch_size": 2048, "key_serializer": StringSerializer()}
        with Producer(**self._connection(name), **settings) as producer:
            while not self._is_over.wait(0.03):
                for _ in range(self._random.randint(1, 4)):
                    # Some have no key: the partitioner sends them where it sent those before, until a batch is full.
                    key = f"customer-{self._random.randint(1, 40)}" if self._random.random() < 0.7 else None
                    producer.send(TOPIC, key=key, value=b"x" * self._random.randint(20, 200))

    def _transact(self, name: str) -> None:
        with Producer(**self._connection(name), transactional_id=name, linger_ms=5) as producer:
            producer.init_transactions()
            while not self._is_over.wait(0.5):
                producer.begin_transaction()
                for _ in range(5):
                    producer.send(TABLE, key=f"total-{self._random.randint(1, 9)}".encode(), value=b"y" * 60)
                if self._random.random() < 0.2:
                    # Records that were not sent yet would leave no trace in the log.
                    producer.flush()
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()

    def _run_tasks(self, name: str) -> None:
        if find_spec("pyarrow") is not None:
            from barnabas.cli.anatomy_tasks import run_tasks

            run_tasks(self._broker.bootstrap_servers, TOPIC, _TOPICS[0].num_partitions, self._is_over)

    def _read(self, name: str) -> None:
        self._consume(name, inf)

    def _come_and_go(self, name: str) -> None:
        while not self._is_over.wait(_ABSENCE):
            self._consume(name, _LIFE)

    def _consume(self, name: str, seconds: float) -> None:
        from time import monotonic

        end = monotonic() + seconds
        settings: dict[str, Any] = {
            "group_id": "shop",
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 1000,
        }
        with Consumer(**self._connection(name), **settings) as consumer:
            consumer.subscribe([TOPIC])
            while not self._is_over.is_set() and monotonic() < end:
                consumer.poll(0.2)
