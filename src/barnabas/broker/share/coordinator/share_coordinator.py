"""The share coordinator: what handlers and the broker's loop see of it.

It reads no clock and touches no disk or socket: the time comes with each call, records go through the storage port.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import translated
from barnabas.broker.coordinator.coordinator_log import CoordinatorLog
from barnabas.broker.coordinator.draft import Draft
from barnabas.broker.coordinator.expiry_sweep import Sweep
from barnabas.broker.coordinator.loader import FIRST_EPOCH, Loader
from barnabas.broker.share.coordinator import share_group_offset as records
from barnabas.broker.share.coordinator.combine_state_batches import combine_state_batches
from barnabas.broker.share.coordinator.share_group_offset import ShareGroupOffset, initialized
from barnabas.broker.share.coordinator.share_state_store import ShareStateStore
from barnabas.broker.share.latencies import Latencies
from barnabas.broker.share.persister import (
    ANY_EPOCH,
    UNINITIALIZED_COUNT,
    UNINITIALIZED_START_OFFSET,
    SharePartitionKey,
    StateSummary,
    StateUpdate,
)

if TYPE_CHECKING:
    from barnabas.broker.coordinator.partition_storage import PartitionStorage, Record
    from barnabas.broker.faults import OnFault
    from barnabas.broker.groups.topic_image import TopicImage
    from barnabas.broker.instant import Instant

#: Records loaded in one tick: a few milliseconds. Partitions looked after in one tick.
_RECORDS_PER_TICK, _PARTITIONS_PER_TICK = 2000, 1
#: Any client can have states made for groups that it invents. So many take some hundred megabytes.
MAX_SHARE_PARTITIONS = 500_000
#: How often records are deleted that are not needed, and share-partitions without writes get a snapshot.
_INTERVAL_MS = 5 * 60 * 1000
_NO_SUMMARY = StateSummary(0, 0, UNINITIALIZED_START_OFFSET, UNINITIALIZED_COUNT)

#: Deletes the records of a partition of the topic before an offset.
Prune = Callable[[int, int], None]


class ShareCoordinator:
    """All share-partitions whose state this broker keeps, in `__share_group_state` behind the port `storage`.

    `updates_per_snapshot` is how many update records come between two snapshots; `prune` deletes records;
    `clock` gives monotonic seconds.
    """

    __slots__ = (
        "_clock",
        "_closed",
        "_image",
        "_loader",
        "_log",
        "_prune",
        "_store",
        "_sweep",
        "_updates_per_snapshot",
        "_warn",
        "writes",
    )

    def __init__(
        self,
        updates_per_snapshot: int,
        storage: PartitionStorage,
        image: TopicImage,
        prune: Prune,
        warn: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        #: How long writes of states took until they were committed.
        self.writes = Latencies()
        self._updates_per_snapshot = updates_per_snapshot
        self._log = CoordinatorLog(storage)
        self._store = ShareStateStore(self._partition_of)
        self._image = image
        self._prune = prune
        self._warn = warn
        self._loader = Loader(storage, self._store.replay, self._store.forget, warn)
        self._sweep = Sweep(_INTERVAL_MS, self._active_partitions, self._look_after)
        self._closed = False

    # --- driven by the broker

    def startup(self, at: Instant, *, elected: bool = True) -> None:
        """Serve every partition, or (not `elected`) none before its election."""
        if elected:
            self._loader.elect_all(FIRST_EPOCH)
        self._sweep.schedule(at)

    def next_deadline(self) -> float:
        """When `tick` has to be called next, in monotonic seconds; infinity: not before something else happens."""
        if self._closed:
            return inf
        if self._loader.loading:
            return self._loader.next_deadline()
        return min(self._loader.next_deadline(), self._sweep.next_deadline())

    def tick(self, at: Instant) -> None:
        """Do a piece of what is due: loading, snapshots of what is not written to, deleting what is not needed."""
        if self._loader.next_deadline() <= at.now:
            self._loader.step(_RECORDS_PER_TICK, at.now)
        elif not self._loader.loading:
            self._sweep.step(_PARTITIONS_PER_TICK, at)

    def close(self) -> None:
        """Serve no partition any more."""
        self._closed = True
        self._loader.resign_all()

    def notify_faults(self, on_fault: OnFault) -> None:
        """Have `on_fault` called with what is raised by faults of this program, and where."""
        self._loader.on_fault = on_fault

    def refuse(self, error: errors.KafkaError | None) -> None:
        """Answer every request with an error, until this is called with None."""
        self._loader.refusal = error

    def recover(self, partition: int, now: float) -> None:
        """Read a partition anew after a fault in a request that changes what is in it."""
        self._loader.reload_after_fault(partition, now)

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """Load a partition of `__share_group_state` that this broker leads from `leader_epoch` on."""
        self._loader.elect(partition, leader_epoch)

    def on_resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """Forget a partition that another broker leads from `leader_epoch` on; None: it is deleted."""
        self._loader.resign(partition, leader_epoch)

    def on_log_reopened(self, partition: int) -> None:
        """Load a partition anew, for its log was offline and may hold what no append has confirmed."""
        self._loader.reload(partition)

    @property
    def loading(self) -> bool:
        """Whether some share-partitions are not known yet."""
        return self._loader.loading

    def __len__(self) -> int:
        return len(self._store.states)

    def count_partitions(self) -> Counter[str]:
        """Count the partitions of the topic that this broker was elected for, by state: loading, active, failed."""
        return Counter(state.lower() for state in self._loader.states.values())

    # --- where share-partitions are

    def partition_for(self, id: str) -> int:
        """Return the partition of `__share_group_state` that holds a share-partition, by its coordinator key."""
        return self._log.partition_of(id)

    def _partition_of(self, key: SharePartitionKey) -> int:
        return self._log.partition_of(key.coordinator_key)

    def ensure_topic(self, now_ms: int) -> None:
        """Create `__share_group_state` if it does not exist. Raises KafkaError."""
        self._log.ensure_topic(now_ms)

    def after_commit(self, keys: Iterable[SharePartitionKey], tell: Callable[[errors.KafkaError | None], None]) -> None:
        """Call `tell` when all that the partitions of these keys have now is committed, or with why it will not be."""
        partitions = list(dict.fromkeys(self._partition_of(key) for key in keys))

        def next_one(problem: errors.KafkaError | None) -> None:
            if problem is not None or not partitions:
                tell(problem)
            else:
                self._log.storage.after_commit(partitions.pop(), next_one)

        next_one(None)

    def _check(self, key: SharePartitionKey) -> None:
        if not key.group_id:
            raise errors.InvalidRequestError("The group id is empty.")
        if key.partition < 0:
            raise errors.InvalidRequestError("The partition id cannot be a negative number.")
        if self._closed:
            raise errors.NotCoordinatorError("This broker is shutting down.")
        self._loader.check(self._partition_of(key))

    def _check_topic(self, key: SharePartitionKey) -> None:
        topic = self._image.topic_by_id(key.topic_id)
        if topic is None or topic.partitions <= key.partition:
            raise errors.UnknownTopicOrPartitionError("There is no such topic, or it has no such partition.")

    def _known(self, key: SharePartitionKey, what: str) -> ShareGroupOffset:
        state = self._store.states.get(key)
        if state is None:
            raise errors.InvalidRequestError(f"{what} operation on uninitialized share partition not allowed.")
        return state

    # --- requests

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, at: Instant) -> None:
        """Begin a share-partition anew; a start offset of -1 leaves where to its group. Raises KafkaError."""
        self._check(key)
        before = self._store.states.get(key)
        if before is not None and ANY_EPOCH != state_epoch < before.state_epoch:
            raise _fenced_state(before, state_epoch)
        self._check_topic(key)
        if before is None and len(self._store.states) >= MAX_SHARE_PARTITIONS:
            raise errors.PolicyViolationError(
                f"The broker keeps the states of {MAX_SHARE_PARTITIONS} share-partitions and takes no more "
                "until groups are deleted."
            )
        state = initialized(before, state_epoch, start_offset, at.now_ms)
        self._commit(key, records.snapshot_record(key, state), state, at)

    def read(self, key: SharePartitionKey, leader_epoch: int, at: Instant) -> ShareGroupOffset:
        """Return the state, and note who leads the partition now. Raises KafkaError."""
        self._check(key)
        state = self._known(key, "Read")
        if ANY_EPOCH != leader_epoch < state.leader_epoch:
            raise _fenced_leader(state, leader_epoch)
        self._check_topic(key)
        if leader_epoch not in (ANY_EPOCH, state.leader_epoch):
            update = StateUpdate(state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count, ())
            self._write(key, state, update, at)
        return state

    def write(self, key: SharePartitionKey, update: StateUpdate, at: Instant) -> None:
        """Store a change. Raises KafkaError."""
        self._check(key)
        state = self._known(key, "Write")
        if ANY_EPOCH != update.leader_epoch < state.leader_epoch:
            raise _fenced_leader(state, update.leader_epoch)
        if ANY_EPOCH != update.state_epoch < state.state_epoch:
            raise _fenced_state(state, update.state_epoch)
        self._check_topic(key)
        # Who leads is noted by reading.
        self._write(key, state, update._replace(leader_epoch=state.leader_epoch), at)
        self.after_commit([key], partial(self._written, self._clock()))

    def _written(self, began: float, problem: errors.KafkaError | None) -> None:
        if problem is None:
            now = self._clock()
            self.writes.record(now - began, now)

    def _write(self, key: SharePartitionKey, state: ShareGroupOffset, update: StateUpdate, at: Instant) -> None:
        update = update._replace(state_batches=combine_state_batches(update.state_batches, update.start_offset))
        after = state.updated(update)
        if state.updates < self._updates_per_snapshot:
            self._commit(key, records.update_record(key, state.snapshot_epoch, update), after, at)
        else:
            after = after.snapshot(at.now_ms)._replace(create_timestamp_ms=at.now_ms)
            self._commit(key, records.snapshot_record(key, after), after, at)

    def delete(self, key: SharePartitionKey, at: Instant) -> None:
        """Forget a share-partition, if there is one. Raises KafkaError."""
        self._check(key)
        self._check_topic(key)
        if key in self._store.states:
            self._commit(key, records.tombstone(key), None, at)

    def read_summary(self, key: SharePartitionKey) -> StateSummary:
        """Return how far a share-partition is; one that is not known has begun nothing. Raises KafkaError."""
        self._check(key)
        self._check_topic(key)
        state = self._store.states.get(key)
        if state is None:
            return _NO_SUMMARY
        return StateSummary(state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count)

    def on_topic_deleted(self, topic_id: bytes, at: Instant) -> None:
        """Forget the share-partitions of a topic that is gone."""
        for key in [key for key in self._store.states if key.topic_id == topic_id]:
            try:
                self._check(key)
                self._commit(key, records.tombstone(key), None, at)
            except errors.KafkaError as problem:
                self._warn(f"The state of {key.coordinator_key} could not be deleted with its topic: {problem}")

    def _commit(self, key: SharePartitionKey, record: Record, state: ShareGroupOffset | None, at: Instant) -> None:
        draft = Draft()
        draft.put(record, partial(self._store.put, key, state))
        try:
            self._log.commit(key.coordinator_key, draft, at)
        except errors.KafkaError as problem:
            raise translated(problem, f"The state of {key.coordinator_key} could not be stored") from problem

    # --- looking after what is stored

    def _active_partitions(self) -> list[str]:
        return [str(number) for number in self._loader.states if self._loader.is_active(number)]

    def _look_after(self, numbers: Sequence[str], at: Instant) -> None:
        for partition in map(int, numbers):
            if not self._loader.is_active(partition):
                continue
            try:
                self._snapshot_cold(self._store.of_partition(partition), at)
                offset = self._store.last_redundant_offset(partition)
                if offset > 0:
                    self._prune(partition, offset)
            except errors.KafkaError as problem:
                self._warn(f"{self._log.storage.name}-{partition} could not be made shorter: {problem}")

    def _snapshot_cold(self, states: Mapping[SharePartitionKey, ShareGroupOffset], at: Instant) -> None:
        """Write snapshots of what has had no write for long, unless that holds for all; end what has no topic."""
        for key in [key for key in states if self._image.topic_by_id(key.topic_id) is None]:
            # The topic went while its states were being loaded.
            self._commit(key, records.tombstone(key), None, at)
        states = {key: state for key, state in states.items() if self._image.topic_by_id(key.topic_id) is not None}
        if all(state.create_timestamp_ms != state.write_timestamp_ms for state in states.values()):
            return
        for key, state in states.items():
            if at.now_ms - state.write_timestamp_ms >= _INTERVAL_MS:
                after = state.snapshot(at.now_ms)
                self._commit(key, records.snapshot_record(key, after), after, at)


def _fenced_leader(state: ShareGroupOffset, epoch: int) -> errors.KafkaError:
    return errors.FencedLeaderEpochError(f"The leader epoch is {state.leader_epoch}, the request has {epoch}.")


def _fenced_state(state: ShareGroupOffset, epoch: int) -> errors.KafkaError:
    return errors.FencedStateEpochError(f"The state epoch is {state.state_epoch}, the request has {epoch}.")
