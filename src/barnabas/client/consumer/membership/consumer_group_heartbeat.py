"""The heartbeat of the consumer protocol: everything at first, and then only what has changed (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.epochs import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions

if TYPE_CHECKING:
    from barnabas.client.consumer.membership.group_requests import GroupIdentity
    from barnabas.client.consumer.membership.messages import TopicIdPartitions

_FIRST_VERSION_WITH_REGEX: Final = 1
_NOT_SUPPORTED: Final = (
    "The cluster does not support the consumer group protocol (KIP-848): set group.protocol=classic until it is "
    "upgraded, or group.version=1 in the cluster"
)
_NO_REGEX: Final = (
    "The cluster does not resolve regular expressions of subscriptions: it must be upgraded for subscribe() with a "
    "SubscriptionPattern; a re.Pattern is matched by the consumer itself"
)


class HeartbeatState:
    """What the member says of itself, and what the coordinator has heard of it. Belongs to the membership core."""

    #: The setting of the brokers that bounds a group.
    MAX_SIZE: Final = "group.consumer.max.size"

    def __init__(self, group: GroupIdentity, member_id: str, server_assignor: str | None, rack_id: str | None) -> None:
        self._group = group
        self.member_id = member_id
        self._server_assignor = server_assignor
        self._rack_id = rack_id
        self._topic_names: tuple[str, ...] = ()
        self.topic_regex: str | None = None
        #: What the application has, by topic id; None until it has taken its first assignment.
        self.owned: TopicIdPartitions | None = None
        self._sent: dict[str, Any] = {}

    def subscribe(self, topic_names: tuple[str, ...], topic_regex: str | None) -> None:
        """Change the subscription."""
        self._topic_names, self.topic_regex = topic_names, topic_regex

    def forget_sent(self) -> None:
        """Say everything again: the coordinator may not have heard the last heartbeat."""
        self._sent = {}

    def forget_membership(self) -> None:
        """Own nothing, and say everything again."""
        self.owned = None
        self._sent = {}

    def build(self, member_epoch: int, *, is_joining: bool) -> RequestBuilder:
        """Return the next heartbeat; a joining member's has epoch 0 and everything."""
        fields = self._fields()
        if is_joining:
            fields |= {"rack_id": self._rack_id, "topic_partitions": {}}
            changed = fields
        else:
            if self.topic_regex is None and self._sent.get("subscribed_topic_regex"):
                # Null means "as before": an expression that is given up is replaced by an empty one.
                fields["subscribed_topic_regex"] = ""
            changed = {name: value for name, value in fields.items() if self._sent.get(name) != value}
        self._sent = self._sent | fields
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group.group_id,
            member_id=self.member_id,
            member_epoch=JOIN_EPOCH if is_joining else member_epoch,
            instance_id=self._group.group_instance_id,
            **{name: _encoded(name, value) for name, value in changed.items()},
        )
        # A broker that knows version 0 only takes every subscription but one by expression.
        needs_regex = changed.get("subscribed_topic_regex") is not None
        return _builder(request, _FIRST_VERSION_WITH_REGEX if needs_regex else 0)

    def leave(self, *, for_good: bool) -> RequestBuilder:
        """Return the last heartbeat; a static member that is not going for good keeps its assignment for its return."""
        epoch = LEAVE_EPOCH if for_good else LEAVE_STATIC_EPOCH
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self._group.group_instance_id,
        )
        return _builder(request, 0)

    def not_supported(self) -> str:
        """Return what is to be done where the cluster does not know the request."""
        # Without a regex there is nothing in it that another version would carry.
        return _NO_REGEX if self.topic_regex is not None else _NOT_SUPPORTED

    def _fields(self) -> dict[str, Any]:
        return {
            "rebalance_timeout_ms": self._group.rebalance_timeout_ms,
            "subscribed_topic_names": self._topic_names,
            "subscribed_topic_regex": self.topic_regex,
            "server_assignor": self._server_assignor,
            "topic_partitions": self.owned,
        }


def _encoded(name: str, value: Any) -> Any:
    if name == "topic_partitions" and value is not None:
        return [TopicPartitions(topic_id, list(numbers)) for topic_id, numbers in sorted(value.items())]
    return list(value) if name == "subscribed_topic_names" else value


def _builder(request: ConsumerGroupHeartbeatRequest, lowest: int) -> RequestBuilder:
    _, high = ConsumerGroupHeartbeatRequest.VALID_VERSIONS
    return RequestBuilder(request.API_KEY, lambda version: request, lowest, high)
