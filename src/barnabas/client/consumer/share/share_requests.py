"""The requests of a share session, as KIP-932 and KIP-1222 have them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.messages import share_acknowledge_request as acknowledge
from barnabas.protocol.messages import share_fetch_request as fetch

if TYPE_CHECKING:
    from barnabas.client.consumer.fetching.fetch_config import FetchConfig
    from barnabas.client.consumer.share.acknowledgements import Acknowledgements
    from barnabas.protocol.topic_partition import TopicIdPartition

#: From these versions on locks can be renewed (KIP-1222), and a fetch can be held to a number of records (KIP-1206).
RENEW_FROM: Final = 2
LIMIT_FROM: Final = 2
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1


class ShareMember(NamedTuple):
    """What all requests of one consumer have in common."""

    group_id: str
    member_id: str
    #: `BATCH_OPTIMIZED` or `RECORD_LIMIT`.
    acquire_mode: int

    @property
    def is_limited(self) -> bool:
        """Whether it may not get one record more than it asks for."""
        return self.acquire_mode == RECORD_LIMIT


class SessionChange(NamedTuple):
    """What one fetch says of its session: its epoch, partitions to add and partitions to drop."""

    epoch: int
    added: Collection[TopicIdPartition]
    dropped: Collection[TopicIdPartition]


def share_fetch(
    member: ShareMember,
    change: SessionChange,
    acknowledgements: Mapping[TopicIdPartition, Acknowledgements],
    config: FetchConfig,
    *,
    polls: int,
    waits: bool,
) -> RequestBuilder:
    """Return a fetch for so many polls; for none it only changes the session and brings acknowledgements.

    It `waits` at the broker until there are records. A limit of records needs a broker that knows it.
    """
    topics: dict[bytes, fetch.FetchTopic] = {}
    for partition in dict.fromkeys((*change.added, *acknowledgements)):
        topic = topics.setdefault(partition.topic_id, fetch.FetchTopic(topic_id=partition.topic_id))
        said = acknowledgements.get(partition)
        batches = [] if said is None else [fetch.AcknowledgementBatch(*batch) for batch in said.batches()]
        topic.partitions.append(
            fetch.FetchPartition(partition_index=partition.partition, acknowledgement_batches=batches)
        )
    request = fetch.ShareFetchRequest(
        group_id=member.group_id,
        member_id=member.member_id,
        share_session_epoch=change.epoch,
        max_wait_ms=config.max_wait_ms if polls and waits else 0,
        min_bytes=config.min_bytes if polls else 0,
        max_bytes=config.max_bytes if polls else 0,
        max_records=config.max_poll_records * polls,
        batch_size=config.max_poll_records if polls else 0,
        share_acquire_mode=member.acquire_mode,
        topics=list(topics.values()),
        forgotten_topics_data=_forgotten(change.dropped),
    )
    low, high = request.VALID_VERSIONS
    return RequestBuilder(request.API_KEY, lambda version: request, LIMIT_FROM if member.is_limited else low, high)


def _forgotten(partitions: Iterable[TopicIdPartition]) -> list[fetch.ForgottenTopic]:
    topics: dict[bytes, fetch.ForgottenTopic] = {}
    for partition in partitions:
        topic = topics.setdefault(partition.topic_id, fetch.ForgottenTopic(topic_id=partition.topic_id))
        topic.partitions.append(partition.partition)
    return list(topics.values())


def share_acknowledge(
    member: ShareMember, epoch: int, acknowledgements: Mapping[TopicIdPartition, Acknowledgements]
) -> RequestBuilder:
    """Return what says only what became of records; renewals need a broker that knows them."""
    topics: dict[bytes, acknowledge.AcknowledgeTopic] = {}
    for partition, said in acknowledgements.items():
        topic = topics.setdefault(partition.topic_id, acknowledge.AcknowledgeTopic(topic_id=partition.topic_id))
        batches = [acknowledge.AcknowledgementBatch(*batch) for batch in said.batches()]
        topic.partitions.append(
            acknowledge.AcknowledgePartition(partition_index=partition.partition, acknowledgement_batches=batches)
        )
    renews = any(said.has_renewals for said in acknowledgements.values())
    request = acknowledge.ShareAcknowledgeRequest(
        group_id=member.group_id,
        member_id=member.member_id,
        share_session_epoch=epoch,
        is_renew_ack=renews,
        topics=list(topics.values()),
    )
    low, high = request.VALID_VERSIONS
    return RequestBuilder(request.API_KEY, lambda version: request, RENEW_FROM if renews else low, high)
