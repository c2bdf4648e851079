"""The heartbeat of a share group's member: everything at first, and then only what has changed (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.epochs import JOIN_EPOCH, LEAVE_EPOCH
from barnabas.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

if TYPE_CHECKING:
    from barnabas.client.consumer.membership.group_requests import GroupIdentity
    from barnabas.client.consumer.membership.messages import TopicIdPartitions


class ShareHeartbeatState:
    """What the member says of itself, and what the coordinator has heard of it. Belongs to the membership core."""

    #: The setting of the brokers that bounds a group.
    MAX_SIZE: Final = "group.share.max.size"
    #: Share groups have no subscription by expression.
    topic_regex: Final = None

    def __init__(self, group: GroupIdentity, member_id: str, rack_id: str | None) -> None:
        self._group = group
        self.member_id = member_id
        self._rack_id = rack_id
        self._topic_names: tuple[str, ...] = ()
        self._sent_names: tuple[str, ...] | None = None
        #: What the application has, by topic id; the coordinator is not told, since others may have it, too.
        self.owned: TopicIdPartitions | None = None

    def subscribe(self, topic_names: tuple[str, ...], topic_regex: str | None) -> None:
        """Change the subscription."""
        assert topic_regex is None, "a share consumer subscribes by names"
        self._topic_names = topic_names

    def forget_sent(self) -> None:
        """Say everything again: the coordinator may not have heard the last heartbeat."""
        self._sent_names = None

    def forget_membership(self) -> None:
        """Own nothing, and say everything again."""
        self.owned = None
        self._sent_names = None

    def build(self, member_epoch: int, *, is_joining: bool) -> RequestBuilder:
        """Return the next heartbeat; a joining member's has epoch 0 and everything."""
        says_all = is_joining or self._sent_names is None
        names = list(self._topic_names) if says_all or self._sent_names != self._topic_names else None
        self._sent_names = self._topic_names
        return _builder(
            ShareGroupHeartbeatRequest(
                group_id=self._group.group_id,
                member_id=self.member_id,
                member_epoch=JOIN_EPOCH if is_joining else member_epoch,
                rack_id=self._rack_id if says_all else None,
                subscribed_topic_names=names,
            )
        )

    def leave(self, *, for_good: bool) -> RequestBuilder:
        """Return the last heartbeat; members of share groups always leave for good."""
        return _builder(
            ShareGroupHeartbeatRequest(
                group_id=self._group.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH
            )
        )

    def not_supported(self) -> str:
        """Return what is to be done where the cluster does not know the request."""
        return (
            "The cluster does not support share groups (KIP-932): they need brokers of Kafka 4.1 or later with "
            "share.version=1 (`barnabas feature set share.version=1`)"
        )


def _builder(request: ShareGroupHeartbeatRequest) -> RequestBuilder:
    low, high = request.VALID_VERSIONS
    return RequestBuilder(request.API_KEY, lambda version: request, low, high)
