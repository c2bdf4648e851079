"""`ShareConsumer`: reads records of topics as from a queue, as member of a share group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from barnabas.client.arguments import as_seconds
from barnabas.client.consumer.consumer_record import K, V
from barnabas.client.consumer.consumer_records import ConsumerRecords
from barnabas.client.consumer.share.share_consumer_base import ShareConsumerBase
from barnabas.client.consumer.single_thread_use import SingleThreadUse
from barnabas.client.environment import Environment
from barnabas.client.serializers import DeserializerSetting, given_serializers
from barnabas.client.steps import Steps, at_once, run
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicIdPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.consumer.consumer_record import ConsumerRecord
    from barnabas.config.typed_settings import ShareConsumerSettings

T = TypeVar("T")


class ShareConsumer(ShareConsumerBase[K, V]):
    """Reads records as from a queue: each is delivered to one member of the group, and again if it is not processed.

        with ShareConsumer("orders", group_id="shipping", bootstrap_servers="localhost:9092") as consumer:
            for record in consumer:
                ...

    With share.acknowledgement.mode=implicit, the default, the next `poll`, a turn of the loop that needs new records,
    `commit_sync` and `commit_async` accept all records handed out before; `close` releases them. With `explicit` each
    record is to be acknowledged before the next `poll`. A record that nothing is said of in time (the group's
    share.record.lock.duration.ms) is delivered again, until share.delivery.count.limit.

    Settings are Kafka's consumer settings, as keywords with `_` for `.`, or as a dict with the dots given first; topics
    given here are subscribed to. Made for one thread at a time: only `wakeup` may be called from others. Durations are
    seconds. Raises `ConfigError` for an unknown setting or a bad value, `InvalidGroupIdError` without a group.id.
    """

    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        key_deserializer: DeserializerSetting[K] = None,
        value_deserializer: DeserializerSetting[V] = None,
        environment: Environment | None = None,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None:
        use = SingleThreadUse()
        given = {
            **settings,
            **given_serializers(key_deserializer=key_deserializer, value_deserializer=value_deserializer),
        }
        super().__init__(topics, environment or Environment(), use, given)
        self._single_thread = use

    def unsubscribe(self) -> None:
        """Read nothing any more: give back what was not handed out, and leave the group."""
        self._run(self._polling.unsubscribe())

    # --- reading

    def poll(self, timeout: float = 1.0) -> ConsumerRecords[K, V]:
        """Return records as soon as there are any, or none after `timeout`.

        About max.poll.records of them, since batches stay whole; with share.acquire.mode=record_limit no more. Joins
        the group, sends what is to be said of the records before, runs the callback. Has to be called again within
        max.poll.interval.ms. Raises `IllegalStateError` where explicit acknowledgements are missing, `WakeupError`
        after `wakeup`, `RecordDeserializationError` and `CorruptRecordError` for what cannot be read (a record that is
        released, a batch that is rejected; the next call goes on), and errors of the cluster that trying again does
        not cure.
        """
        return self._run(self._polling.poll(as_seconds(timeout)))

    def poll_arrow(self, timeout: float = 1.0) -> pa.RecordBatch | None:
        """All records that have arrived as one Arrow batch, or None when there are none after `timeout`.

        The columns are those of `Consumer.poll_arrow`. Deserializers are not used, and the records cannot be renewed.
        Otherwise like `poll`.
        """
        return self._run(self._polling.poll_arrow(as_seconds(timeout)))

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """All records, one by one, for ever.

        A commit in the middle covers the records handed out so far, and what a loop that is left has not handed out
        comes with the next loop or `poll`.
        """
        return self._polling.iteration.records(lambda: self.poll(1.0))

    # --- acknowledgements

    def commit_sync(self, timeout: float | None = None) -> dict[TopicIdPartition, KafkaError | None]:
        """Send what is to be said of the records of the last `poll`, and return what the brokers say of each partition.

        With implicit acknowledgement all of the records are accepted. A failure that may pass is tried again until
        `timeout` (default.api.timeout.ms), and a partition without an answer by then has `KafkaTimeoutError`. Records
        that a broker refuses (`InvalidRecordStateError`: the lock was over) are delivered again.
        """
        return self._run(self._polling.commit_sync(self._timeout(timeout)))

    def commit_async(self) -> None:
        """See `ShareConsumerBase.commit_async`: send what is to be said, without waiting; runs the callback."""
        self._run(at_once(self._polling.commit_async))
        self._run(self._polling.run_callback())

    def client_instance_id(self, timeout: float | None = None) -> bytes:
        """Return the id (16 bytes) that the cluster gave this client for its telemetry (KIP-714).

        Raises `KafkaTimeoutError` when none comes within `timeout` seconds (default.api.timeout.ms),
        `UnsupportedVersionError` when the brokers take no telemetry, `IllegalStateError` when `enable.metrics.push` is
        off.
        """
        return self._run(self._instance_id(timeout))

    # --- the end

    def close(self, timeout: float = 30.0) -> None:
        """Send the acknowledgements, release all other records, leave the group; within `timeout` seconds.

        With implicit acknowledgement the records of the last `poll` are released. A second call does nothing.
        """
        timeout = as_seconds(timeout)
        if self._single_thread.is_closed:
            return
        with self._use:
            self._polling.check_use()
            try:
                run(self._polling.close(timeout))
            except BaseException:
                # Also one from outside: the group must not wait for a member without a driver.
                self._polling.abandon()
                raise
            finally:
                self._single_thread.is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, steps: Steps[T]) -> T:
        try:
            with self._use:
                self._polling.check_use()
                return run(steps)
        except KafkaError:
            raise
        except BaseException:
            # Also one that comes at the end of the call: what it returns does not reach the application.
            self._polling.begin_anew()
            raise
