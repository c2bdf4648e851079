"""OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.draft import Draft
from barnabas.broker.groups.classic.sessions import Sessions
from barnabas.broker.groups.classic_group import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE, ClassicGroup
from barnabas.broker.groups.consumer_group import ConsumerGroup, stale
from barnabas.broker.groups.coordinator_records import offset_commit_record, offset_commit_tombstone
from barnabas.broker.groups.group import Group
from barnabas.broker.groups.group_coordinator_config import GroupSettings
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.groups.offsets.offset_and_metadata import OffsetAndMetadata
from barnabas.broker.groups.offsets.offset_store import OffsetStore
from barnabas.broker.groups.streams_group import StreamsGroup
from barnabas.broker.groups.topic_image import TopicImage
from barnabas.broker.instant import Instant
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.protocol.messages.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from barnabas.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestPartition
    from barnabas.protocol.messages.offset_delete_request import OffsetDeleteRequest
    from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup

_DEFAULT_RETENTION = -1
#: From this version of OffsetCommit on an unknown group is GROUP_ID_NOT_FOUND (KIP-848).
_GROUP_ID_NOT_FOUND_FROM = 9
#: From this version on a commit can say in which epoch its member is.
_MEMBER_EPOCHS_FROM = 9
_METADATA_TOO_LARGE = errors.OffsetMetadataTooLargeError.code
_SUBSCRIBED = errors.GroupSubscribedToTopicError.code
_UNSTABLE = errors.UnstableOffsetCommitError.code

#: What a commit puts into the log, and where it belongs in memory.
_Commit = tuple[str, int, OffsetAndMetadata]


class OffsetManager:
    """What requests do with committed offsets."""

    __slots__ = ("_image", "_offsets", "_sessions", "_settings", "_store")

    def __init__(
        self,
        settings: GroupSettings,
        store: GroupStore,
        offsets: OffsetStore,
        sessions: Sessions,
        image: TopicImage,
    ):
        self._image = image
        self._settings = settings
        self._store = store
        self._offsets = offsets
        self._sessions = sessions

    # --- commit

    def commit(self, request: OffsetCommitRequest, version: int, at: Instant) -> OffsetCommitResponse:
        """Commit after the records are in the log; partitions with too much metadata are refused one by one.

        Topics of the request have their names. Raises KafkaError when nothing can be committed.
        """
        group = self._committing_group(request, version)
        if isinstance(group, ClassicGroup) and group.state in (STABLE, PREPARING_REBALANCE):
            self._sessions.renew(group, group.members[request.member_id], at)
        expires = request.retention_time_ms != _DEFAULT_RETENTION
        expire_timestamp_ms = at.now_ms + request.retention_time_ms if expires else -1
        commits: list[_Commit] = []
        topics = []
        for topic in request.topics:
            answers = []
            for partition in topic.partitions:
                error_code = 0
                if len(partition.committed_metadata or "") > self._settings.offset_metadata_max_bytes:
                    error_code = _METADATA_TOO_LARGE
                else:
                    offset = _offset_from(partition, topic.topic_id, at.now_ms, expire_timestamp_ms)
                    commits.append((topic.name, partition.partition_index, offset))
                answers.append(OffsetCommitResponsePartition(partition.partition_index, error_code))
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers))
        if commits:
            self._write(request.group_id, commits, at)
        return OffsetCommitResponse(topics=topics)

    def _write(self, group_id: str, commits: list[_Commit], at: Instant) -> None:
        draft = Draft()
        for topic, partition, offset in commits:
            draft.put(
                offset_commit_record(group_id, topic, partition, offset),
                partial(self._offsets.put_written, group_id, topic, partition, offset),
            )
        draft.afterwards(partial(self._store.ensure_group, group_id, at.now_ms))
        self._store.commit(group_id, draft, at)
        self._store.counts.offset_commit += len(commits)

    def _committing_group(self, request: OffsetCommitRequest, version: int) -> Group | None:
        # None: a commit from outside any group management makes a simple group, once it is written.
        group = self._store.groups.get(request.group_id)
        generation_id = request.generation_id_or_member_epoch
        if group is None:
            self._store.check_room(request.group_id)
            if generation_id < 0:
                return None
            if version >= _GROUP_ID_NOT_FOUND_FROM:
                raise errors.GroupIdNotFoundError(f"Group {request.group_id} not found.")
            raise errors.IllegalGenerationError()
        group.check_has_offsets()
        if generation_id < 0 and group.is_empty:
            return group
        if isinstance(group, ConsumerGroup):
            self._check_consumer_commit(group, request, version)
        elif isinstance(group, StreamsGroup):
            self._check_streams_commit(group, request, version)
        elif isinstance(group, ClassicGroup):
            self._check_classic_commit(group, request)
        return group

    def _check_classic_commit(self, group: ClassicGroup, request: OffsetCommitRequest) -> None:
        generation_id = request.generation_id_or_member_epoch
        if generation_id >= 0 or request.member_id or request.group_instance_id is not None:
            group.validate_member(request.member_id, request.group_instance_id)
            group.validate_generation(generation_id)
        elif group.state != EMPTY:
            raise errors.UnknownMemberIdError()
        if group.state == COMPLETING_REBALANCE:
            # The member knows the new generation but not its assignment: it cannot own what it commits for.
            raise errors.RebalanceInProgressError()

    def _check_consumer_commit(self, group: ConsumerGroup, request: OffsetCommitRequest, version: int) -> None:
        member = group.member(request.member_id)
        if member.classic is None and version < _MEMBER_EPOCHS_FROM:
            raise errors.UnsupportedVersionError(
                f"Members of the consumer protocol have to commit with OffsetCommit {_MEMBER_EPOCHS_FROM} or later."
            )
        epoch = request.generation_id_or_member_epoch
        if not group.validate_commit_epoch(member, epoch):
            return
        for topic in request.topics:
            known = self._image.topic(topic.name)
            for partition in topic.partitions:
                since = member.assignment_epoch(known.id, partition.partition_index) if known is not None else None
                if since is None or epoch < since:
                    raise stale(member, f"in epoch {epoch} it had not {topic.name}-{partition.partition_index} yet")

    def _check_streams_commit(self, group: StreamsGroup, request: OffsetCommitRequest, version: int) -> None:
        member = group.member(request.member_id)
        if version < _MEMBER_EPOCHS_FROM:
            raise errors.UnsupportedVersionError(
                f"Members of the streams protocol have to commit with OffsetCommit {_MEMBER_EPOCHS_FROM} or later."
            )
        group.validate_commits(member, request.generation_id_or_member_epoch, request.topics)

    # --- fetch

    def fetch(self, request: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
        """Return the committed offsets of the partitions asked for, or of all; -1 where there is none.

        With `require_stable`, an offset that an open transaction may change is UNSTABLE_OFFSET_COMMIT (KIP-447).
        """
        group_id = request.group_id
        try:
            self._check_fetch(request)
        except errors.KafkaError as error:
            return OffsetFetchResponseGroup(group_id=group_id, error_code=error.code)
        if request.topics is None:
            wanted = [(topic, ZERO_UUID, list(offsets)) for topic, offsets in self._offsets_of(group_id).items()]
        else:
            wanted = [(topic.name, topic.topic_id, topic.partition_indexes) for topic in request.topics]
        topics = [
            OffsetFetchResponseTopics(
                name=name,
                topic_id=topic_id,
                partitions=[self._fetched(group_id, name, topic_id, index, require_stable) for index in indexes],
            )
            for name, topic_id, indexes in wanted
        ]
        return OffsetFetchResponseGroup(group_id=group_id, topics=topics)

    def _check_fetch(self, request: OffsetFetchRequestGroup) -> None:
        # Without a member the request comes from an administrator, or from a client that knows no epochs.
        group = self._store.groups.get(request.group_id)
        if group is not None:
            group.check_has_offsets()
        if request.member_id is None and request.member_epoch < 0:
            return
        if isinstance(group, (ConsumerGroup, StreamsGroup)):
            group.validate_member_epoch(request.member_id or "", request.member_epoch)

    def _offsets_of(self, group_id: str) -> dict[str, dict[int, OffsetAndMetadata]]:
        return self._offsets.of_group(group_id) if group_id in self._store.groups else {}

    def _fetched(
        self, group_id: str, topic: str, topic_id: bytes, partition: int, require_stable: bool
    ) -> OffsetFetchResponsePartitions:
        if require_stable and self._offsets.has_pending(group_id, topic, partition):
            return OffsetFetchResponsePartitions(
                partition_index=partition, committed_offset=-1, metadata="", error_code=_UNSTABLE
            )
        offset = self._offsets_of(group_id).get(topic, {}).get(partition)
        if offset is None or not offset.is_for(topic_id):
            return OffsetFetchResponsePartitions(partition_index=partition, committed_offset=-1, metadata="")
        return OffsetFetchResponsePartitions(
            partition_index=partition,
            committed_offset=offset.committed_offset,
            committed_leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
        )

    # --- delete

    def delete(self, request: OffsetDeleteRequest, at: Instant) -> OffsetDeleteResponse:
        """Delete offsets of topics that no member subscribes to. Raises KafkaError."""
        group = self._store.group(request.group_id)
        group.check_has_offsets()
        if not group.is_empty and not group.uses_consumer_protocol:
            raise errors.GroupNotEmptyError()
        gone: list[tuple[str, int]] = []
        topics = []
        for topic in request.topics:
            subscribed = group.is_subscribed_to(topic.name)
            indexes = [partition.partition_index for partition in topic.partitions]
            if not subscribed:
                gone += [(topic.name, index) for index in indexes if self._exists(group.group_id, topic.name, index)]
            answers = [OffsetDeleteResponsePartition(index, _SUBSCRIBED if subscribed else 0) for index in indexes]
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        self.remove(request.group_id, gone, at)
        self._store.counts.offset_deletion += len(gone)
        return OffsetDeleteResponse(topics=topics)

    def remove(self, group_id: str, partitions: list[tuple[str, int]], at: Instant) -> None:
        """Write tombstones and forget the offsets. Raises `KafkaError`; then nothing has changed."""
        draft = Draft()
        for topic, partition in partitions:
            draft.put(
                offset_commit_tombstone(group_id, topic, partition),
                partial(self._offsets.remove_written, group_id, topic, partition),
            )
        self._store.commit(group_id, draft, at)

    def _exists(self, group_id: str, topic: str, partition: int) -> bool:
        offsets = self._offsets
        return offsets.get(group_id, topic, partition) is not None or offsets.has_pending(group_id, topic, partition)


def _offset_from(
    partition: OffsetCommitRequestPartition, topic_id: bytes, now_ms: int, expire_timestamp_ms: int
) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        committed_offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp_ms=now_ms,
        expire_timestamp_ms=expire_timestamp_ms,
        topic_id=bytes(topic_id),
    )
