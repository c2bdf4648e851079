"""The controller of the cluster over the quorum's log (QuorumController, KIP-500, KIP-631)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from barnabas import anatomy, errors
from barnabas.broker.controller.bootstrap_metadata import activation_records
from barnabas.broker.controller.broker_heartbeat_manager import BrokerIdAndEpoch
from barnabas.broker.controller.controller_counts import ControllerCounts
from barnabas.broker.controller.controller_managers import ControllerManagers
from barnabas.broker.controller.controller_result import ControllerResult
from barnabas.broker.controller.controller_state import ControllerState, Replayed, replayed
from barnabas.broker.controller.deferred import Deferred, DeferredQueue
from barnabas.broker.controller.feature_control_manager import KRaftVersion
from barnabas.broker.controller.periodic_tasks import PeriodicTask, PeriodicTasks
from barnabas.broker.controller.replication_control_manager import BrokerHeartbeatReply
from barnabas.broker.faults import OnFault, raise_fault
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.broker.metadata.metadata_version import KRAFT_VERSION
from barnabas.broker.metadata.replica_log_end import told
from barnabas.broker.raft.errors import RaftError
from barnabas.protocol.messages.no_op_record import NoOpRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from random import Random

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.controller.bootstrap_metadata import BootstrapMetadata
    from barnabas.broker.controller.controller_managers import ControllerSettings
    from barnabas.broker.controller.controller_result import ControllerRequestContext
    from barnabas.broker.features import FeatureUpdate
    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.raft.offset_and_epoch import LeaderAndEpoch
    from barnabas.broker.raft.raft_client import Batch, RaftClient, SnapshotReader
    from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
    from barnabas.protocol.messages.broker_registration_request import BrokerRegistrationRequest

T = TypeVar("T")

#: So often within a session its end is looked for.
_LOOKS_PER_SESSION = 8
#: So often within the time for it an unclean recovery is tried without a word of a broker.
_LOOKS_PER_RECOVERY = 30


class Committed(NamedTuple):
    """What is committed now: so many bytes of records brought it, the last one appended at that time (in ms)."""

    image: MetadataImage
    byte_count: int
    append_timestamp: int
    is_snapshot: bool = False


class QuorumController:
    """Replays the log, and while this node leads the quorum writes to it; a `Listener` of the RaftClient.

    `clock()` reads both clocks where the quorum calls; `report` is told of what should not happen. A request is an
    operation that gives a `ControllerResult`: `write` appends its records, goes by them at once, and gives the
    response when they are committed.
    """

    def __init__(
        self,
        raft: RaftClient,
        settings: ControllerSettings,
        config: BrokerConfig,
        bootstrap: BootstrapMetadata,
        environment: ControllerEnvironment,
    ) -> None:
        self._raft = raft
        self._settings = settings
        self._bootstrap = bootstrap
        self._clock = environment.clock
        self._report = environment.report
        self._kraft_version = environment.kraft_version
        self.state = ControllerState()
        self.managers = ControllerManagers(self.state, settings, config, environment.random)
        self._claim_epoch: int | None = None
        self._next_write_offset = 0
        self._committed = Replayed()
        #: What each batch that is not committed makes, with the offset of its last record.
        self._uncommitted: deque[tuple[int, Replayed]] = deque()
        self._deferred = DeferredQueue()
        self._deferred.on_fault = self._tolerate
        #: Told of faults of this program that leave the state as it is: the controller goes on.
        self.on_fault: OnFault = raise_fault
        self._tasks = PeriodicTasks(list(self._periodic_tasks()), self._run_task)
        self.on_committed: list[Callable[[Committed, Instant], None]] = []
        self.counts = ControllerCounts()
        #: Called with how long an operation took, in seconds, and when it ended.
        self.on_operation: Callable[[float, float], None] = lambda seconds, now: None
        #: Called when this controller begins or ends to lead.
        self.on_active: Callable[[bool], None] = lambda is_active: None
        raft.register(self)

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether this controller leads."""
        return self._claim_epoch is not None

    @property
    def committed_image(self) -> MetadataImage:
        """What is committed, without a transaction that has not ended: all that readers may be told."""
        return self._committed.stable.image

    @property
    def leader_id(self) -> int | None:
        """The node that leads the quorum, as far as this one knows."""
        return self._raft.leader_and_epoch.leader_id

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version, which the quorum keeps itself."""
        return self._kraft_version()

    @property
    def next_write_offset(self) -> int:
        """The offset that the next record will have; only of use while this controller is active."""
        return self._next_write_offset

    # -- requests ----------------------------------------------------------------------------------------------------

    def write(
        self, operation: Callable[[], ControllerResult[T]], at_end: Callable[[T, int], None] | None = None
    ) -> Deferred[T]:
        """Plan an operation on the newest state, and write what it gives.

        `at_end` is called with the response and the offset of the last record as soon as it is appended. An operation
        without records waits for those that were written before, for it may have read what they made.
        """
        deferred: Deferred[T] = Deferred()
        if self._claim_epoch is None:
            deferred.complete(None, self._not_controller())
            return deferred
        self.counts.operations += 1
        began = self._clock().now
        try:
            result = operation()
            end = self._append(result)
            if at_end is not None:
                at_end(result.response, end)
        except RaftError as problem:
            self._renounce(f"the quorum's log took no records: {problem}")
            deferred.complete(None, self._not_controller())
        except errors.UsageError as problem:
            self._fail(deferred, problem)
        except errors.KafkaError as problem:
            deferred.complete(None, problem)
        except Exception as problem:  # noqa: BLE001  after any error the state in memory may not be trusted any more
            self._fail(deferred, problem)
        else:
            offset = end if result.records else self._deferred.highest_offset
            if offset is None or not self.is_active:
                deferred.complete(result.response)
            else:
                self._deferred.add(offset, deferred, result.response)
        now = self._clock().now
        self.on_operation(now - began, now)
        return deferred

    def register_broker(self, context: ControllerRequestContext, request: BrokerRegistrationRequest) -> Deferred[int]:
        """Register a broker; the response is its epoch, the offset at which its registration is written."""
        cluster = self.managers.cluster

        def operation() -> ControllerResult[int]:
            finalized = {**self.managers.features.finalized, KRAFT_VERSION: self._kraft_version()}
            existing = cluster.check_registration(request, finalized, context)
            life = cluster.previous_life(request, context.api_version)
            cleanup = self.managers.replication.ended(life) if life is not None else []
            return cluster.register_broker(request, existing, cleanup, self._next_write_offset)

        return self.write(operation)

    def process_heartbeat(
        self, context: ControllerRequestContext, request: BrokerHeartbeatRequest
    ) -> Deferred[BrokerHeartbeatReply]:
        """Take a heartbeat, and note that the broker was heard of, also if the request is refused."""
        if not self.is_active:
            return self.write(lambda: ControllerResult((), BrokerHeartbeatReply(False, True, False, False)))
        heartbeats = self.managers.cluster.heartbeats
        whose = BrokerIdAndEpoch(request.broker_id, request.broker_epoch)
        heartbeats.track(whose, context.now.now, context.connection)
        has_news = self.managers.recovery.take_in(whose, told(request), context.now.now)

        def operation() -> ControllerResult[BrokerHeartbeatReply]:
            offset = self.state.replayed.registration_offsets.get(request.broker_id)
            if offset is None:
                raise errors.StaleBrokerEpochError(
                    f"Receive a heartbeat from broker {request.broker_id} before registration"
                )
            return self.managers.replication.process_heartbeat(request, offset)

        def at_end(reply: BrokerHeartbeatReply, end: int) -> None:
            if reply.in_controlled_shutdown:
                heartbeats.begin_controlled_shutdown(request.broker_id, end)
            if reply.should_shut_down:
                # It says nothing more, so its next life need not wait for the end of its session.
                heartbeats.end_session(whose)

        reply = self.write(operation, at_end)
        if has_news:
            self.write(lambda: self.managers.replication.recover_unclean(context.now.now))
        return reply

    def fence_ended(self, whose: BrokerIdAndEpoch) -> None:
        """Give up a life of a broker whose process has ended, as if its session had expired."""
        self.write(lambda: self.managers.replication.fence_ended(whose))

    def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool) -> Deferred[None]:
        """Finalize other levels of features, all or none."""
        features, kraft_version = (
            self.managers.features,
            KRaftVersion(self._kraft_version(), self._upgrade_kraft_version),
        )
        return self.write(lambda: features.update_features(updates, kraft_version, validate_only=validate_only))

    def _upgrade_kraft_version(self, level: int, *, validate_only: bool) -> None:
        assert self._claim_epoch is not None, "operations run on an active controller only"
        self._raft.upgrade_kraft_version(self._claim_epoch, level, validate_only=validate_only)

    def _fail(self, deferred: Deferred[T], problem: Exception) -> None:
        """Give up the leadership: what is in memory may not be trusted any more, the log may."""
        self.counts.metadata_errors += 1
        self._renounce(f"an operation failed unexpectedly: {type(problem).__name__}: {problem}")
        deferred.complete(None, errors.UnknownServerError(f"{type(problem).__name__}: {problem}"))

    def _not_controller(self) -> errors.NotControllerError:
        leader = self._raft.leader_and_epoch.leader_id
        who = "no controller is active" if leader is None or leader == self._settings.node_id else f"it is {leader}"
        return errors.NotControllerError(f"Node {self._settings.node_id} is not the active controller; {who}.")

    def _append(self, result: ControllerResult[T]) -> int:
        """Append records in batches, going by each at once; gives the offset of the last one that was ever written."""
        records, most = list(result.records), self._settings.max_records_per_batch
        if result.is_atomic and len(records) > most:
            raise errors.IllegalStateError(f"{len(records)} records are to be one batch, which has {most} at most")
        for start in range(0, len(records), most):
            self._append_batch(records[start : start + most])
        return self._next_write_offset - 1

    def _append_batch(self, records: Sequence[ApiMessageAndVersion]) -> None:
        epoch = self._claim_epoch
        if epoch is None:
            raise errors.IllegalStateError("only an active controller writes records")
        last_offset = self._raft.prepare_append(epoch, records)
        messages = [record for record, _ in records]
        # Replayed before it is written: what does not fit to the state must not reach the log.
        new = replayed(self.state.replayed, messages, last_offset - len(records) + 1, epoch)
        self._raft.schedule_prepared_append()
        self.counts.take_in(self.state.image, messages)
        self.state.go_to(new, messages)
        self.managers.cluster.follow(messages)
        self._uncommitted.append((last_offset, new))
        self._next_write_offset = last_offset + 1

    # -- the clock ---------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When `tick` has something to do."""
        return self._tasks.next_deadline()

    def tick(self, now: Instant) -> None:
        """Do what is due."""
        self._tasks.tick(now)

    def _periodic_tasks(self) -> Iterator[PeriodicTask]:
        settings = self._settings
        if settings.max_idle_interval is not None:
            no_op = ControllerResult([ApiMessageAndVersion(NoOpRecord())], False)
            yield PeriodicTask("writeNoOpRecord", lambda now: no_op, settings.max_idle_interval)
        yield PeriodicTask(
            "maybeFenceStaleBroker",
            self._fence_one_stale,
            settings.session_timeout / _LOOKS_PER_SESSION,
        )
        if settings.leader_imbalance_check_interval is not None:
            yield PeriodicTask(
                "electPreferred",
                lambda now: self.managers.replication.balance_leaders(),
                settings.leader_imbalance_check_interval,
            )
        yield PeriodicTask(
            "electUnclean",
            lambda now: self.managers.replication.elect_unclean_leaders(),
            settings.unclean_election_check_interval,
        )
        yield PeriodicTask(
            "recoverUnclean",
            lambda now: self.managers.replication.recover_unclean(now.now),
            settings.unclean_recovery_timeout / _LOOKS_PER_RECOVERY,
        )
        yield PeriodicTask(
            "expireDelegationTokens",
            lambda now: self.managers.tokens.sweep_expired(now.now_ms),
            settings.token_check_interval,
        )

    def _fence_one_stale(self, now: Instant) -> ControllerResult[bool]:
        found = self.managers.replication.fence_one_stale(now.now)
        self.counts.timed_out_heartbeats += found.response
        return found

    def _run_task(self, task: PeriodicTask, now: Instant) -> bool | None:
        responses: list[bool] = []
        self.write(lambda: task.run(now), lambda response, _: responses.append(response))
        return responses[0] if responses else None

    # -- the quorum's log --------------------------------------------------------------------------------------------

    def handle_commit(self, batches: Iterable[Batch]) -> None:
        """See `Listener`: an active controller went by its records already, and now gives the responses."""
        byte_count = timestamp = 0
        for batch in batches:
            if not batch.values:
                continue
            byte_count += sum(map(len, batch.values))
            timestamp = batch.append_timestamp
            if self.is_active and not self._has_written(batch):
                self._deactivate()  # another leads, and its batches come before the news of it
            if self.is_active:
                while self._uncommitted and self._uncommitted[0][0] <= batch.last_offset:
                    _, self._committed = self._uncommitted.popleft()
            else:
                messages = list(batch.records())
                self._committed = replayed(self._committed, messages, batch.base_offset, batch.epoch)
                self.state.restart(self._committed, is_active=False)
        self._deferred.complete_up_to(self.committed_image.offset)
        if byte_count:
            self._publish(Committed(self.committed_image, byte_count, timestamp))

    def _has_written(self, batch: Batch) -> bool:
        wanted = batch.last_offset, batch.epoch
        return any((offset, made.image.epoch) == wanted for offset, made in self._uncommitted)

    def _publish(self, committed: Committed) -> None:
        now = self._clock()
        for listener in self.on_committed:
            try:
                listener(committed, now)
            except Exception as fault:  # noqa: BLE001 - what is committed is right all the same
                self._tolerate("publishing the metadata", fault)

    def _tolerate(self, what: str, fault: Exception) -> None:
        self.counts.metadata_errors += 1
        self.on_fault(what, fault)

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        """See `Listener`. Raises `IllegalStateError` on an active controller: it knows more than any snapshot."""
        if self.is_active:
            raise errors.IllegalStateError(
                f"a snapshot up to {reader.snapshot_id} is to be loaded by the active controller of epoch "
                f"{self._claim_epoch}"
            )
        self.counts.loaded_snapshots += 1
        last, epoch = reader.snapshot_id.offset - 1, reader.snapshot_id.epoch
        loaded = replayed(Replayed(), (), last + 1, epoch)
        for batch in reader.batches():
            messages = list(batch.records())
            loaded = replayed(loaded, messages, last - len(messages) + 1, epoch)
        self._committed = loaded._replace(registration_offsets=dict.fromkeys(loaded.image.brokers, last))
        self.state.restart(self._committed, is_active=False)
        timestamp = reader.last_contained_log_timestamp
        self._publish(Committed(self.committed_image, 0, timestamp, is_snapshot=True))

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """See `Listener`: begin or end to be the active controller."""
        self.counts.new_active_controllers += leader.leader_id is not None
        is_leader = leader.is_leader(self._settings.node_id)
        if self.is_active and is_leader:
            self._claim_epoch = leader.epoch
        elif self.is_active:
            self._deactivate()
        elif is_leader:
            self._claim(leader.epoch)

    def begin_shutdown(self) -> None:
        """See `Listener`."""
        if self.is_active:
            self._deactivate()

    def _claim(self, epoch: int) -> None:
        now = self._clock()
        self._claim_epoch = epoch
        if anatomy.active is not None:
            me = self._settings.node_id
            anatomy.active.record(anatomy.events.ControllerChanged(me, me, epoch))
        self._next_write_offset = self._raft.log_end_offset
        self.state.restart(self._committed, is_active=True)
        self.managers.cluster.activate(now.now)
        self.managers.recovery.restart(now.now)
        self.write(
            lambda: activation_records(
                self.state.replayed, self._bootstrap, self.managers.schema.static_min_insync_replicas()
            )
        )
        if self.is_active:
            self._tasks.activate(now.now)
            self.on_active(True)

    def _renounce(self, reason: str) -> None:
        """Give up the leadership by ourselves."""
        epoch = self._claim_epoch
        if epoch is None:
            return
        self._report(f"controller {self._settings.node_id} gives up the leadership of epoch {epoch}: {reason}")
        self._deactivate()
        self._raft.resign(epoch)

    def _deactivate(self) -> None:
        """Drop what is not committed: the next leader decides what of it stays, and then it comes by the log."""
        self._claim_epoch = None
        self.on_active(False)
        self._uncommitted.clear()
        self.state.restart(self._committed, is_active=False)
        self.managers.cluster.deactivate()
        self._tasks.deactivate()
        self._deferred.fail_all(self._not_controller())


class ControllerEnvironment:
    """Time, chance, who is told of faults, and the level of kraft.version, which the quorum keeps."""

    __slots__ = ("clock", "kraft_version", "random", "report")

    def __init__(
        self,
        clock: Callable[[], Instant],
        random: Random,
        report: Callable[[str], None],
        kraft_version: Callable[[], int] = lambda: 1,
    ) -> None:
        self.clock = clock
        self.random = random
        self.report = report
        self.kraft_version = kraft_version
