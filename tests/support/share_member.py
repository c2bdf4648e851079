"""A member of a share group that speaks to a CoreBroker, one request after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.protocol.messages import share_acknowledge_request, share_fetch_request
from barnabas.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.support.core_broker import CoreBroker

#: First offset, last offset, types of acknowledgement.
Acknowledged = tuple[int, int, list[int]]
ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]


class ShareMember:
    """A member of the group g with one topic, which must be there."""

    def __init__(self, broker: CoreBroker, member_id: str = "m", topic: str = "t", group: str = "g") -> None:
        self.client = broker.connect()
        self.broker = broker
        self.member_id = member_id
        self.group = group
        self.topic = topic
        found = broker.node.metadata.topic(topic)
        assert found is not None
        self.topic_id = found.id
        self.member_epoch = 0
        self.session_epoch = 0

    def heartbeat(self, epoch: int | None = None, **fields: Any) -> Any:
        epoch = self.member_epoch if epoch is None else epoch
        names = [self.topic] if epoch == 0 else None
        request = ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=epoch, subscribed_topic_names=names
        )
        for name, value in fields.items():
            setattr(request, name, value)
        response = self.client.request(request, 1)
        if not response.error_code:
            self.member_epoch = response.member_epoch
        return response

    def send_fetch(self, *acknowledged: Acknowledged, partition: int = 0, **fields: Any) -> Any:
        """Fetch from a partition; None while there is nothing to acquire."""
        module = share_fetch_request
        batches = [module.AcknowledgementBatch(*one) for one in acknowledged]
        asked = module.FetchPartition(partition_index=partition, acknowledgement_batches=batches)
        told = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500, **fields}
        request = module.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=told.pop("epoch", self.session_epoch),
            topics=[module.FetchTopic(topic_id=self.topic_id, partitions=[asked])],
            **told,
        )
        response = self.client.request(request, 2)
        if request.share_session_epoch >= 0:
            self.session_epoch += 1
        return response

    def fetch(self, *acknowledged: Acknowledged, **fields: Any) -> list[tuple[int, int, int]]:
        """Return what is acquired: first offset, last offset, delivery count."""
        return acquired(self.send_fetch(*acknowledged, **fields))

    def acknowledge(self, *acknowledged: Acknowledged, partition: int = 0, **fields: Any) -> Any:
        module = share_acknowledge_request
        batches = [module.AcknowledgementBatch(*one) for one in acknowledged]
        asked = module.AcknowledgePartition(partition_index=partition, acknowledgement_batches=batches)
        request = module.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=fields.pop("epoch", self.session_epoch),
            topics=[module.AcknowledgeTopic(topic_id=self.topic_id, partitions=[asked])] if batches else [],
            **fields,
        )
        response = self.client.request(request, 2)
        self.session_epoch += 1
        return response


def acquired(response: Any) -> list[tuple[int, int, int]]:
    partitions: Sequence[Any] = [one for topic in response.responses for one in topic.partitions]
    return [
        (one.first_offset, one.last_offset, one.delivery_count) for part in partitions for one in part.acquired_records
    ]


def code(response: Any) -> int:
    """Return the error of the only partition."""
    found: int = response.responses[0].partitions[0].error_code
    return found
