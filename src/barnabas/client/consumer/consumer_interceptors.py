"""Interceptors of a consumer: they see records before the application, and offsets once they are committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.client.consumer.consumer_records import ConsumerRecords
from barnabas.client.interceptors import Interceptors
from barnabas.errors import IllegalTypeError
from barnabas.network.log_context import client_logger

if TYPE_CHECKING:
    from barnabas.client.consumer.offsets import OffsetAndMetadata
    from barnabas.protocol.topic_partition import TopicPartition

log = client_logger("barnabas.interceptors")


class ConsumerInterceptor(Protocol):
    """What `interceptor.classes` names; `configure(settings)` and `close()` are called where they exist.

    All methods run on the application's thread. What one raises is logged, and things go on as if it had not been
    called.
    """

    def on_consume(self, records: ConsumerRecords[Any, Any]) -> ConsumerRecords[Any, Any]:
        """Return the records that `poll` is to return, the same or others."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Take note of offsets that were committed, however that was asked for."""


class ConsumerInterceptors(Interceptors):
    """Calls each interceptor in the order of the setting."""

    def __init__(self, setting: Any, settings: Mapping[str, Any]) -> None:
        super().__init__(setting, settings, "on_consume")

    def on_consume(self, records: ConsumerRecords[Any, Any]) -> ConsumerRecords[Any, Any]:
        """Return the records as the interceptors want them handed out."""
        for partition in records.partitions():
            # Made once, so that what an interceptor changes of a record, such as its headers, stays changed.
            records.records(partition)
        for interceptor in self._interceptors:
            try:
                changed = interceptor.on_consume(records)
                if not isinstance(changed, ConsumerRecords):
                    raise IllegalTypeError(f"on_consume returns ConsumerRecords, not {changed!r}")
                records = changed
            except Exception:
                log.warning("The interceptor %r raised an error in on_consume", interceptor, exc_info=True)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Tell the interceptors what was committed."""
        self.tell("on_commit", offsets)
