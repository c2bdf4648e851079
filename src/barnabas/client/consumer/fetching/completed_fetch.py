"""The data of one partition from one fetch, until all of it is handed out."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from barnabas.client.consumer.fetching.fetched_data import FetchedData
from barnabas.errors import NONE, RecordDeserializationError
from barnabas.protocol.kinds import IsolationLevel
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.batch_header import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    LAST_OFFSET_DELTA_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    OFFSET_AND_LENGTH,
)
from barnabas.records.decoder import RecordsDecoder

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_record import ConsumerRecord
    from barnabas.client.consumer.fetching.fetch_config import FetchConfig
    from barnabas.client.consumer.fetching.fetch_metrics import FetchMetricsAggregator
    from barnabas.protocol.message import Buffer
    from barnabas.protocol.messages.fetch_response import PartitionData
    from barnabas.records.arrow import ColumnBuilder
    from barnabas.records.decoder import EncodedRecords

    Found: TypeAlias = list[ConsumerRecord] | EncodedRecords

_LAST_OFFSET_DELTA: Final = struct.Struct(">i")


class CompletedFetch:
    """What a broker sent for one partition; records are decoded as they are taken.

    `asked` are the offset that was asked for, and the `seek_id` of that moment.
    """

    __slots__ = (
        "_config",
        "_data",
        "_decoder",
        "aggregator",
        "end_offset",
        "fetch_offset",
        "handed_out",
        "is_consumed",
        "next_offset",
        "node_id",
        "partition",
        "response",
        "seek_id",
        "size_in_bytes",
    )

    def __init__(
        self,
        partition: TopicPartition,
        asked: tuple[int, int],
        response: PartitionData,
        config: FetchConfig,
        node_id: int,
        aggregator: FetchMetricsAggregator,
    ) -> None:
        self.aggregator = aggregator
        self.partition = partition
        self.node_id = node_id
        fetch_offset, self.seek_id = asked
        self.fetch_offset = fetch_offset
        # Records, for the metrics.
        self.handed_out = 0
        self.next_offset = fetch_offset
        self.response = response
        self.is_consumed = False
        self._config = config
        self._data = response.records if response.records is not None else b""
        # As received: compressed records are as they are.
        self.size_in_bytes = len(self._data)
        self._decoder: Any = None
        # The offset after the last complete batch: where the next fetch goes on.
        self.end_offset = end_of_batches(self._data, fetch_offset)

    @property
    def has_data(self) -> bool:
        """Whether it holds any bytes of records, or an error to tell of."""
        return self.response.error_code != NONE or len(self._data) > 0

    @property
    def leader_epoch(self) -> int:
        """The epoch of the last record taken."""
        return -1 if self._decoder is None else int(self._decoder.leader_epoch)

    def fetch_records(self, max_records: int) -> Found:
        """Return the next records; `next_offset` is where reading goes on, `is_consumed` tells that nothing is left.

        Where keys and values stay bytes, records are checked now and made later, when they are looked at.
        Raises `CorruptRecordError` and `RecordDeserializationError`, every time again, once all before is taken.
        """
        config = self._config
        if self._decoder is None:
            self._decoder = self._new_decoder(config)
        decoder = self._decoder
        stay_bytes = config.key_deserializer is None and config.value_deserializer is None
        try:
            records: Found = decoder.take_encoded(max_records) if stay_bytes else decoder.take(max_records)
        except RecordDeserializationError as error:
            # Read again, as bytes: the deserializers may have got as far as the value.
            undecoded: list[ConsumerRecord] = self._new_decoder(config.as_bytes()).take(1)
            error.record = undecoded[0] if undecoded else None
            raise
        self.next_offset = decoder.next_offset
        if len(records) < max_records and decoder.exhausted:
            self.drain()
        return records

    def take_arrow(self, builder: ColumnBuilder) -> None:
        """Move what is left into a `ColumnBuilder`, as far as there is room. Raises `CorruptRecordError`."""
        self.next_offset = builder.append(
            self._data,
            self.partition.topic,
            self.partition.partition,
            self.next_offset,
            check_crcs=self._config.check_crcs,
            aborted_transactions=self._aborted_transactions(),
        )
        if self.next_offset >= self.end_offset:
            self.drain()

    def take_raw(self) -> FetchedData:
        """All that is left, as it came; nothing is decoded or checked."""
        found = FetchedData(
            self.partition,
            self.next_offset,
            self.end_offset,
            self._data,
            self._config.check_crcs,
            self._aborted_transactions(),
        )
        self.next_offset = self.end_offset
        self.drain()
        return found

    def drain(self) -> None:
        """Forget the rest."""
        self.is_consumed = True
        self._data = b""

    def _new_decoder(self, config: FetchConfig) -> Any:
        return new_decoder(self._data, self.partition, self.next_offset, config, self._aborted_transactions())

    def _aborted_transactions(self) -> list[tuple[int, int]] | None:
        if self._config.isolation_level != IsolationLevel.READ_COMMITTED:
            return None
        return [(aborted.producer_id, aborted.first_offset) for aborted in self.response.aborted_transactions or ()]


def new_decoder(
    data: Buffer, partition: TopicPartition, offset: int, config: FetchConfig, aborted: list[tuple[int, int]] | None
) -> Any:
    """Return what decodes the fetched bytes of a partition, from an offset on."""
    topic, number = partition
    key_deserializer, value_deserializer = config.key_deserializer, config.value_deserializer
    with_headers = hasattr(key_deserializer, "deserialize") or hasattr(value_deserializer, "deserialize")
    if with_headers:
        key_deserializer = _with_headers(key_deserializer, topic)
        value_deserializer = _with_headers(value_deserializer, topic)
    return RecordsDecoder(
        data,
        topic,
        number,
        offset,
        check_crcs=config.check_crcs,
        aborted_transactions=aborted,
        key_deserializer=key_deserializer,
        value_deserializer=value_deserializer,
        with_headers=with_headers,
    )


def _with_headers(deserializer: Any, topic: str) -> Any:
    """Return a function of a record's bytes and headers; None where there is no deserializer."""
    method = getattr(deserializer, "deserialize", None)
    if method is not None:
        return lambda data, headers: method(topic, data, headers)
    return None if deserializer is None else lambda data, headers: deserializer(data)


def end_of_batches(data: Buffer, fetch_offset: int) -> int:
    """Return the offset after the last complete batch in `data`, or `fetch_offset` when there is none."""
    size = len(data)
    position = 0
    last = -1
    while position + LOG_OVERHEAD <= size:
        _, length = OFFSET_AND_LENGTH.unpack_from(data, position)
        if length <= 0 or position + LOG_OVERHEAD + length > size:
            break
        last = position
        position += LOG_OVERHEAD + length
    if last < 0:
        return fetch_offset
    base_offset, length = OFFSET_AND_LENGTH.unpack_from(data, last)
    is_batch = data[last + MAGIC_AT] >= CURRENT_MAGIC and LOG_OVERHEAD + length >= HEADER_SIZE
    delta = _LAST_OFFSET_DELTA.unpack_from(data, last + LAST_OFFSET_DELTA_AT)[0] if is_batch else 0
    return max(fetch_offset, int(base_offset) + delta + 1)
