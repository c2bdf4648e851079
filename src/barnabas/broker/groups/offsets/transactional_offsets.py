"""TxnOffsetCommit: offsets that a group commits together with what a transaction produces (KIP-98, KIP-447)."""

from __future__ import annotations

from functools import partial

from barnabas import errors
from barnabas.broker.coordinator.draft import Draft
from barnabas.broker.groups.classic_group import ClassicGroup
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.coordinator_records import offset_commit_record
from barnabas.broker.groups.group_coordinator_config import GroupSettings
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.groups.offsets.offset_and_metadata import OffsetAndMetadata
from barnabas.broker.groups.offsets.offset_store import OffsetStore
from barnabas.broker.groups.streams_group import StreamsGroup
from barnabas.broker.instant import Instant
from barnabas.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from barnabas.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.protocol.producer_identity import ProducerIdAndEpoch

_METADATA_TOO_LARGE = errors.OffsetMetadataTooLargeError.code


def commit_transactional_offsets(
    store: GroupStore, offsets: OffsetStore, settings: GroupSettings, request: TxnOffsetCommitRequest, at: Instant
) -> TxnOffsetCommitResponse:
    """Keep the offsets pending, once they are in the log; partitions with too much metadata are refused one by one.

    Raises KafkaError when nothing can be committed.
    """
    group_id = request.group_id
    _check_member(store, request)
    draft = Draft()
    topics = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            error_code = 0
            if len(partition.committed_metadata or "") > settings.offset_metadata_max_bytes:
                error_code = _METADATA_TOO_LARGE
            else:
                offset = OffsetAndMetadata(
                    committed_offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.committed_metadata or "",
                    commit_timestamp_ms=at.now_ms,
                )
                index = partition.partition_index
                draft.put(
                    offset_commit_record(group_id, topic.name, index, offset),
                    partial(offsets.put_pending_written, request.producer_id, group_id, (topic.name, index), offset),
                )
            answers.append(TxnOffsetCommitResponsePartition(partition.partition_index, error_code))
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers))
    if draft.records:
        draft.afterwards(partial(store.ensure_group, group_id, at.now_ms))
        store.commit(group_id, draft, at, ProducerIdAndEpoch(request.producer_id, request.producer_epoch))
    return TxnOffsetCommitResponse(topics=topics)


def _check_member(store: GroupStore, request: TxnOffsetCommitRequest) -> None:
    # Member, generation and instance came with version 3: what is given is checked, nothing has to be given.
    group = store.groups.get(request.group_id)
    generation_id, member_id = request.generation_id, request.member_id
    if group is None:
        if generation_id >= 0:
            raise errors.IllegalGenerationError
        store.check_room(request.group_id)
        return
    group.check_has_offsets()
    if generation_id < 0 and (group.is_empty or not (member_id or request.group_instance_id is not None)):
        return
    if isinstance(group, ClassicGroup):
        group.validate_member(member_id, request.group_instance_id)
        group.validate_generation(generation_id)
    elif isinstance(group, (ConsumerGroup, StreamsGroup)):
        try:
            _check_epoch(group, request)
        except errors.StaleMemberEpochError as error:
            # TxnOffsetCommit has no code of its own for it.
            raise errors.IllegalGenerationError(str(error)) from error


def _check_epoch(group: ConsumerGroup | StreamsGroup, request: TxnOffsetCommitRequest) -> None:
    if isinstance(group, ConsumerGroup):
        group.validate_member_epoch(request.member_id, request.generation_id)
    else:
        group.validate_commits(group.member(request.member_id), request.generation_id, request.topics)
