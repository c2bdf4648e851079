"""The group coordinator: what handlers and the broker's loop see of groups and committed offsets.

It reads no clock and touches no disk or socket: the time comes with each call, records go through the storage port,
randomness through `random`. The broker calls `startup` once, and `tick` whenever `next_deadline` has come, which
is at once while there is background work: loading, expiry of offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from math import inf
from random import Random
from typing import TYPE_CHECKING, TypeVar, cast

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import coordinator_error_code
from barnabas.broker.coordinator.coordinator_log import CoordinatorLog
from barnabas.broker.coordinator.loader import FIRST_EPOCH, Loader
from barnabas.broker.coordinator.timers import TimerQueue
from barnabas.broker.faults import OnFault
from barnabas.broker.groups.classic.heartbeat import Heartbeat
from barnabas.broker.groups.classic.joining import JoinGroup, Joining, refusal
from barnabas.broker.groups.classic.leaving import LeaveGroup
from barnabas.broker.groups.classic.rebalance import Rebalance
from barnabas.broker.groups.classic.syncing import SyncGroup
from barnabas.broker.groups.classic_group import ClassicGroup
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.group import CONSUMER, STREAMS
from barnabas.broker.groups.group_admin import GroupAdmin
from barnabas.broker.groups.group_coordinator_config import GroupSettings, no_group_configs
from barnabas.broker.groups.group_replay import GroupReplay
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.groups.offsets.offset_expiration import OffsetExpiration
from barnabas.broker.groups.offsets.offset_manager import OffsetManager
from barnabas.broker.groups.offsets.offset_store import OffsetStore
from barnabas.broker.groups.streams.streams_groups import StreamsGroups
from barnabas.broker.instant import Instant
from barnabas.broker.metadata.cluster_metadata import GROUP_METADATA_TOPIC
from barnabas.protocol.messages.heartbeat_response import HeartbeatResponse
from barnabas.protocol.messages.join_group_response import JoinGroupResponse
from barnabas.protocol.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.broker.coordinator.partition_storage import PartitionStorage
    from barnabas.broker.groups.consumer.classic_members import ClassicMembers
    from barnabas.broker.groups.consumer.heartbeat import ConsumerMembership
    from barnabas.broker.groups.group import Group
    from barnabas.broker.groups.group_counts import GroupCounts
    from barnabas.broker.groups.share.offsets import EndOffset
    from barnabas.broker.groups.share.share_groups import ShareGroups
    from barnabas.broker.groups.topic_image import TopicImage
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.share.persister import Persister
    from barnabas.config.config import Config
    from barnabas.protocol.messages.consumer_group_describe_response import DescribedGroup as DescribedConsumerGroup
    from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
    from barnabas.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
    from barnabas.protocol.messages.describe_groups_response import DescribedGroup
    from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
    from barnabas.protocol.messages.join_group_request import JoinGroupRequest
    from barnabas.protocol.messages.leave_group_request import MemberIdentity
    from barnabas.protocol.messages.leave_group_response import MemberResponse
    from barnabas.protocol.messages.list_groups_response import ListedGroup
    from barnabas.protocol.messages.offset_commit_request import OffsetCommitRequest
    from barnabas.protocol.messages.offset_commit_response import OffsetCommitResponse
    from barnabas.protocol.messages.offset_delete_request import OffsetDeleteRequest
    from barnabas.protocol.messages.offset_delete_response import OffsetDeleteResponse
    from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup
    from barnabas.protocol.messages.offset_fetch_response import OffsetFetchResponseGroup
    from barnabas.protocol.messages.sync_group_request import SyncGroupRequest
    from barnabas.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
    from barnabas.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse

#: Records loaded, or groups swept for expired offsets, in one tick: a few milliseconds.
_WORK_PER_TICK = 2000
#: Sessions and waits that end in one tick. A thousand members of a large group may be lost at once.
_TIMERS_PER_TICK = 100


def _say_nothing(warning: str) -> None:
    pass


G = TypeVar("G", bound="Group")


class GroupCoordinator:
    """All groups of one broker, in `__consumer_offsets` behind the port `storage`, on the topics in `image`.

    `warn` is told what went wrong without a client to tell it to; `group_configs` gives what a group has of its own.
    """

    __slots__ = (
        "_admin",
        "_classic_members",
        "_closed",
        "_consumer_membership",
        "_deleted_topics",
        "_expiration",
        "_heartbeats",
        "_image",
        "_joins",
        "_leaves",
        "_loader",
        "_log",
        "_offset_manager",
        "_offsets",
        "_random",
        "_rebalance",
        "_settings",
        "_shares",
        "_store",
        "_syncs",
        "_timers",
        "_warn",
        "streams",
    )

    def __init__(
        self,
        config: Config,
        storage: PartitionStorage,
        image: TopicImage,
        random: Random,
        warn: Callable[[str], None] = _say_nothing,
        group_configs: Callable[[str], Mapping[str, str]] = no_group_configs,
    ):
        self._settings = GroupSettings(config, group_configs)
        self._log = CoordinatorLog(storage)
        self._store = GroupStore(self._log, warn)
        self._offsets = OffsetStore()
        self._timers = TimerQueue()
        self._rebalance = Rebalance(self._settings, self._store, self._timers, warn)
        self._joins = JoinGroup(self._settings, self._store, self._rebalance, random)
        self._syncs = SyncGroup(self._store, self._rebalance)
        self._heartbeats = Heartbeat(self._store, self._rebalance)
        self._leaves = LeaveGroup(self._store, self._rebalance)
        self._image = image
        self._random = random
        self._consumer_membership: ConsumerMembership | None = None
        #: Share groups, where the broker has what they need (`serve_share_groups`).
        self._shares: ShareGroups | None = None
        self.streams = StreamsGroups(self._settings, self._store, self._timers, image)
        self._classic_members: ClassicMembers | None = None
        self._offset_manager = OffsetManager(
            self._settings, self._store, self._offsets, self._rebalance.sessions, image
        )
        self._admin = GroupAdmin(self._store, self._offsets, self._rebalance)
        self._expiration = OffsetExpiration(self._settings, self._store, self._offsets, self._offset_manager, warn)
        replay = GroupReplay(self._store, self._offsets, warn)
        self._loader = Loader(storage, replay.replay, self._unload, warn)
        self._warn = warn
        self._closed = False
        #: Deleted while some groups were still being loaded.
        self._deleted_topics: set[str] = set()

    def groups_of(self, kind: type[G]) -> list[G]:
        """Return the groups of a kind, for those who look on; none while groups are being loaded."""
        groups = () if self._loader.loading else self._store.groups.values()
        return [group for group in groups if isinstance(group, kind)]

    # --- driven by the broker

    def startup(self, at: Instant, *, elected: bool = True) -> None:
        """Serve every partition, or (not `elected`) none before its election.

        Until one is loaded, its groups answer COORDINATOR_LOAD_IN_PROGRESS.
        """
        if elected:
            self._loader.elect_all(FIRST_EPOCH)
        self._expiration.sweep.schedule(at)

    def next_deadline(self) -> float:
        """When `tick` has to be called next, in monotonic seconds; infinity: not before something else happens."""
        if self._closed:
            return inf
        deadline = min(self._timers.next_deadline(), self._loader.next_deadline())
        return deadline if self._loader.loading else min(deadline, self._expiration.sweep.next_deadline())

    def tick(self, at: Instant) -> None:
        """Do what is due: sessions that ended, waits that are over, and a piece of the background work."""
        self._run_timers(at, _TIMERS_PER_TICK)
        if self._loader.next_deadline() <= at.now:
            self._load(at)
        elif not self._loader.loading:
            self._expiration.sweep.step(_WORK_PER_TICK, at)

    def _run_timers(self, at: Instant, budget: int) -> None:
        while budget > 0 and (due := self._timers.pop_due(at.now)) is not None:
            key, action = due
            try:
                action(at)
            except Exception as problem:  # noqa: BLE001 - a fault in one group must not end the others' timers
                kind, group_id = cast("tuple[str, str]", key)[:2]
                self._failed(f"the {kind} timer of a group", group_id, problem, at)
            budget -= 1

    def _failed(self, what: str, group_id: str, problem: Exception, at: Instant) -> None:
        """Read a group's partition anew after a fault, which may have left the group half changed."""
        self._loader.on_fault(what, problem)
        self._loader.reload_after_fault(self._store.partition_of(group_id), at.now)

    def recover(self, partition: int, now: float) -> None:
        """Read a partition anew after a fault in a request that changes one of its groups."""
        self._loader.reload_after_fault(partition, now)

    def notify_faults(self, on_fault: OnFault) -> None:
        """Have `on_fault` called with what is raised by faults of this program, and where."""
        self._loader.on_fault = on_fault

    def close(self) -> None:
        """Answer all parked requests with NOT_COORDINATOR; after that no group answers any more."""
        self._closed = True
        self._loader.resign_all()

    def refuse(self, error: errors.KafkaError | None) -> None:
        """Answer every request with an error, until this is called with None."""
        self._loader.refusal = error

    # --- elections

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """Load the groups of a partition of `__consumer_offsets` that this broker leads from `leader_epoch` on."""
        self._loader.elect(partition, leader_epoch)

    def on_resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """Another broker leads the partition from `leader_epoch` on: answer what is parked, forget its groups.

        None: the partition is deleted.
        """
        self._loader.resign(partition, leader_epoch)

    def on_log_reopened(self, partition: int) -> None:
        """Load the groups of a partition anew, for its log was offline and may hold what no append has confirmed."""
        self._loader.reload(partition)

    def _unload(self, partition: int) -> None:
        for group_id in self._store.group_ids_in(partition):
            group = self._store.groups[group_id]
            try:
                if isinstance(group, ClassicGroup):
                    self._rebalance.unload(group)
                elif isinstance(group, ConsumerGroup):
                    self._consumers().unload(group)
                elif group.TYPE == STREAMS:
                    self.streams.unload(group)
                elif self._shares is not None:
                    self._shares.unload(group)
            except Exception as problem:  # noqa: BLE001 - the others are to be unloaded all the same
                self._loader.on_fault("unloading a group", problem)
            self._store.remove(group_id)
            self._offsets.forget_group(group_id)
        # Offsets may outlive their group for a moment: while a log is read, after the group's tombstone.
        for group_id in self._offsets.group_ids():
            if group_id not in self._store.groups and self._store.partition_of(group_id) == partition:
                self._offsets.forget_group(group_id)

    def _load(self, at: Instant) -> None:
        loaded = [
            group_id
            for partition in self._loader.step(_WORK_PER_TICK, at.now)
            for group_id in self._store.group_ids_in(partition)
        ]
        for group_id in loaded:
            try:
                if group_id in self._store.groups:
                    self._loaded(self._store.groups[group_id], at)
            except Exception as problem:  # noqa: BLE001 - a fault in one group must not end the others' loading
                self._failed("taking up a group", group_id, problem, at)
        if self._deleted_topics:
            self._forget_topics(self._deleted_topics, loaded, at)
            if not self._loader.loading:
                self._deleted_topics.clear()

    def _loaded(self, group: Group, at: Instant) -> None:
        if isinstance(group, ConsumerGroup):
            self._consumers().loaded(group, at)
        elif group.TYPE == STREAMS:
            self.streams.loaded(group, at)
        elif self._shares is not None:
            self._shares.loaded(group, at)
        if not isinstance(group, ClassicGroup):
            return
        for member in group.members.values():
            self._rebalance.sessions.renew(group, member, at)
        if len(group.members) > self._settings.max_size:
            # The limit was lowered: let the members commit, then turn the last ones away.
            self._rebalance.prepare(group, at)

    # --- where groups are

    def partition_for(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that holds the group."""
        return self._store.partition_of(group_id)

    def ensure_topic(self, now_ms: int) -> None:
        """Create `__consumer_offsets` if it does not exist. Raises KafkaError."""
        self._store.ensure_topic(now_ms)

    @property
    def loading(self) -> bool:
        """Whether some groups are not known yet."""
        return self._loader.loading

    def count_groups(self) -> dict[tuple[str, str], int]:
        """Count the groups by protocol (`classic`, `consumer`, `share`) and state."""
        counts: dict[tuple[str, str], int] = {}
        for group in self._store.groups.values():
            kind = group.TYPE.lower(), group.state_name
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    def statistics(self) -> dict[str, int]:
        """Count the groups, in all and by state, and the timers that run, with that of the next expiry of offsets."""
        counts = {"groups": len(self._store.groups), "timers": len(self._timers) + 1}
        for group in self._store.groups.values():
            counts[group.state_name] = counts.get(group.state_name, 0) + 1
        return counts

    def _check(self, group_id: str, may_be_empty: bool = False) -> None:
        if not group_id and not may_be_empty:
            raise errors.InvalidGroupIdError()
        if self._closed:
            raise errors.NotCoordinatorError("This broker is shutting down.")
        self._loader.check(self._store.partition_of(group_id))

    # --- membership

    def join_group(self, context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse | DelayedOperation:
        """Join a group; the answer comes when all members have joined, or with an error."""
        at = context.instant
        joining = Joining(context, request)
        try:
            self._check(request.group_id)
            self._joins.check_session_timeout(joining)
            group = self._living_consumer_group(request.group_id)
            if group is not None:
                self._classics().join(group, joining, at)
            else:
                self._joins.join(request.group_id, joining, at)
        except errors.KafkaError as error:
            joining.operation.complete(refusal(coordinator_error_code(error), request.member_id, context.api_version))
        # group.initial.rebalance.delay.ms=0 means now, not at the next turn of the loop.
        self._run_timers(at, _TIMERS_PER_TICK)
        answer = joining.operation.result
        return joining.operation if answer is None else answer  # type: ignore[return-value]  # completed with its kind

    def sync_group(self, context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse | DelayedOperation:
        """Send (as the leader) and get the assignment; the answer comes when the leader has sent it."""
        at = context.instant
        try:
            self._check(request.group_id)
            group = self._living_consumer_group(request.group_id)
            if group is not None:
                return self._classics().sync(group, request, at)
            return self._syncs.sync(request, at)
        except errors.KafkaError as error:
            return SyncGroupResponse(error_code=coordinator_error_code(error))

    def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        """Keep a member in its group. A group that is being loaded is taken to be as the member says."""
        try:
            self._check(request.group_id)
            at = context.instant
            group = self._living_consumer_group(request.group_id)
            if group is not None:
                return self._classics().heartbeat(group, request, at)
            return self._heartbeats.heartbeat(request, at)
        except errors.CoordinatorLoadInProgressError:
            return HeartbeatResponse()
        except errors.KafkaError as error:
            return HeartbeatResponse(error_code=error.code)

    def leave_group(
        self, context: RequestContext, group_id: str, members: list[MemberIdentity]
    ) -> list[MemberResponse]:
        """Put members out of a group. Raises KafkaError."""
        self._check(group_id)
        at = context.instant
        group = self._living_consumer_group(group_id)
        if group is not None:
            return self._classics().leave(group, members, at)
        return self._leaves.leave(group_id, members, at)

    # --- the consumer protocol

    def _consumers(self) -> ConsumerMembership:
        # Most brokers see no consumer group: its code is loaded when the first comes.
        if self._consumer_membership is None:
            from barnabas.broker.groups.consumer.heartbeat import ConsumerMembership

            self._consumer_membership = ConsumerMembership(
                self._settings, self._store, self._timers, self._image, self._rebalance, self._random
            )
        return self._consumer_membership

    def _classics(self) -> ClassicMembers:
        if self._classic_members is None:
            from barnabas.broker.groups.consumer.classic_members import ClassicMembers

            self._classic_members = ClassicMembers(
                self._settings, self._store, self._timers, self._image, self._consumers()
            )
        return self._classic_members

    def _living_consumer_group(self, group_id: str) -> ConsumerGroup | None:
        # Members of the classic protocol may have an empty consumer group for themselves, but live in one with members.
        group = self._store.consumer(group_id)
        return None if group is None or group.is_empty else group

    def _check_protocol(self) -> None:
        if CONSUMER not in self._settings.rebalance_protocols:
            raise errors.UnsupportedVersionError(
                "The consumer protocol is switched off: group.coordinator.rebalance.protocols does not list it."
            )

    def consumer_group_heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        """Join, live in or leave a consumer group (KIP-848). Raises KafkaError."""
        from barnabas.broker.groups.consumer.heartbeat_validation import check_heartbeat

        self._check_protocol()
        check_heartbeat(request, context.api_version, self._settings)
        self._check(request.group_id)
        return self._consumers().heartbeat(context, request, context.instant)

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """One consumer group, as ConsumerGroupDescribe shows it. Raises KafkaError."""
        self._check_protocol()
        self._check(group_id)
        group = self._store.group(group_id)
        if not isinstance(group, ConsumerGroup):
            raise errors.GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        from barnabas.broker.groups.consumer.description import describe

        return describe(group, self._settings, self._image)

    @property
    def counts(self) -> GroupCounts:
        """What happened to groups since the broker was started."""
        return self._store.counts

    @property
    def committed_offsets(self) -> int:
        """How many offsets are committed, of all groups that are coordinated here."""
        return len(self._offsets)

    # --- share groups

    @property
    def share_rebalances(self) -> int:
        """How many group epochs share groups have begun."""
        return 0 if self._shares is None else self._shares.membership.rebalances

    def serve_share_groups(self, persister: Callable[[], Persister], end_offset: EndOffset) -> None:
        """Serve share groups, whose states `persister` keeps; `end_offset` tells where partitions end for readers."""
        from barnabas.broker.groups.share.share_groups import ShareGroups

        self._shares = ShareGroups(self._settings, self._store, self._timers, self._image, persister, end_offset)

    def share_groups(self, group_id: str) -> ShareGroups:
        """Return what serves a share group that this broker coordinates (KIP-932). Raises KafkaError."""
        self._check(group_id)
        if self._shares is None:
            raise errors.UnsupportedVersionError("Share groups are not served here.")
        return self._shares

    # --- streams groups

    def streams_groups(self, group_id: str) -> StreamsGroups:
        """Return what serves this streams group (KIP-1071). Raises KafkaError where this broker does not."""
        self._check(group_id)
        return self.streams

    # --- offsets

    def commit_offsets(self, context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
        """Commit offsets of partitions that exist, by topic name. Raises KafkaError when none could be."""
        self._check(request.group_id, may_be_empty=True)
        return self._offset_manager.commit(request, context.api_version, context.instant)

    def commit_transactional_offsets(
        self, context: RequestContext, request: TxnOffsetCommitRequest
    ) -> TxnOffsetCommitResponse:
        """Commit offsets of partitions that exist, once the transaction commits. Raises KafkaError when none could be.

        The caller has seen to it that the group's partition is in the transaction.
        """
        from barnabas.broker.groups.offsets.transactional_offsets import commit_transactional_offsets

        self._check(request.group_id)
        at = context.instant
        return commit_transactional_offsets(self._store, self._offsets, self._settings, request, at)

    def check_partition(self, partition: int) -> None:
        """Raise CoordinatorLoadInProgressError or NotCoordinatorError unless the partition's groups are known."""
        if self._closed:
            raise errors.NotCoordinatorError("This broker is shutting down.")
        self._loader.check(partition)

    def complete_transaction(self, partition: int, producer_id: int, committed: bool) -> None:
        """Take over a transaction's marker that is in this partition of `__consumer_offsets`."""
        self._offsets.end_transaction(producer_id, committed, self._store.hashes_to(partition))

    def fetch_offsets(self, request: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
        """Return committed offsets of one group, by topic name."""
        try:
            self._check(request.group_id, may_be_empty=True)
        except errors.KafkaError as error:
            from barnabas.protocol.messages.offset_fetch_response import OffsetFetchResponseGroup

            return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error.code)
        return self._offset_manager.fetch(request, require_stable)

    def delete_offsets(self, context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Delete committed offsets. Raises KafkaError when none could be."""
        self._check(request.group_id)
        return self._offset_manager.delete(request, context.instant)

    def on_topic_deleted(self, topic: str, at: Instant) -> None:
        """Delete what groups committed for a topic that is gone; of groups that are being loaded, once they are.

        Without `__consumer_offsets` there are no groups.
        """
        if topic == GROUP_METADATA_TOPIC:
            self._loader.resign_all()
            self._loader.elect_all(FIRST_EPOCH)
            return
        if self._shares is not None:
            self._shares.on_topic_deleted(topic, at)
        if self._loader.loading:
            self._deleted_topics.add(topic)
        self._forget_topics((topic,), self._offsets.groups_with(topic), at)

    def _forget_topics(self, topics: Container[str], group_ids: Iterable[str], at: Instant) -> None:
        for group_id in group_ids:
            gone = [partition for partition in self._offsets.all_partitions(group_id) if partition[0] in topics]
            try:
                self._offset_manager.remove(group_id, gone, at)
            except errors.KafkaError as error:
                # They stay until they expire; a client that knows topic ids is not given them for another topic.
                self._warn(f"Offsets of group {group_id} for deleted topics could not be removed: {error}")

    # --- administration

    def list_groups(self, states: list[str], types: list[str]) -> list[ListedGroup]:
        """Return the groups that the filters let through. Raises CoordinatorLoadInProgressError until all are known."""
        if self._loader.loading:
            raise errors.CoordinatorLoadInProgressError()
        return self._admin.list(states, types)

    def describe_group(self, group_id: str, version: int) -> DescribedGroup:
        """One group, as DescribeGroups of this version shows it. Raises KafkaError."""
        self._check(group_id, may_be_empty=True)
        return self._admin.describe(group_id, version)

    def delete_group(self, group_id: str, at: Instant) -> None:
        """Delete a group and its offsets. Raises KafkaError."""
        self._check(group_id, may_be_empty=True)
        if self._shares is not None:
            self._shares.check_deletable(group_id)
        self._admin.delete(group_id, at)
