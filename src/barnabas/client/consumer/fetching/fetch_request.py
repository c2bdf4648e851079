"""The fetch request, as its builder makes it for the version that a broker understands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from barnabas.protocol.thresholds import FETCH_TOPIC_IDS_FROM

if TYPE_CHECKING:
    from barnabas.client.consumer.fetching.fetch_config import FetchConfig
    from barnabas.client.consumer.fetching.fetch_session_handler import FetchPartitionData, FetchRequestData
    from barnabas.protocol.topic_partition import TopicPartition


def fetch_request(data: FetchRequestData, config: FetchConfig) -> RequestBuilder:
    """Return a fetch of everything that `data` asks for.

    By topic name where an id is missing or too new for the broker.
    """

    def build(version: int) -> FetchRequest:
        by_id = version >= FETCH_TOPIC_IDS_FROM
        return FetchRequest(
            max_wait_ms=config.max_wait_ms,
            min_bytes=config.min_bytes,
            max_bytes=config.max_bytes,
            isolation_level=config.isolation_level,
            session_id=data.session_id,
            session_epoch=data.session_epoch,
            topics=_topics(data.to_send.items(), by_id),
            forgotten_topics_data=_forgotten(data, by_id),
            rack_id=config.client_rack,
        )

    low, high = FetchRequest.VALID_VERSIONS
    return RequestBuilder(
        FetchRequest.API_KEY, build, low, high if data.can_use_topic_ids else FETCH_TOPIC_IDS_FROM - 1
    )


def _topics(partitions: Iterable[tuple[TopicPartition, FetchPartitionData]], by_id: bool) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (name, number), asked in partitions:
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic_id=asked.topic_id) if by_id else FetchTopic(topic=name)
        topic.partitions.append(
            FetchPartition(
                partition=number,
                current_leader_epoch=asked.current_leader_epoch,
                fetch_offset=asked.fetch_offset,
                last_fetched_epoch=asked.last_fetched_epoch,
                partition_max_bytes=asked.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(data: FetchRequestData, by_id: bool) -> list[ForgottenTopic]:
    topics: dict[str | bytes, ForgottenTopic] = {}
    for partition, topic_id in data.to_forget:
        if by_id:
            topic = topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id))
        elif partition in data.to_send:
            # A topic that was recreated has a new id but the same name: nothing to forget by that name.
            continue
        else:
            topic = topics.setdefault(partition.topic, ForgottenTopic(topic=partition.topic))
        topic.partitions.append(partition.partition)
    return list(topics.values())
