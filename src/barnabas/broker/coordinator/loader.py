"""Which partitions a coordinator serves, and how their records come back into memory (CoordinatorRuntime's contexts).

    not elected → LOADING ⇄ ACTIVE
                          ⇄ FAILED     and from each of them back by `resign`

A partition is read a piece at a time, while the partitions that are ACTIVE already answer requests. ACTIVE becomes
LOADING again by `reload`, FAILED by a later election and, where the disk was to blame, after `RETRY_SECONDS`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf

from barnabas import errors
from barnabas.broker.coordinator.partition_storage import PartitionStorage, StoredRecord
from barnabas.broker.faults import OnFault, fault_text

LOADING = "Loading"
ACTIVE = "Active"
FAILED = "Failed"

#: The leader epoch of a partition that has had one leader.
FIRST_EPOCH = 0
#: How often something is brought in for one read: what opening the log needs, indexes, records.
READS = 3
#: After which time a partition is read again that the disk has kept from being loaded.
RETRY_SECONDS = 5.0


class Loader:
    """The partitions of a coordinator's topic: which of them are elected, in which epoch, and loaded how far.

    `replay(partition, record)` takes over one record, and raises `KafkaError` for one that cannot be read;
    `forget(partition)` drops all that the partition's records said, and what was made of it since.
    """

    __slots__ = (
        "_brought_in",
        "_epochs",
        "_forget",
        "_is_waiting",
        "_next_offset",
        "_queue",
        "_reloaded_at",
        "_replay",
        "_reported",
        "_retry_at",
        "_storage",
        "_unloads",
        "_warn",
        "on_fault",
        "refusal",
        "states",
    )

    def __init__(
        self,
        storage: PartitionStorage,
        replay: Callable[[int, StoredRecord], None],
        forget: Callable[[int], None],
        warn: Callable[[str], None],
    ):
        self._storage = storage
        self._replay = replay
        self._forget = forget
        self._warn = warn
        #: While it is set every check raises it.
        self.refusal: errors.KafkaError | None = None
        #: Gets what is raised by a fault of this program, and where.
        self.on_fault: OnFault = lambda what, problem: warn(fault_text(what, problem))
        #: Partition → when it was last read anew after a fault.
        self._reloaded_at: dict[int, float] = {}
        #: Elected partition → LOADING, ACTIVE or FAILED.
        self.states: dict[int, str] = {}
        #: Elected partition → leader epoch.
        self._epochs: dict[int, int] = {}
        self._queue: deque[int] = deque()
        #: Where to go on in the partition at the head of the queue.
        self._next_offset = 0
        #: Whether the disk is being read for the partition at the head of the queue.
        self._is_waiting = False
        #: The partition and offset from which on something was brought in last, and how often.
        self._brought_in: dict[tuple[int, int], int] = {}
        #: When the partitions that the disk has kept from being loaded are read again, in monotonic seconds.
        self._retry_at = inf
        #: Partitions whose failure was told already.
        self._reported: set[int] = set()
        #: How often a partition was forgotten: what is read meanwhile counts no more.
        self._unloads = 0

    # --- elections

    def elect(self, partition: int, leader_epoch: int) -> bool:
        """Serve the partition from this leader epoch on, once it is loaded; False for an epoch that is not newer.

        A partition that is loading or active stays so: this broker led it in the earlier epoch too. One that could not
        be loaded is tried again.
        """
        if leader_epoch <= self._epochs.get(partition, -1):
            return False
        self._epochs[partition] = leader_epoch
        if self.states.get(partition, FAILED) == FAILED:
            self._load(partition)
        return True

    def elect_all(self, leader_epoch: int) -> None:
        """Serve every partition of the topic."""
        for partition in range(self._storage.partition_count):
            self.elect(partition, leader_epoch)

    def resign(self, partition: int, leader_epoch: int | None = None) -> bool:
        """Serve the partition no more; False if it is not served, or was elected in this epoch or a later one.

        Without a leader epoch (the partition is deleted) it is given up in any case.
        """
        epoch = self._epochs.get(partition)
        if epoch is None or (leader_epoch is not None and leader_epoch <= epoch):
            return False
        self._unload(partition)
        return True

    def resign_all(self) -> None:
        """Serve no partition any more."""
        for partition in list(self._epochs):
            self.resign(partition)

    def reload(self, partition: int) -> None:
        """Forget the partition and read it anew: its log was offline, and may hold what no append has confirmed."""
        epoch = self._epochs.get(partition)
        if epoch is not None:
            try:
                self._unload(partition)
            finally:
                self._epochs[partition] = epoch
                self._load(partition)

    def reload_after_fault(self, partition: int, now: float) -> None:
        """As `reload`, at most once in `RETRY_SECONDS`: until then the partition is not served."""
        if partition not in self._epochs:
            return
        if now - self._reloaded_at.get(partition, -inf) >= RETRY_SECONDS:
            self._reloaded_at[partition] = now
            self.reload(partition)
            return
        epoch = self._epochs[partition]
        try:
            self._unload(partition)
        finally:
            self._epochs[partition], self.states[partition] = epoch, FAILED
            self._retry_at = min(self._retry_at, now + RETRY_SECONDS)

    def _load(self, partition: int) -> None:
        if _holds_records(self._storage, partition):
            self.states[partition] = LOADING
            self._queue.append(partition)
        else:
            self.states[partition] = ACTIVE

    def _unload(self, partition: int) -> None:
        del self._epochs[partition]
        if self.states.pop(partition) == LOADING:
            if self._queue[0] == partition:
                self._next_offset = 0
            self._queue.remove(partition)
        self._unloads += 1
        self._forget(partition)

    def epoch(self, partition: int) -> int:
        """Give the leader epoch in which the partition is served; -1 if it is not."""
        return self._epochs.get(partition, -1)

    def is_active(self, partition: int) -> bool:
        """Whether all of the partition is in memory."""
        return self.states.get(partition) == ACTIVE

    def check(self, partition: int) -> None:
        """Raise `CoordinatorLoadInProgressError`, or `NotCoordinatorError` for a partition that is not served."""
        if self.refusal is not None:
            raise self.refusal
        state = self.states.get(partition)
        if state == ACTIVE:
            return
        if state == LOADING:
            raise errors.CoordinatorLoadInProgressError()
        name = f"{self._storage.name}-{partition}"
        raise errors.NotCoordinatorError(
            f"{name} could not be loaded" if state == FAILED else f"This broker does not lead {name}."
        )

    # --- loading

    @property
    def loading(self) -> bool:
        """Whether anything remains to be read."""
        return bool(self._queue)

    def next_deadline(self) -> float:
        """When `step` has something to do, in monotonic seconds; infinity: not before an election, or the disk."""
        return -inf if self._queue and not self._is_waiting else self._retry_at

    def step(self, budget: int, now: float) -> list[int]:
        """Read about `budget` records; gives the partitions that are complete now."""
        if self._retry_at <= now:
            self._retry()
        complete: list[int] = []
        while self._queue and budget > 0 and not self._is_waiting:
            partition, unloads = self._queue[0], self._unloads
            try:
                if self._waits_for_disk(partition):
                    continue
                found, next_offset = self._storage.read(partition, self._next_offset)
                if unloads != self._unloads:
                    # Reading it has opened its log anew (`reload`).
                    continue
                for record in found:
                    self._replay(partition, record)
            except errors.NotLeaderOrFollowerError:
                # The broker recovers the partition's log first, and it was for that what was brought in.
                self._brought_in.clear()
                return complete
            except errors.KafkaError as error:
                if unloads == self._unloads:
                    self._fail(partition, error, now)
                continue
            except Exception as problem:  # noqa: BLE001 - a fault in one partition must not keep the others
                self.on_fault(f"loading {self._storage.name}-{partition}", problem)
                if unloads == self._unloads:
                    self._fail(partition, errors.UnknownServerError(repr(problem)), now)
                continue
            budget -= max(len(found), 1)
            if next_offset == self._next_offset:
                self._finish(ACTIVE)
                complete.append(partition)
            else:
                self._next_offset = next_offset
        return complete

    def _waits_for_disk(self, partition: int) -> bool:
        """Begin to read beside the loop what is not in the system's cache; whether that is to be waited for."""
        times = 1 + self._brought_in.get((partition, self._next_offset), 0)
        if times > READS:
            # Should the cache have lost it again, the loop waits.
            return False
        self._brought_in = {(partition, self._next_offset): times}
        began, self._is_waiting = False, True
        try:
            began = self._storage.bring_in(partition, self._next_offset, self._go_on)
        finally:
            # Perhaps it is done already.
            self._is_waiting &= began
        return self._is_waiting

    def _go_on(self) -> None:
        self._is_waiting = False

    def _fail(self, partition: int, error: errors.KafkaError, now: float) -> None:
        may_pass = isinstance(error, errors.KafkaStorageError | errors.UnknownServerError)
        if partition not in self._reported:
            self._reported.add(partition)
            name, remedy = f"{self._storage.name}-{partition}", "; that is tried again" if may_pass else ""
            self._warn(f"Loading {name} failed at offset {self._next_offset}: {error}{remedy}")
        # Half of a partition must not pass for its state.
        self._forget(partition)
        self._finish(FAILED)
        if may_pass:
            self._retry_at = min(self._retry_at, now + RETRY_SECONDS)

    def _retry(self) -> None:
        self._retry_at = inf
        for partition, state in list(self.states.items()):
            if state == FAILED:
                self._load(partition)

    def _finish(self, state: str) -> None:
        partition = self._queue.popleft()
        self.states[partition] = state
        self._next_offset = 0
        if state == ACTIVE:
            self._reported.discard(partition)


def _holds_records(storage: PartitionStorage, partition: int) -> bool:
    try:
        return storage.may_hold_records(partition)
    except errors.KafkaError:
        # The log is being recovered, or is damaged: reading it will tell.
        return True
