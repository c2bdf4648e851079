"""The transaction coordinator: what handlers and the broker's loop see of transactional ids.

It reads no clock and touches no disk or socket: the time comes with each call, records go through the storage port,
markers through the marker writer. The broker calls `startup` once, and `tick` whenever `next_deadline` has come.
Every transition is in the log before a request sees it; a request is answered in the same call.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.coordinator.coordinator_log import CoordinatorLog
from barnabas.broker.coordinator.loader import FIRST_EPOCH, Loader
from barnabas.broker.faults import OnFault
from barnabas.broker.instant import Instant
from barnabas.broker.transactions.end_transaction import DONE, may_end, may_end_and_bump
from barnabas.broker.transactions.init_producer_id import Identity, check_identity, next_identity
from barnabas.broker.transactions.transaction_coordinator_config import TransactionSettings
from barnabas.broker.transactions.transaction_marker_sender import TransactionMarkerSender
from barnabas.broker.transactions.transaction_metadata import (
    TV_2,
    TopicIndex,
    TransactionMetadata,
    is_epoch_exhausted,
)
from barnabas.broker.transactions.transaction_state import ONGOING, PREPARED
from barnabas.broker.transactions.transaction_state_manager import TransactionStateManager
from barnabas.broker.transactions.transactional_id_expiration import TransactionalIdExpiration
from barnabas.protocol.producer_identity import NO_PRODUCER_ID, ProducerIdAndEpoch

if TYPE_CHECKING:
    from barnabas.broker.coordinator.partition_storage import PartitionStorage
    from barnabas.broker.transactions.marker import MarkerWriter
    from barnabas.config.config import Config

#: Records loaded, markers written or ids swept in one tick: a few milliseconds.
_RECORDS_PER_TICK = 2000
_MARKERS_PER_TICK = 100


class InitializedProducer(NamedTuple):
    """What InitProducerId gives: the producer's identity, and that of the open transaction which it has taken over."""

    identity: ProducerIdAndEpoch
    ongoing: ProducerIdAndEpoch | None


def _say_nothing(warning: str) -> None:
    pass


class TransactionCoordinator:
    """All transactional ids of one broker.

    `next_producer_id` gives an id that was never given before; `warn` is told what went wrong without a client to tell
    it to.
    """

    __slots__ = (
        "_abort_at",
        "_closed",
        "_expiration",
        "_loader",
        "_marker_sender",
        "_next_producer_id",
        "_not_aborted",
        "_now",
        "_settings",
        "_store",
        "_warn",
    )

    def __init__(
        self,
        config: Config,
        storage: PartitionStorage,
        markers: MarkerWriter,
        next_producer_id: Callable[[], int],
        warn: Callable[[str], None] = _say_nothing,
    ):
        self._settings = TransactionSettings(config)
        self._store = TransactionStateManager(CoordinatorLog(storage), warn)
        self._loader = Loader(storage, self._store.replay, self._unload, warn)
        self._marker_sender = TransactionMarkerSender(self._store, markers, warn)
        self._expiration = TransactionalIdExpiration(self._settings, self._store, warn)
        self._next_producer_id = next_producer_id
        self._warn = warn
        #: Partitions in which transactions have timed out and could not be aborted when that was last tried.
        self._not_aborted: set[int] = set()
        self._abort_at = inf
        #: When the last tick was, in monotonic seconds.
        self._now = 0.0
        self._closed = False

    # --- driven by the broker

    def startup(self, at: Instant, *, elected: bool = True) -> None:
        """Serve every partition, or (not `elected`) none before its election.

        Until one is loaded, its ids answer COORDINATOR_LOAD_IN_PROGRESS.
        """
        if elected:
            self._loader.elect_all(FIRST_EPOCH)
        self._expiration.sweep.schedule(at)

    def next_deadline(self) -> float:
        """When `tick` has to be called next, in monotonic seconds; infinity: not before something else happens."""
        if self._closed:
            return inf
        deadline = min(self._abort_at, self._marker_sender.next_deadline(), self._loader.next_deadline())
        return deadline if self._loader.loading else min(deadline, self._expiration.sweep.next_deadline())

    def tick(self, at: Instant) -> None:
        """Do what is due: load, send markers, abort what has timed out, forget ids that have expired."""
        self._now = at.now
        if self._loader.next_deadline() <= at.now:
            for partition in self._loader.step(_RECORDS_PER_TICK, at.now):
                self._send_markers_of(partition)
            self._watch_timeouts(at)
        self._marker_sender.step(_MARKERS_PER_TICK, at)
        if self._abort_at <= at.now:
            self._abort_at = at.now + self._settings.abort_interval_ms / 1000
            self._abort_timed_out(at)
            if not self._store.ongoing:
                self._abort_at = inf
        if not self._loader.loading:
            self._expiration.sweep.step(_RECORDS_PER_TICK, at)

    def close(self) -> None:
        """After this every request is answered with NOT_COORDINATOR."""
        self._closed = True
        self._loader.resign_all()

    def refuse(self, error: errors.KafkaError | None) -> None:
        """Answer every request with an error, until this is called with None."""
        self._loader.refusal = error

    # --- elections

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """Load the ids of a partition of `__transaction_state` that this broker leads from `leader_epoch` on.

        If it led the partition before, markers that are not answered yet are sent again in the new epoch.
        """
        if self._loader.elect(partition, leader_epoch) and self._loader.is_active(partition):
            self._send_markers_of(partition)

    def on_resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """Another broker leads the partition from `leader_epoch` on: forget its ids, send no more of their markers.

        None: the partition is deleted.
        """
        self._loader.resign(partition, leader_epoch)

    def on_log_reopened(self, partition: int) -> None:
        """Load the ids of a partition anew, for its log was offline and may hold what no append has confirmed."""
        self._loader.reload(partition)

    def _unload(self, partition: int) -> None:
        self._marker_sender.remove(self._store.ids_in(partition))
        self._store.forget(partition)

    def _send_markers_of(self, partition: int) -> None:
        for transactional_id in self._store.ids_in(partition):
            if self._store.by_id[transactional_id].state in PREPARED:
                self._send_markers(transactional_id)

    def _send_markers(self, transactional_id: str) -> None:
        """Send the markers of a decided transaction as soon as the decision is committed: it may be lost before."""
        decided = self._store.by_id[transactional_id]

        def committed(problem: errors.KafkaError | None) -> None:
            if isinstance(problem, errors.UnknownServerError):
                raise problem
            if problem is None and self._store.by_id.get(transactional_id) is decided:
                epoch = self._loader.epoch(self._store.partition_of(transactional_id))
                self._marker_sender.add(transactional_id, epoch)

        def tell(problem: errors.KafkaError | None) -> None:
            try:
                committed(problem)
            except Exception as fault:  # noqa: BLE001 - who tells it does so for others, too
                self._failed("a decided transaction", transactional_id, fault, self._now)

        self._store.after_commit(transactional_id, tell)

    def _failed(self, what: str, transactional_id: str, problem: Exception, now: float) -> None:
        """Read an id's partition anew after a fault, which may have left its transaction half changed."""
        self._loader.on_fault(what, problem)
        self._loader.reload_after_fault(self._store.partition_of(transactional_id), now)

    def recover(self, partition: int, now: float) -> None:
        """Read a partition anew after a fault in a request that changes one of its transactions."""
        self._loader.reload_after_fault(partition, now)

    def notify_faults(self, on_fault: OnFault) -> None:
        """Have `on_fault` called with what is raised by faults of this program, and where."""
        self._loader.on_fault = self._marker_sender.on_fault = on_fault

    @property
    def loading(self) -> bool:
        """Whether some ids are not known yet."""
        return self._loader.loading

    def ensure_topic(self, now_ms: int) -> None:
        """Create `__transaction_state` if it does not exist. Raises KafkaError."""
        self._store.ensure_topic(now_ms)

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of `__transaction_state` that holds the id."""
        return self._store.partition_of(transactional_id)

    # --- requests

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Identity | None,
        at: Instant,
        *,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> InitializedProducer:
        """Return the id and epoch for a producer that begins; the one before is shut out, its open transaction aborted.

        With `two_phase` its transactions have no time-out; with `keep_prepared` an open one is not aborted but left to
        the new producer to end (KIP-939).

        Raises ConcurrentTransactionsError as long as that abort, or another completion, is in progress, and
        InvalidTxnTimeoutError, ProducerFencedError, or what `_find` and the log raise.
        """
        self._check_id(transactional_id)
        timeout_ms = self._settings.checked_timeout(timeout_ms, two_phase)
        metadata = self._store.by_id.get(transactional_id)
        if metadata is None:
            self._store.check_room()
            metadata = TransactionMetadata(transactional_id, self._next_producer_id(), timeout_ms, at.now_ms)
        if metadata.state in PREPARED:
            raise errors.ConcurrentTransactionsError
        check_identity(metadata, expected)
        if metadata.state == ONGOING and not keep_prepared:
            self._abort(metadata, at)
            raise errors.ConcurrentTransactionsError
        if metadata.state == ONGOING:
            identity = self._next_epoch(metadata.client_producer_id, metadata.client_producer_epoch)
            self._store.write(metadata.recovered(*identity, timeout_ms, at.now_ms), at)
            return InitializedProducer(identity, ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch))
        following = next_identity(metadata, expected, timeout_ms, self._next_producer_id, at.now_ms)
        self._store.write(following, at)
        return InitializedProducer(ProducerIdAndEpoch(following.producer_id, following.producer_epoch), None)

    def _next_epoch(self, producer_id: int, epoch: int) -> ProducerIdAndEpoch:
        if is_epoch_exhausted(epoch):
            return ProducerIdAndEpoch(self._next_producer_id(), 0)
        return ProducerIdAndEpoch(producer_id, epoch + 1)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: frozenset[TopicIndex],
        at: Instant,
        *,
        version: int,
    ) -> None:
        """Take partitions into the transaction, which begins with the first; `version` is the client's.

        Raises InvalidPidMappingError, ProducerFencedError, ConcurrentTransactionsError, and as `_find`.
        """
        metadata = self._current(transactional_id, producer_id, epoch)
        if metadata.is_recovered:
            raise errors.InvalidTxnStateError(
                f"{transactional_id!r} has a prepared transaction, which has to be ended."
            )
        if metadata.state == ONGOING and partitions <= metadata.partitions:
            return
        self._store.write(metadata.with_partitions(partitions, version, at.now_ms), at)
        self._watch_timeouts(at)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicIndex]
    ) -> frozenset[TopicIndex]:
        """Those of the partitions that are not in the open transaction. Raises as `add_partitions`."""
        return partitions - self._current(transactional_id, producer_id, epoch).partitions

    def end_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        commit: bool,
        at: Instant,
        *,
        version: int,
    ) -> ProducerIdAndEpoch:
        """Decide the open transaction, and what the producer goes on with.

        The decision is in the log when this returns; the markers follow. Raises as `may_end`, and as `_find`.
        """
        metadata = self._known(transactional_id)
        bumps = version >= TV_2
        check = may_end_and_bump if bumps else may_end
        if check(metadata, producer_id, epoch, commit) == DONE:
            return ProducerIdAndEpoch(metadata.client_producer_id, metadata.client_producer_epoch)
        if metadata.is_recovered:
            following = self._next_epoch(producer_id, epoch) if bumps else ProducerIdAndEpoch(producer_id, epoch)
            prepared = metadata.prepared(commit, version, following.producer_id, at.now_ms, following.epoch)
        else:
            exhausted = bumps and is_epoch_exhausted(epoch)
            new_id = self._next_producer_id() if exhausted else NO_PRODUCER_ID
            prepared = metadata.prepared(commit, version, new_id, at.now_ms)
        self._decide(prepared, at)
        completed = prepared.completed(at.now_ms)
        return ProducerIdAndEpoch(completed.producer_id, completed.producer_epoch)

    def all(self) -> list[TransactionMetadata]:
        """Every id's metadata. Raises CoordinatorLoadInProgressError until all are known."""
        if self._closed:
            raise errors.CoordinatorNotAvailableError
        if self._loader.loading:
            raise errors.CoordinatorLoadInProgressError
        return list(self._store.by_id.values())

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """One id's metadata. Raises TransactionalIdNotFoundError, and as `_find`."""
        metadata = self._find(transactional_id)
        if metadata is None:
            raise errors.TransactionalIdNotFoundError
        return metadata

    # --- inside

    def _check_id(self, transactional_id: str) -> None:
        """Raise `InvalidRequestError`, `NotCoordinatorError`, `CoordinatorLoadInProgressError`."""
        if self._closed:
            raise errors.NotCoordinatorError("This broker is shutting down.")
        if not transactional_id:
            raise errors.InvalidRequestError("The transactional id is empty.")
        self._loader.check(self._store.partition_of(transactional_id))

    def _find(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the transaction of an id; raises as `_check_id` does."""
        self._check_id(transactional_id)
        return self._store.by_id.get(transactional_id)

    def _known(self, transactional_id: str) -> TransactionMetadata:
        metadata = self._find(transactional_id)
        if metadata is None:
            raise errors.InvalidPidMappingError(f"The transactional id {transactional_id!r} is not known.")
        return metadata

    def _current(self, transactional_id: str, producer_id: int, epoch: int) -> TransactionMetadata:
        metadata = self._known(transactional_id)
        if metadata.client_producer_id != producer_id:
            raise errors.InvalidPidMappingError(
                f"{transactional_id!r} belongs to producer id {metadata.client_producer_id}, not {producer_id}"
            )
        if metadata.client_producer_epoch != epoch:
            raise errors.ProducerFencedError(
                f"epoch {epoch} of {transactional_id!r} is not the current one, {metadata.client_producer_epoch}"
            )
        if metadata.state in PREPARED:
            raise errors.ConcurrentTransactionsError
        return metadata

    def _decide(self, prepared: TransactionMetadata, at: Instant) -> None:
        self._store.write(prepared, at)
        self._send_markers(prepared.transactional_id)
        # Most transactions are small: then the next one need not wait for a turn of the loop.
        self._marker_sender.step(_MARKERS_PER_TICK, at)

    def _abort(self, metadata: TransactionMetadata, at: Instant) -> None:
        self._decide(metadata.fenced().prepared(False, TV_2, NO_PRODUCER_ID, at.now_ms), at)

    # --- time-outs

    def _watch_timeouts(self, at: Instant) -> None:
        if self._store.ongoing and self._abort_at == inf:
            self._abort_at = at.now + self._settings.abort_interval_ms / 1000

    def _abort_timed_out(self, at: Instant) -> None:
        timed_out = [id for id in self._store.ongoing if self._store.by_id[id].has_timed_out(at.now_ms)]
        failed = set[int]()
        for transactional_id in timed_out:
            partition = self._store.partition_of(transactional_id)
            if not self._loader.is_active(partition):
                # A later record of the partition may have ended it.
                continue
            try:
                self._abort(self._store.by_id[transactional_id], at)
            except errors.KafkaError as error:
                if partition not in failed | self._not_aborted:
                    self._warn(
                        f"The transaction of {transactional_id!r} has timed out and cannot be aborted yet: {error}; "
                        "that is tried again, and so are others of its partition"
                    )
                failed.add(partition)
            except Exception as problem:  # noqa: BLE001 - the others have timed out all the same
                self._failed("aborting a transaction", transactional_id, problem, at.now)
        self._not_aborted = failed
