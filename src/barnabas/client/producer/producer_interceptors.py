"""Interceptors: the application's code that sees every record on its way out and every answer (KIP-42, KIP-1112)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from barnabas.client.interceptors import Interceptors
from barnabas.client.producer.append import FutureRecordMetadata, RecordMetadata, SendPath
from barnabas.client.producer.producer_record import ProducerRecord
from barnabas.client.producer.slow_append import SlowAppend, UnsentRecord
from barnabas.errors import IllegalTypeError
from barnabas.network.log_context import client_logger, enter_client

log = client_logger("barnabas.producer")


class ProducerInterceptor(Protocol):
    """What `interceptor.classes` names; `configure(settings)` and `close()` are called where they exist.

    What a method raises is logged, and the record goes on as if it had not been called.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send, the same or another; on the application's thread, before serializing."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Take note that a record is stored or has failed, before its own callback; mostly in the Sender thread."""


class ProducerInterceptors(Interceptors):
    """Calls each interceptor in the order of the setting."""

    def __init__(self, setting: Any, settings: Mapping[str, Any], client_id: str = "") -> None:
        self._client_id = client_id
        super().__init__(setting, settings, "on_send")

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record as the interceptors want it sent."""
        enter_client(self._client_id)
        for interceptor in self._interceptors:
            try:
                changed = interceptor.on_send(record)
                if not isinstance(changed, ProducerRecord):
                    raise IllegalTypeError(f"on_send returns a ProducerRecord, not {changed!r}")
                record = changed
            except Exception:
                log.warning("The interceptor %r raised an error in on_send for %s", interceptor, record, exc_info=True)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Tell the interceptors what became of a record."""
        self.tell("on_acknowledgement", metadata, error)

    def intercept(self, given: ProducerRecord, on_delivery: Any) -> tuple[ProducerRecord, Any]:
        """Return what goes into a send path instead of this: the record as they want it, and its `on_delivery`."""
        record = self.on_send(given)

        def on_done(metadata: RecordMetadata, error: BaseException | None) -> None:
            try:
                self.on_acknowledgement(metadata, error)
            finally:
                if on_delivery is not None:
                    on_delivery(metadata, error)

        return record, on_done

    def on_refused(self, topic: str, partition: int | None, error: BaseException) -> None:
        """Tell the interceptors of a record that came into no batch."""
        self.on_acknowledgement(RecordMetadata(topic, -1 if partition is None else partition, -1), error)


class InterceptingSendPath:
    """Stands in front of a `SendPath` where there are interceptors, so that without them nothing is checked."""

    def __init__(self, send_path: SendPath, interceptors: ProducerInterceptors) -> None:
        self._send_path = send_path
        self._interceptors = interceptors

    def do_send(
        self, topic: str, value: Any, key: Any, partition: int | None, timestamp_ms: Any, headers: Any, on_delivery: Any
    ) -> FutureRecordMetadata | SlowAppend | UnsentRecord:
        """As `SendPath.do_send`, with the record that the interceptors make of it."""
        if isinstance(headers, Mapping):
            headers = headers.items()
        given = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
        record, on_done = self._interceptors.intercept(given, on_delivery)
        try:
            return self._send_path.do_send(
                record.topic, record.value, record.key, record.partition, record.timestamp_ms, record.headers, on_done
            )
        except Exception as error:
            self._interceptors.on_refused(record.topic, record.partition, error)
            raise
