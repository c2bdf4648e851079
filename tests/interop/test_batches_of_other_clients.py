"""What aiokafka and kafka-python write is read by us, and what we write by them."""

from __future__ import annotations

import warnings

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from barnabas.records import RecordBatchBuilder, decode_records, scan_batches, validate_records

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own, at import
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS = [
    (number, 1_700_000_000_000 - number * 7, None if number % 5 == 0 else b"key %d" % number, value, headers)
    for number, (value, headers) in enumerate(
        [(None, []), (b"", [("h", b"v")]), (b"value " * 500, [("a", b""), ("b", None)]), (bytes(range(256)), [])] * 20
    )
]
every_codec = pytest.mark.parametrize("codec", CODECS)


def ours(codec: str) -> bytes:
    builder = RecordBatchBuilder(1 << 20, codec)
    for _offset, timestamp, key, value, headers in RECORDS:
        builder.try_append(timestamp, key, value, headers)
    return builder.close()


@every_codec
@pytest.mark.parametrize("builder_type", [DefaultRecordBatchBuilder, KafkaPythonBuilder])
def test_we_read_theirs(codec: str, builder_type: type) -> None:
    theirs = builder_type(
        magic=2,
        compression_type=CODECS.index(codec),
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for offset, timestamp, key, value, headers in RECORDS:
        theirs.append(offset, timestamp, key, value, headers)
    data = bytes(theirs.build())

    validate_records(data, scan_batches(data)[0])
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in decode_records(data, "t", 0)] == RECORDS


@every_codec
@pytest.mark.parametrize("batch_type", [DefaultRecordBatch, KafkaPythonBatch])
def test_they_read_ours(codec: str, batch_type: type) -> None:
    theirs = batch_type(ours(codec))

    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs] == RECORDS


@pytest.mark.parametrize(
    ("magic", "codec"),
    [(1, "none"), (1, "gzip"), (1, "snappy"), (1, "lz4"), (0, "none"), (0, "gzip"), (0, "snappy")],
)
def test_we_read_their_old_messages(magic: int, codec: str) -> None:
    theirs = LegacyRecordBatchBuilder(magic=magic, compression_type=CODECS.index(codec), batch_size=1 << 20)
    for offset, timestamp, key, value, _headers in RECORDS:
        theirs.append(offset, timestamp, key, value)
    data = bytes(theirs.build())

    assert [(r.offset, r.timestamp, r.key, r.value) for r in decode_records(data, "t", 0)] == [
        (offset, timestamp if magic else -1, key, value) for offset, timestamp, key, value, _headers in RECORDS
    ]
