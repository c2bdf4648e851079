"""The settings of a share consumer, checked against each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.client.consumer.consumer_config import ConsumerConfig
from barnabas.client.consumer.share.share_requests import BATCH_OPTIMIZED, RECORD_LIMIT
from barnabas.config.support import NOT_OF_SHARE_CONSUMERS
from barnabas.errors import InvalidGroupIdError


class ShareConsumerConfig(ConsumerConfig):
    """Kafka's ShareConsumerConfig: the consumer's settings, without those that share groups do not have."""

    __slots__ = ()

    REFUSED = NOT_OF_SHARE_CONSUMERS
    REFUSED_BY = "a share consumer"

    def __init__(self, properties: Mapping[str, Any] | None = None, keywords: Mapping[str, Any] | None = None) -> None:
        super().__init__(properties, keywords)
        if not self.group_id:
            raise InvalidGroupIdError("A share consumer needs a group.id: the share group that it belongs to")

    @property
    def is_explicit(self) -> bool:
        """Whether `share.acknowledgement.mode` is `explicit`, not `implicit`."""
        return self.get_str("share.acknowledgement.mode").lower() == "explicit"

    @property
    def acquire_mode(self) -> int:
        """`share.acquire.mode`, as the wire has it."""
        is_limited = self.get_str("share.acquire.mode").lower() == "record_limit"
        return RECORD_LIMIT if is_limited else BATCH_OPTIMIZED
