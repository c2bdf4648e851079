"""What ShareFetch and ShareAcknowledge have in common: who asks, and what it says of its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from barnabas import errors
from barnabas.broker.share.persister import SharePartitionKey
from barnabas.broker.share.share_partition import Acknowledgement
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.kinds import AcknowledgementKind, AclOperation, ResourceType

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.share.share_session import TopicIdPartition
    from barnabas.protocol.messages import share_acknowledge_request, share_fetch_request
    from barnabas.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
    from barnabas.protocol.messages.share_fetch_request import ShareFetchRequest

#: What a request says of a range of records.
Batch: TypeAlias = "share_fetch_request.AcknowledgementBatch | share_acknowledge_request.AcknowledgementBatch"

#: As long as a UUID in text.
_LONGEST_MEMBER_ID = 36
#: From this version on locks can be renewed.
_RENEWS_FROM = 2

#: Partition → why its acknowledgements were not taken; None: they were.
Problems = dict["TopicIdPartition", "errors.KafkaError | None"]


def check_member(group_id: str | None, member_id: str | None) -> None:
    """Raise InvalidRequestError for a request without a group, or without a member id."""
    if group_id is None:
        raise errors.InvalidRequestError("Invalid group id in the request.")
    if not member_id or len(member_id) > _LONGEST_MEMBER_ID:
        raise errors.InvalidRequestError("Invalid member id in the request.")


def may_read(broker: BrokerState, context: RequestContext, topic_id: bytes) -> bool:
    """Whether who asks may read a topic. Raises UnknownTopicIdError."""
    topic = broker.metadata.topic_by_id(topic_id)
    if topic is None:
        raise errors.UnknownTopicIdError("There is no topic with this id.")
    authorization = broker.authorization
    return authorization is None or authorization.allows(context, AclOperation.READ, ResourceType.TOPIC, topic.name)


def count_request(broker: BrokerState, topic_id: bytes, api: int) -> None:
    """Count that a partition of a topic was asked for."""
    topic = broker.metadata.topic_by_id(topic_id)
    if topic is not None:
        broker.share_partition_manager.metrics.requests[topic.name, api] += 1


def count_failure(broker: BrokerState, topic_id: bytes, api: int) -> None:
    """Count that what was asked of a partition of a topic has failed."""
    topic = broker.metadata.topic_by_id(topic_id)
    if topic is not None:
        broker.share_partition_manager.metrics.failed[topic.name, api] += 1


def acknowledge_all(
    broker: BrokerState,
    context: RequestContext,
    request: ShareFetchRequest | ShareAcknowledgeRequest,
    asked: Mapping[TopicIdPartition, Sequence[Batch]],
    tell: Callable[[Problems], None],
) -> None:
    """Take what a request says of records; `tell` gets the result of each partition when all are stored."""
    problems: Problems = {}

    def done(key: TopicIdPartition, problem: errors.KafkaError | None) -> None:
        if problem is not None:
            count_failure(broker, key[0], ApiKey.SHARE_ACKNOWLEDGE)
        problems[key] = problem
        if len(problems) == len(asked):
            tell(problems)

    if not asked:
        tell(problems)
    for key, batches in asked.items():
        count_request(broker, key[0], ApiKey.SHARE_ACKNOWLEDGE)
        try:
            if not may_read(broker, context, key[0]):
                raise errors.TopicAuthorizationError()
            acknowledgements = _checked(batches, context.api_version, is_renewal=request.is_renew_ack)
        except errors.KafkaError as problem:
            done(key, problem)
            continue
        if not acknowledgements:
            done(key, None)
            continue
        broker.share_partition_manager.acknowledge(
            SharePartitionKey(request.group_id or "", *key),
            request.member_id or "",
            acknowledgements,
            context.instant,
            partial(done, key),
        )


def _checked(batches: Sequence[Batch], version: int, *, is_renewal: bool) -> list[Acknowledgement]:
    """Return the acknowledgements. Raises InvalidRequestError."""
    last_type = AcknowledgementKind.RENEW if version >= _RENEWS_FROM else AcknowledgementKind.REJECT
    found: list[Acknowledgement] = []
    end = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < end:
            raise errors.InvalidRequestError(f"Offsets {first} to {last} are out of order.")
        if not types or (len(types) > 1 and last - first != len(types) - 1):
            raise errors.InvalidRequestError(f"Offsets {first} to {last} have {len(types)} types of acknowledgement.")
        if not all(AcknowledgementKind.GAP <= type <= last_type for type in types):
            raise errors.InvalidRequestError(f"Offsets {first} to {last} have a type that there is not.")
        if AcknowledgementKind.RENEW in types and not is_renewal:
            raise errors.InvalidRequestError("Locks are renewed where isRenewAck is true only.")
        end = last
        found.append(Acknowledgement(first, last, types))
    return found
