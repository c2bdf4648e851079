"""The place between requests and logs: finds partitions, appends to them, reads from them.

What the controller decides comes here, too (`apply_delta`): this broker leads a partition, follows, or has it no more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import anatomy, errors
from barnabas.broker.commit_wait import CommitWait, Pending
from barnabas.broker.log.append_origin import CLIENT
from barnabas.broker.log.assigned_logs import AssignedLogs, LogBusyError
from barnabas.broker.log.log_append_info import LogAppendInfo
from barnabas.broker.metadata.cluster_metadata import INTERNAL_TOPICS
from barnabas.broker.metadata.partition_registration import RECOVERED
from barnabas.broker.partition import Partition
from barnabas.broker.replication.awaited_followers import AwaitedFollowers
from barnabas.broker.replication.in_sync_replicas import InSyncReplicas
from barnabas.broker.replication.partition_state import IsrChanges
from barnabas.broker.storage_threads import CountingStorage
from barnabas.broker.stray_logs import StrayLogs
from barnabas.protocol.messages.no_op_record import NoOpRecord
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.batch_header import NO_TIMESTAMP

if TYPE_CHECKING:
    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.log.cold_range import ColdRange
    from barnabas.broker.log.future_log import FutureLog
    from barnabas.broker.log.log_directories import Logs
    from barnabas.broker.log.log_manager import DirectoryState
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata, TopicMetadata
    from barnabas.broker.metadata.partition_registration import PartitionRegistration
    from barnabas.broker.purgatory import Purgatory
    from barnabas.broker.replication.partition_state import AlterPartitionManager, Brokers, PendingPartitionChange
    from barnabas.broker.replication.replica import FollowerFetch
    from barnabas.broker.replication.replica_fetcher import ReplicaFetcher
    from barnabas.broker.replication.replica_fetcher_manager import ReplicaFetchers
    from barnabas.broker.replication.replication_quota import ReplicationQuota
    from barnabas.protocol.buffer import Buffer
    from barnabas.protocol.message import Message


#: In place of an offset in DeleteRecords: everything that can be read.
_HIGH_WATERMARK = -1


class Cluster(NamedTuple):
    """What a member of a cluster has beside its partitions; `max_lag_ms` is `replica.lag.time.max.ms`.

    `is_assigned` tells whether a log that lies in the data directory is of a replica that this broker still has, and
    `has_begun` whether that can be told: before the metadata have this life of the broker they may be older than a log.
    """

    me: int
    brokers: Brokers
    alter_partitions: AlterPartitionManager
    fetchers: ReplicaFetchers
    max_lag_ms: int = 30_000
    is_assigned: Callable[[TopicPartition], bool] = lambda name: True
    has_begun: Callable[[], bool] = lambda: True


class ReplicaManager:
    """All partitions of this broker. A partition's log comes into being when it is first used."""

    def __init__(self, config: BrokerConfig, metadata: ClusterMetadata, logs: Logs, purgatory: Purgatory):
        self._config = config
        self._metadata = metadata
        self._logs = logs
        self._purgatory = purgatory
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._cluster: Cluster | None = None
        #: Those that this broker leads, and where a follower in sync may lack something.
        self._lagging: dict[Partition, None] = {}
        #: How often the ISRs of partitions that this broker leads were changed.
        self.isr_changes = IsrChanges()
        #: Followers whose Fetches are answered at once, so that they may ask for one partition more.
        self.awaited = AwaitedFollowers(purgatory.mark)
        self._flushes = CountingStorage(logs.storage)
        #: `on_ready` tells that `apply_delta` can take roles for which it had to wait.
        self.assigned_logs = AssignedLogs(logs)
        #: Called with the partition of a log that was offline and was opened anew: it may hold what was not confirmed.
        self.on_log_reopened: Callable[[TopicPartition], None] = lambda _name: None
        #: What followers that are not in sync may be sent; None where nothing is throttled.
        self.leader_quota: ReplicationQuota | None = None
        #: Called with the partition whose log lies in another data directory now, and the id of its topic.
        self.on_log_moved: Callable[[TopicPartition, bytes], None] = lambda _name, _topic_id: None
        metadata.on_topics_changed = self._topics_changed
        metadata.on_topic_configured = self._topic_configured

    def partition(self, topic: str, index: int) -> Partition:
        """Return the partition of that name. Raises UnknownTopicOrPartitionError.

        Where a crash has left much to recover, or the controller has not said yet whose it is, NotLeaderOrFollowerError
        is raised until that is done.
        """
        found = self._partitions.get((topic, index))
        return found if found is not None else self._open(self._metadata.topic(topic), index)

    def used_partition(self, topic: str, index: int) -> Partition | None:
        """Return the partition of that name if it was used since the broker started."""
        return self._partitions.get((topic, index))

    def lies_here(self, topic: str, index: int) -> bool:
        """Whether a partition that there is lies with this broker: all of them do where it is alone."""
        name = TopicPartition(topic, index)
        return self._cluster is None or any(found.manager.holds(name) for found in self.directories)

    def partitions(self) -> list[Partition]:
        """Return the partitions that were used since the broker started."""
        return list(self._partitions.values())

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """Return the partition of the topic with that id. Raises UnknownTopicIdError, UnknownTopicOrPartitionError."""
        topic = self._metadata.topic_by_id(topic_id)
        if topic is None:
            raise errors.UnknownTopicIdError("There is no topic with this id.")
        found = self._partitions.get((topic.name, index))
        return found if found is not None else self._open(topic, index)

    def find(self, topic: str | bytes, index: int) -> Partition:
        """Return the partition of a topic, by name or by id. Raises as `partition` and `partition_by_id`."""
        return self.partition_by_id(topic, index) if isinstance(topic, bytes) else self.partition(topic, index)

    def is_open(self, topic: str | bytes, index: int) -> bool:
        """Whether the partition was used since the broker started, so that finding it costs nothing."""
        if isinstance(topic, bytes):
            found = self._metadata.topic_by_id(topic)
            return found is not None and (found.name, index) in self._partitions
        return (topic, index) in self._partitions

    def prepare(self, names: Iterable[tuple[str | bytes, int]], done: Callable[[], None]) -> None:
        """Do beside the loop what opening partitions asks of the disk; `done` is called on the loop."""
        wanted = []
        for name, index in names:
            topic = self._metadata.topic_by_id(name) if isinstance(name, bytes) else self._metadata.topic(name)
            if topic is not None and 0 <= index < topic.partitions and self._cluster is None:
                wanted.append((TopicPartition(topic.name, index), topic.id))
        self._logs.prepare(wanted, done)

    # -- in a cluster ------------------------------------------------------------------------------------------------

    def join(self, cluster: Cluster) -> None:
        """From now on take the roles of partitions from `apply_delta`."""
        self._cluster = cluster
        self._logs.note_replicated(self._is_replicated)

    def _is_replicated(self, name: TopicPartition) -> bool:
        partition = self._partitions.get(name)
        return partition is None or not partition.is_sole_replica

    def apply_delta(
        self,
        changed: Mapping[TopicPartition, tuple[bytes, PartitionRegistration]],
        deleted: Collection[TopicPartition],
        now_ms: int,
    ) -> dict[TopicPartition, errors.KafkaError]:
        """Lead, follow, stop and delete as the controller says; what could not be carried out for its log's sake.

        `changed` has the topic's id and the partition as it is now. A replica that is no longer assigned is deleted.
        A partition whose log is not open yet has LogBusyError until `assigned_logs.on_ready` is called with it.
        """
        cluster = self._cluster
        assert cluster is not None, "a broker joins a cluster first"
        failed: dict[TopicPartition, errors.KafkaError] = {}
        for name in deleted:
            self._stop_replica(name)
        waiting = self._waiting_for_logs(cluster, changed)
        busy = LogBusyError("the log is being opened, or truncated")
        for name, (topic_id, registration) in changed.items():
            if cluster.me not in registration.replicas:
                self._stop_replica(name)
                continue
            if name in waiting:
                failed[name] = busy
                continue
            try:
                self._take_role(cluster, self._replica(name, topic_id), name, registration, now_ms)
            except errors.KafkaError as problem:
                failed[name] = problem
        return failed

    def _waiting_for_logs(
        self, cluster: Cluster, changed: Mapping[TopicPartition, tuple[bytes, PartitionRegistration]]
    ) -> set[TopicPartition]:
        wanted, truncating = [], set()
        for name, (topic_id, registration) in changed.items():
            found = self._partitions.get(name)
            if cluster.me in registration.replicas and (found is None or found.topic_id != topic_id):
                wanted.append((name, topic_id))
            elif found is not None and found.log.is_truncating:
                truncating.add(name)
        if not wanted:
            return truncating
        return truncating | {name for name, _ in wanted} - self.assigned_logs.take_ready(wanted)

    def _take_role(
        self,
        cluster: Cluster,
        partition: Partition,
        name: TopicPartition,
        registration: PartitionRegistration,
        now_ms: int,
    ) -> None:
        fetchers = cluster.fetchers
        if registration.leader == cluster.me:
            fetchers.remove(name)
            in_sync = partition.in_sync
            followed_by = () if in_sync is None else tuple(in_sync.replicas)
            is_sole = len(registration.replicas) == 1 and registration.leader_recovery_state == RECOVERED
            if in_sync is None and not is_sole:
                in_sync = InSyncReplicas(cluster.me, cluster.brokers, cluster.max_lag_ms)
                in_sync.on_lag = partial(self._lagging.setdefault, partition)
            elif is_sole:
                in_sync = None
            if partition.make_leader(cluster.me, registration, in_sync, now_ms):
                self._tell_role(cluster, partition, registration)
                self.awaited.add({*registration.replicas} - {cluster.me, *followed_by})
                self._recover(partition)
        elif partition.make_follower(registration) or registration.leader < 0:
            self._tell_role(cluster, partition, registration)
            fetchers.remove(name)
            if registration.leader >= 0:
                fetchers.add(name, partition.topic_id, registration.leader, partition.leader_epoch, now_ms)

    def _tell_role(self, cluster: Cluster, partition: Partition, registration: PartitionRegistration) -> None:
        if anatomy.active is not None:
            role = "leader" if partition.is_leader else "follower"
            state = role, registration.leader, partition.leader_epoch
            sets = anatomy.ids(registration.isr), anatomy.ids(registration.replicas)
            told = anatomy.events.ReplicaRole(cluster.me, partition.topic, partition.index, *state, *sets)
            anatomy.active.record(told)

    def _recover(self, partition: Partition) -> None:
        """Tell the controller that a leader has recovered which was elected uncleanly."""
        proposal = partition.in_sync.recover() if partition.in_sync is not None else None
        if proposal is not None:
            from logging import getLogger

            getLogger(__name__).warning(
                "%s-%d was given to this broker by an unclean election in epoch %d: "
                "what earlier leaders had from offset %d on is lost",
                *(partition.topic, partition.index, partition.leader_epoch, partition.log.log_end_offset),
            )
            self._propose(partition, proposal)

    def _fetch_again(self, partition: Partition) -> None:
        """Let the fetcher begin anew, for it has given up a partition whose disk failed."""
        cluster = self._cluster
        if cluster is not None and not partition.is_leader and partition.leader_id >= 0:
            name = TopicPartition(partition.topic, partition.index)
            cluster.fetchers.remove(name)
            leader, epoch = partition.leader_id, partition.leader_epoch
            cluster.fetchers.add(name, partition.topic_id, leader, epoch, self._logs.now_ms)

    def _replica(self, name: TopicPartition, topic_id: bytes) -> Partition:
        """Return the partition with its log, made or taken over. A log of another topic of that name is put aside."""
        found = self._partitions.get(name)
        if found is not None and found.topic_id == topic_id:
            return found
        if found is not None:
            self._forget(name, found)
        log = self._logs.get_log(name)
        if log is not None and log.topic_id not in (None, topic_id):
            self._logs.mark_stray(name)
            log = None
        if log is None:
            topic = self._metadata.topic(name.topic)
            log = self._logs.create_log(name, topic_id, topic.configs if topic is not None else None)
        log.on_start_moved = self._start_moved
        found = self._partitions[name] = Partition(name, topic_id, log, self._flushes, self._purgatory.mark)
        found.await_registration()
        found.me = -1 if self._cluster is None else self._cluster.me
        return found

    def _stop_replica(self, name: TopicPartition) -> None:
        if self._cluster is not None:
            self._cluster.fetchers.remove(name)
        partition = self._partitions.get(name)
        if partition is not None:
            self._forget(name, partition)
        self.assigned_logs.forget(name)
        self._logs.delete_log(name)

    def _forget(self, name: TopicPartition, partition: Partition) -> None:
        del self._partitions[name]
        partition.deleted = True
        self._purgatory.mark(partition)
        self._purgatory.mark(partition.log_end)

    def follower_fetched(self, partition: Partition, broker_id: int, fetch: FollowerFetch, now_ms: int) -> None:
        """Take note of how far a follower has come. Raises NotLeaderOrFollowerError."""
        proposal = partition.update_follower_fetch_state(broker_id, fetch, now_ms)
        if proposal is not None:
            self._propose(partition, proposal)

    def shrink_isrs(self, now_ms: int) -> None:
        """Propose to take followers out that have lagged too long; call it every half `replica.lag.time.max.ms`."""
        for partition in list(self._lagging):
            if not partition.may_lag:
                del self._lagging[partition]
                continue
            proposal = partition.unsent_proposal or partition.shrink_isr(now_ms)
            if proposal is not None:
                self._propose(partition, proposal)

    def fetcher_lags(self) -> dict[TopicPartition, int]:
        """Return how many records this broker lacks of each partition that it follows, as far as is known."""
        return {} if self._cluster is None else self._cluster.fetchers.lags()

    @property
    def fetchers(self) -> Mapping[tuple[int, int], ReplicaFetcher]:
        """What copies partitions from others, by leader and number."""
        return {} if self._cluster is None else self._cluster.fetchers.by_leader

    def _propose(self, partition: Partition, proposal: PendingPartitionChange) -> None:
        cluster, in_sync = self._cluster, partition.in_sync
        assert cluster is not None, "only a member of a cluster has followers"
        assert in_sync is not None, "only a leader proposes"

        def done(answer: PartitionRegistration | int, now_ms: int) -> None:
            in_sync.submitted = None
            self.isr_changes.note(proposal, answer)
            is_sent_again = partition.alter_partition_completed(proposal, answer, now_ms)
            in_sync.submitted = proposal
            if is_sent_again:
                self._propose(partition, proposal)
            elif anatomy.active is not None and not isinstance(answer, int):
                told = partition.topic, partition.index, answer.leader_epoch, anatomy.ids(answer.isr)
                anatomy.active.record(anatomy.events.IsrChanged(cluster.me, *told))

        name = TopicPartition(partition.topic, partition.index)
        cluster.alter_partitions.submit(name, partition.topic_id, proposal.sent, done)
        in_sync.submitted = proposal

    # -- appending and reading ---------------------------------------------------------------------------------------

    def append(self, partition: Partition, records: Buffer, now_ms: int, origin: int = CLIENT) -> LogAppendInfo:
        """Append record batches; waiting fetches are told. Raises KafkaError.

        The batches get their offsets in place where the buffer can be written to.
        """
        if origin == CLIENT:
            offset = self.append_plain(partition, memoryview(records), now_ms)
            if offset >= 0:
                log = partition.log
                end, start = log.log_end_offset, log.log_start_offset
                return LogAppendInfo(offset, end - 1, NO_TIMESTAMP, start, end - offset, len(records), False)
        readable = partition.readable
        info = partition.append(records, now_ms, origin)
        if partition.readable != readable:
            self._purgatory.mark(partition)
        return info

    def append_plain(self, partition: Partition, batch: memoryview, now_ms: int) -> int:
        """Append a batch if it is plain (see `log.plain_append`): its first offset, or -1 for one that is not."""
        offset = partition.append_plain(batch, now_ms)
        if offset >= 0 and partition.in_sync is None:
            self._purgatory.mark(partition)
        return offset

    def bring_in(self, ranges: Sequence[ColdRange], done: Callable[[], None]) -> None:
        """Read parts of files into the system's cache, beside the loop; `done` is called on the loop."""
        filesystem = self._logs.filesystem

        def work() -> None:
            for found in ranges:
                filesystem.bring_in(*found)

        self._logs.storage.submit(work, done)

    def wake(self, key: Hashable) -> None:
        """Have what waits under a key tried at the end of the turn."""
        self._purgatory.mark(key)

    @property
    def awaits_commits(self) -> bool:
        """Whether something that is in a log may not be committed: other replicas may lack it, or the disk.

        A log that is offline may hold what its last flush has not brought to the disk.
        """
        return self._cluster is not None or self._flushes.in_flight > 0 or bool(self._logs.offline)

    def when_committed(
        self,
        names: Iterable[TopicPartition],
        answer: Callable[[errors.KafkaError | None], Message],
        deadline: float = inf,
    ) -> Message | CommitWait:
        """Return `answer(None)` when all that partitions have now is committed, or what waits for that.

        `answer` gets an error where this broker ceased to lead one of them before, a flush has failed, or the deadline
        (monotonic seconds) has passed.
        """
        waiting = []
        for name in names:
            partition = self._partitions.get(name)
            if partition is not None and partition.is_leader:
                end = partition.log.log_end_offset
                if not partition.is_committed(end - 1):
                    waiting.append(Pending(partition, end, partition.leaderships))
        if not waiting:
            return answer(None)
        wait = CommitWait(waiting, answer, deadline)
        # Nothing will mark a partition whose log is offline already.
        return wait.failure() or wait

    def has_committed(self, name: TopicPartition) -> bool:
        """Whether all that a partition has now is committed; so it is where another broker leads it."""
        if not self.awaits_commits:
            return True
        partition = self._partitions.get(name)
        if partition is None or not partition.is_leader:
            return True
        return partition.is_committed(partition.log.log_end_offset - 1)

    def after_commit(self, name: TopicPartition, tell: Callable[[errors.KafkaError | None], None]) -> None:
        """Call `tell` when all that a partition has now is committed, or with why that will not be."""

        def answer(problem: errors.KafkaError | None) -> Message:
            tell(problem)
            return NoOpRecord()

        found = self.when_committed((name,), answer)
        if isinstance(found, CommitWait):

            def fail(problem: Exception) -> None:
                self._purgatory.on_fault(found, problem)
                tell(errors.UnknownServerError(f"waiting for the commit of {name} has failed: {problem!r}"))

            self._purgatory.park(found, lambda message: None, fail)

    def delete_records(self, partition: Partition, offset: int) -> int:
        """Make a partition start at an offset (-1: its high watermark); gives its start then.

        Raises InvalidTopicError for an internal topic, PolicyViolationError for a compacted one,
        OffsetOutOfRangeError, KafkaStorageError.
        """
        log = partition.log
        if partition.topic in INTERNAL_TOPICS:
            raise errors.InvalidTopicError(f"Records of the internal topic {partition.topic} cannot be deleted.")
        if log.config.compact and not log.config.delete:
            raise errors.PolicyViolationError(
                f"Records of {log.topic_partition} cannot be deleted: its cleanup.policy is compact."
            )
        wanted = log.high_watermark if offset == _HIGH_WATERMARK else offset
        if wanted < 0:
            raise errors.OffsetOutOfRangeError(f"{log.topic_partition} cannot start at offset {offset}.")
        if log.increment_log_start_offset(wanted, "DeleteRecords was asked for"):
            self._logs.checkpoint_soon()
        return log.log_start_offset

    def _start_moved(self, log: UnifiedLog) -> None:
        """Tell followers and leader of a partition's new start, and answer a fetch that waits before it."""
        name = log.topic_partition
        partition = self._partitions.get(name)
        if partition is not None and partition.log is log:
            self._purgatory.mark(partition)
            if self._cluster is not None:
                self._cluster.fetchers.look_at(name)

    def offline_partitions(self, topic: str) -> Collection[int]:
        """Return the partitions of a topic that cannot be served because of the disk; mostly none."""
        return self._logs.offline.get(topic, ())

    @property
    def offline_count(self) -> int:
        """How many partitions cannot be served because of the disk."""
        return sum(len(partitions) for partitions in self._logs.offline.values())

    @property
    def directories(self) -> list[DirectoryState]:
        """The data directories, in the order of `log.dirs`."""
        return self._logs.directories

    def size(self, topic: str, index: int) -> int:
        """Return the bytes that a partition takes on the disk; 0 as long as it was not used."""
        return self._logs.size(TopicPartition(topic, index))

    def _open(self, topic: TopicMetadata | None, index: int) -> Partition:
        if topic is None or not 0 <= index < topic.partitions:
            raise errors.UnknownTopicOrPartitionError(
                "There is no such topic." if topic is None else f"{topic.name} has no partition {index}."
            )
        if self._cluster is not None:
            raise errors.NotLeaderOrFollowerError(
                f"{topic.name}-{index} is not assigned to this broker as far as is known."
            )
        name = TopicPartition(topic.name, index)
        log = self._logs.get_log(name)
        if log is not None and log.topic_id not in (None, topic.id):
            # Left over from a topic of the same name.
            self._logs.delete_log(name)
            log = None
        if log is None:
            log = self._logs.create_log(name, topic.id, topic.configs)
        log.on_start_moved = self._start_moved
        found = self._partitions[name] = Partition(name, topic.id, log, self._flushes, self._purgatory.mark)
        return found

    def adopt_logs(self, warn: Callable[[str], None]) -> None:
        """From now on look at every log that is opened, whether it belongs to a topic that is there at this moment.

        When all are open, those of deleted topics are gone, and the metadata need not remember these topics.
        """
        self._warn = warn
        # Of a broker by itself: a topic that is made from now on takes over what lies there.
        topics = {topic.name: topic for topic in self._metadata.topics()}
        deleted = self._metadata.deleted_topic_ids()

        def opened(log: UnifiedLog) -> None:
            partition = self._partitions.get(log.topic_partition)
            if partition is not None:
                log.on_start_moved = self._start_moved
                partition.replace_log(log)
                self._fetch_again(partition)
                self.on_log_reopened(log.topic_partition)
            elif self._cluster is None:
                self._check_strays([log], StrayLogs(self._logs, topics.get, deleted, None, warn))
            elif self._cluster.has_begun():
                self._check_strays([log], self._strays(self._cluster))

        self._logs.notify_opened(opened, self._metadata.forget_deleted_topics)
        self._logs.notify_moved(self._log_moved)
        self._logs.note_topics({topic.name: topic.id for topic in self._metadata.topics()}, deleted)
        if not self._logs.unopened:
            self._metadata.forget_deleted_topics()

    def look_for_strays(self) -> None:
        """Look anew at the logs of no replica here: by what was known when they were opened they may have had one."""
        cluster = self._cluster
        assert cluster is not None, "a broker by itself has all"
        logs = [log for log in self._logs if log.topic_partition not in self._partitions]
        self._check_strays(logs, self._strays(cluster))

    def set_aside(self, names: Iterable[TopicPartition]) -> None:
        """Serve replicas no more that were moved away unheard of: their logs are kept as strays."""
        cluster = self._cluster
        assert cluster is not None, "a broker by itself has all"
        logs = []
        for name in names:
            partition = self._partitions.get(name)
            if partition is None or cluster.is_assigned(name):
                continue
            cluster.fetchers.remove(name)
            self._forget(name, partition)
            self.assigned_logs.forget(name)
            logs.append(partition.log)
        self._check_strays(logs, self._strays(cluster))

    def _strays(self, cluster: Cluster) -> StrayLogs:
        return StrayLogs(self._logs, self._metadata.topic, (), cluster.is_assigned, self._warn)

    def _check_strays(self, logs: Sequence[UnifiedLog], strays: StrayLogs) -> None:
        for log in logs:
            try:
                strays.check(log)
            except errors.KafkaStorageError as problem:
                # It is tried again, and no log of that name is made before.
                self._warn(f"{log.directory} is of no replica, and stays: {problem}")

    def _log_moved(self, log: UnifiedLog) -> None:
        partition = self._partitions.get(log.topic_partition)
        if partition is not None:
            log.on_start_moved = self._start_moved
            partition.replace_log(log)
            self.on_log_moved(log.topic_partition, partition.topic_id)

    def move_log(self, name: TopicPartition, directory: str) -> None:
        """Begin to bring a log to another data directory. Raises KafkaError, see `LogDirectories.move`."""
        self._logs.move(name, directory)

    def future_log(self, name: TopicPartition) -> FutureLog | None:
        """Return the copy of a log that is on its way to another data directory."""
        return self._logs.future(name)

    def _topic_configured(self, topic: TopicMetadata) -> None:
        self._logs.update_topic_config(topic.name, topic.configs)

    def _topics_changed(self, deleted: list[TopicMetadata]) -> None:
        for topic in deleted:
            for index in range(topic.partitions):
                self._stop_replica(TopicPartition(topic.name, index))
