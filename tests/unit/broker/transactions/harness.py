"""A transaction coordinator on virtual time, with its records and its markers in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

from barnabas import errors
from barnabas.broker.config import BrokerConfig
from barnabas.broker.coordinator.partition_storage import StoredRecord
from barnabas.broker.instant import Instant
from barnabas.broker.transactions.marker import Marker as TransactionMarker
from barnabas.broker.transactions.marker import MarkerAnswer
from barnabas.broker.transactions.transaction_coordinator import TransactionCoordinator
from barnabas.broker.transactions.transaction_log import decode_key, decode_value
from barnabas.broker.transactions.transaction_metadata import TransactionMetadata
from barnabas.broker.transactions.transaction_state import NAMES
from barnabas.protocol.producer_identity import ProducerIdAndEpoch
from tests.unit.broker.coordinator.coordinator_harness import CoordinatorHarness

ID = "id"
T0, T1 = ("t", 0), ("t", 1)
TV_0, TV_2 = 0, 2


class Marker(NamedTuple):
    partition: tuple[str, int]
    producer_id: int
    epoch: int
    commit: bool


class MemoryStorage:
    """`__transaction_state` as lists of records."""

    name = "__transaction_state"

    def __init__(self, partition_count: int = 50) -> None:
        self.partition_count = partition_count
        self.logs: dict[int, list[StoredRecord]] = {}
        #: What the next appends raise.
        self.failure: errors.KafkaError | None = None
        self.read_size = 7

    def ensure(self, now_ms: int) -> None:
        pass

    def append(
        self, partition: int, records: list[tuple[bytes, bytes | None]], now_ms: int, producer: object = None
    ) -> int:
        assert producer is None
        if self.failure is not None:
            raise self.failure
        log = self.logs.setdefault(partition, [])
        base = len(log)
        log.extend(StoredRecord(base + index, key, value) for index, (key, value) in enumerate(list(records)))
        return base

    def read(self, partition: int, offset: int) -> tuple[list[StoredRecord], int]:
        found = self.logs.get(partition, [])[offset : offset + self.read_size]
        return found, offset + len(found)

    def bring_in(self, partition: int, offset: int, done: Callable[[], None]) -> bool:
        return False

    def after_commit(self, partition: int, tell: Callable[[errors.KafkaError | None], None]) -> None:
        tell(None)

    def end_offset(self, partition: int) -> int:
        return len(self.logs.get(partition, []))

    def may_hold_records(self, partition: int) -> bool:
        return bool(self.logs.get(partition))

    @property
    def states(self) -> list[str]:
        """The states of all records, in the order they were written in; with one id there is one partition."""
        found = [record for log in self.logs.values() for record in log]
        return [
            "tombstone"
            if record.value is None
            else NAMES[decode_value(decode_key(record.key) or "", record.value).state]
            for record in found
        ]


class MemoryMarkers:
    """Partitions that take markers, or fail."""

    def __init__(self) -> None:
        self.written: list[Marker] = []
        self.failures: dict[tuple[str, int], errors.KafkaError] = {}

    def write(self, marker: TransactionMarker, at: Instant, answer: MarkerAnswer) -> None:
        if marker.partition in self.failures:
            answer(self.failures[marker.partition])
            return
        self.written.append(Marker(marker.partition, marker.producer_id, marker.producer_epoch, marker.commit))
        answer(None)


class Harness(CoordinatorHarness):
    """Requests to a coordinator at the harness's own time."""

    coordinator: TransactionCoordinator

    def __init__(self, **settings: object) -> None:
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.storage = MemoryStorage()
        self.markers = MemoryMarkers()
        self.producer_ids = itertools.count(1000)
        self.warnings: list[str] = []
        self.start()

    def start(self) -> None:
        self.coordinator = TransactionCoordinator(
            BrokerConfig(self.settings), self.storage, self.markers, self.producer_ids.__next__, self.warnings.append
        )
        self.coordinator.startup(self.at)

    def restart(self, wait_until_loaded: bool = True) -> None:
        """A new coordinator on the same records."""
        super().restart(wait_until_loaded)
        if wait_until_loaded:
            self.advance(0)

    def init(
        self, expected: tuple[int, int] | None = None, *, id: str = ID, timeout_ms: int = 60_000, **how: bool
    ) -> ProducerIdAndEpoch:
        return self.coordinator.init_producer_id(id, timeout_ms, expected, self.at, **how).identity

    def add(self, producer: tuple[int, int], *partitions: tuple[str, int], id: str = ID, version: int = TV_2) -> None:
        self.coordinator.add_partitions(id, *producer, frozenset(partitions), self.at, version=version)

    def end(self, producer: tuple[int, int], *, commit: bool, id: str = ID, version: int = TV_2) -> ProducerIdAndEpoch:
        return self.coordinator.end_transaction(id, *producer, commit, self.at, version=version)

    def metadata(self, id: str = ID) -> TransactionMetadata:
        return self.coordinator.describe(id)

    def state(self, id: str = ID) -> str:
        return NAMES[self.metadata(id).state]
