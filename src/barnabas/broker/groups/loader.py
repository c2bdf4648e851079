"""Reads `__consumer_offsets` back at start, a piece at a time, while requests are already answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from barnabas import errors
from barnabas.broker.groups import coordinator_records as records
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.groups.storage import CoordinatorStorage, StoredRecord

ACTIVE = "Active"
LOADING = "Loading"
FAILED = "Failed"

_CONSUMER_GROUP_METADATA = 3
_CONSUMER_GROUP_RECORDS = frozenset((_CONSUMER_GROUP_METADATA, 4, 5, 6, 7, 8, 16))


class Loader:
    """The state of each partition, and what remains to be read."""

    __slots__ = ("_next_offset", "_queue", "_store", "_touched", "_unknown_types", "_warn", "states")

    def __init__(self, store: GroupStore, warn: Callable[[str], None]):
        self._store = store
        self._warn = warn
        #: Partition → state; a partition that is not listed has nothing to load.
        self.states: dict[int, str] = {}
        self._queue: deque[int] = deque()
        self._next_offset = 0
        #: The groups that records of the partition being read mention.
        self._touched: dict[str, None] = {}
        self._unknown_types: set[int] = set()

    def start(self) -> None:
        """Line up every partition that has records."""
        storage = self._store.storage
        for partition in range(storage.partition_count):
            if _holds_records(storage, partition):
                self.states[partition] = LOADING
                self._queue.append(partition)

    @property
    def loading(self) -> bool:
        """Whether anything remains to be read."""
        return bool(self._queue)

    def check(self, partition: int) -> None:
        """Raises CoordinatorLoadInProgressError, or NotCoordinatorError if the partition could not be read."""
        state = self.states.get(partition, ACTIVE)
        if state == LOADING:
            raise errors.CoordinatorLoadInProgressError()
        if state == FAILED:
            raise errors.NotCoordinatorError(f"__consumer_offsets-{partition} could not be loaded")

    def step(self, budget: int) -> list[str]:
        """Take over about `budget` records; gives the groups of partitions that are complete now."""
        loaded: list[str] = []
        while self._queue and budget > 0:
            partition = self._queue[0]
            try:
                found, next_offset = self._store.storage.read(partition, self._next_offset)
                for record in found:
                    self._replay(record)
            except errors.NotLeaderOrFollowerError:
                # Its log is being recovered.
                return loaded
            except errors.KafkaError as error:
                self._warn(f"Loading __consumer_offsets-{partition} failed at offset {self._next_offset}: {error}")
                self._discard_touched()
                self._finish(FAILED)
                continue
            budget -= max(len(found), 1)
            if next_offset == self._next_offset:
                loaded += [group_id for group_id in self._touched if group_id in self._store.groups]
                self._finish(ACTIVE)
            else:
                self._next_offset = next_offset
        return loaded

    def _finish(self, state: str) -> None:
        self.states[self._queue.popleft()] = state
        self._next_offset = 0
        self._touched = {}

    def _discard_touched(self) -> None:
        # Half of a partition must not pass for its state.
        for group_id in self._touched:
            self._store.remove(group_id)
            self._store.offsets.remove_group(group_id)

    def _replay(self, record: StoredRecord) -> None:
        if record.ends_transaction is not None:
            self._store.offsets.end_transaction(record.producer_id, record.ends_transaction, self._touched)
            return
        record_type = records.record_type(record.key)
        if record_type in (records.OFFSET_COMMIT, records.LEGACY_OFFSET_COMMIT):
            self._replay_offset(record)
        elif record_type == records.GROUP_METADATA:
            self._replay_group(record)
        elif record_type in _CONSUMER_GROUP_RECORDS:
            self._replay_consumer_group(record, record_type)
        elif record_type not in self._unknown_types:
            self._unknown_types.add(record_type)
            self._warn(f"Records of type {record_type} in __consumer_offsets are not understood and ignored")

    def _replay_offset(self, record: StoredRecord) -> None:
        key = records.decode_offset_commit_key(record.key)
        self._touched[key.group] = None
        offsets = self._store.offsets
        if record.value is None:
            offsets.remove(key.group, key.topic, key.partition)
            return
        offset = records.decode_offset_commit_value(record.value, record.offset)
        # Without a group record before it the commit made a simple group.
        self._store.ensure_group(key.group, offset.commit_timestamp_ms)
        if record.producer_id < 0:
            offsets.put(key.group, key.topic, key.partition, offset)
        else:
            offsets.put_pending(record.producer_id, key.group, key.topic, key.partition, offset)

    def _replay_group(self, record: StoredRecord) -> None:
        group_id = records.decode_group_metadata_key(record.key)
        self._touched[group_id] = None
        if record.value is None:
            if self._store.classic(group_id) is not None:
                self._store.remove(group_id)
        else:
            self._store.groups[group_id] = records.decode_group_metadata_value(group_id, record.value)

    def _replay_consumer_group(self, record: StoredRecord, record_type: int) -> None:
        # Most brokers never see one of these: their code is loaded when the first comes.
        from barnabas.broker.groups import consumer_group_records

        key = consumer_group_records.KEYS[record_type].decode(record.key[2:], 0)
        group_id = consumer_group_records.group_id_of(key)
        self._touched[group_id] = None
        group = self._store.consumer(group_id)
        if group is None:
            if record.value is None:
                return
            group = self._store.groups[group_id] = ConsumerGroup(group_id)
        if record_type == _CONSUMER_GROUP_METADATA and record.value is None:
            self._store.remove(group_id)
        else:
            consumer_group_records.replay(group, key, record.value)


def _holds_records(storage: CoordinatorStorage, partition: int) -> bool:
    try:
        return storage.end_offset(partition) > 0
    except errors.KafkaError:
        # Recovering, or damaged: reading it will tell.
        return True
