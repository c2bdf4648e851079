"""What classic consumers tell each other in JoinGroup and SyncGroup, as far as the coordinator has to understand it."""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack, unpack_from
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from barnabas.broker.groups.consumer_group_member import Partitions
from barnabas.broker.groups.topic_image import TopicImage
from barnabas.errors import ProtocolError
from barnabas.protocol.codec import MAX_ELEMENTS, Decoder
from barnabas.protocol.message import Message
from barnabas.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.protocol.plan import plan_of

if TYPE_CHECKING:
    from barnabas.protocol.messages import consumer_protocol_subscription

T = TypeVar("T", bound=Message)
#: Of a subscription, or of an assignment.
_TopicPartition: TypeAlias = "TopicPartition | consumer_protocol_subscription.TopicPartition"

_HIGHEST = ConsumerProtocolSubscription.VALID_VERSIONS[1]


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Give all topics in these ConsumerProtocolSubscriptions; None if one of them cannot be read.

    Version 0 is a prefix of every version and holds the topics: the rest is not looked at, as in Apache Kafka.
    """
    topics: set[str] = set()
    try:
        for data in subscriptions:
            topics.update(_read(ConsumerProtocolSubscription, data, highest=0).topics)
    except ProtocolError:
        return None
    return frozenset(topics)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Return what a member subscribes to and says it has. Raises ProtocolError."""
    found: ConsumerProtocolSubscription = _read(ConsumerProtocolSubscription, data)
    return found


def has_to_give_up(subscription: bytes, assignment: bytes) -> bool:
    """Whether a member says that it has a partition which it is not assigned; False if that cannot be read."""
    try:
        owned = read_subscription(subscription).owned_partitions
        assigned = _read(ConsumerProtocolAssignment, assignment).assigned_partitions if assignment else ()
    except ProtocolError:
        return False
    kept = {item.topic: set(item.partitions) for item in assigned}
    return any(not kept.get(item.topic, set()).issuperset(item.partitions) for item in owned)


def read_assignment(data: bytes, image: TopicImage) -> Partitions:
    """Return what a leader assigned to a member, as far as the topics exist. Raises ProtocolError."""
    if not data:
        return {}
    message: ConsumerProtocolAssignment = _read(ConsumerProtocolAssignment, data)
    return by_topic_id(message.assigned_partitions, image)


def write_assignment(partitions: Partitions, image: TopicImage, version: int) -> bytes:
    """Return an assignment in the version that the member speaks; topics that are gone are left out."""
    topics = []
    for topic_id, indexes in partitions.items():
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            topics.append(TopicPartition(topic=topic.name, partitions=sorted(indexes)))
    topics.sort(key=lambda item: item.topic)
    version = min(version, _HIGHEST)
    return pack(">h", version) + ConsumerProtocolAssignment(assigned_partitions=topics).encode(version)


def version_of(data: bytes) -> int:
    """Return the version in front. Raises ProtocolError."""
    if len(data) < 2:
        raise ProtocolError(f"{len(data)} bytes of the embedded consumer protocol hold no version")
    version: int = unpack_from(">h", data)[0]
    if version < 0:
        raise ProtocolError(f"The embedded consumer protocol has no version {version}")
    return version


def by_topic_id(topics: Iterable[_TopicPartition], image: TopicImage) -> Partitions:
    """Topics with names and partitions, as far as they exist."""
    found = {}
    for item in topics:
        topic = image.topic(item.topic)
        if topic is not None and item.partitions:
            found[topic.id] = frozenset(item.partitions)
    return found


def _read(kind: type[T], data: bytes, highest: int = _HIGHEST) -> T:
    # A newer version only adds fields at the end.
    message: T = Decoder(data, 2, -1, MAX_ELEMENTS).message(plan_of(kind, min(version_of(data), highest)))
    return message
