"""What is stored and shipped: record batches, compression, checksums, Arrow.

Rule 1. **Records are bytes until a caller asks for objects.** The broker reads headers and checks records in place;
clients make a record when the loop comes to it; Arrow columns are filled from the batch's bytes.

Rule 2. **`cursor` is the only parser of records, `batch_header` the only place with positions and sizes of a batch.**
Decoder, checks, columns and compaction stand on them.

Rule 3. **An incomplete batch at the end of a fetch is ignored, a corrupt one raises `CorruptRecordError`**
(`DecompressionError` is one). Good records before a bad one come first, the next call raises. Nothing decompresses to
more than its bound, and buffers are sized by the block headers of a frame, never by a claim alone.

Rule 4. **No record keeps the fetched bytes alive.** Magic 0 and 1 are read by making batches of magic 2 (`legacy`).

- `read_batches(data) -> Iterator[RecordBatch]`: batches with their header's fields, and records as objects.
- `RecordBatchBuilder(capacity, compression, ...)`: `try_append(timestamp_ms, key, value, headers) -> int`, the offset
  delta, or -1 when there is no room (the first record always fits); `append_rows` for Arrow; `close() -> bytes`.
- `batch_header`: `read_header`, `scan_batches`, `check_crc`, `assign_offsets`, `set_producer_state` on raw bytes;
  `validation.validate_records`: `CorruptRecordError` for bytes that are no records, `InvalidRecordError` for records
  that break a rule of producers; `control_record`: the markers of transactions.
- `RecordsDecoder(data, topic, partition, fetch_offset, ...)`: `take(max_records)` resumes where it stopped;
  `take_encoded` checks and counts now and makes records when they are iterated. `aborted_transactions` makes it
  read_committed (`fetched_batches`).
- `ColumnBuilder`, `decode_arrow`, `encode_arrow`, `table_encoder`: Arrow, with the columns of Spark's Kafka source.
- `crc32c`, `compress`, `decompress`: other people's libraries. To add a codec: a row in the table of `compression`
  from Kafka's number to its functions, and a vector in tests/vectors.
- `partitioner`: murmur2, for the producer and for Arrow.

Compiled: `cursor`, `decoder`, `builder`, `columns`, `rows`, `partitioner`. What touches memory stands in `native.pxd`,
with its twin in `native.py`; mask every unsigned operation.

The names load on first use, for the compiled modules are not needed by all who need the headers.
"""

from __future__ import annotations

from barnabas import _lazily

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from barnabas.records.arrow import ColumnBuilder, arrow_schema, decode_arrow
    from barnabas.records.batch_header import BatchHeader, assign_offsets, check_crc, scan_batches, set_producer_state
    from barnabas.records.builder import RecordBatchBuilder
    from barnabas.records.checksum import crc32c
    from barnabas.records.compression import compress, decompress
    from barnabas.records.decoder import ConsumerRecord, RecordsDecoder, decode_records
    from barnabas.records.record_batch import Record, RecordBatch, read_batches
    from barnabas.records.table_encoder import encode_arrow
    from barnabas.records.validation import validate_records

__all__ = [
    "BatchHeader",
    "ColumnBuilder",
    "ConsumerRecord",
    "Record",
    "RecordBatch",
    "RecordBatchBuilder",
    "RecordsDecoder",
    "arrow_schema",
    "assign_offsets",
    "check_crc",
    "compress",
    "crc32c",
    "decode_arrow",
    "decode_records",
    "decompress",
    "encode_arrow",
    "read_batches",
    "scan_batches",
    "set_producer_state",
    "validate_records",
]

_HOMES = {
    "barnabas.records.arrow": "ColumnBuilder arrow_schema decode_arrow",
    "barnabas.records.batch_header": "BatchHeader assign_offsets check_crc scan_batches set_producer_state",
    "barnabas.records.builder": "RecordBatchBuilder",
    "barnabas.records.checksum": "crc32c",
    "barnabas.records.compression": "compress decompress",
    "barnabas.records.decoder": "ConsumerRecord RecordsDecoder decode_records",
    "barnabas.records.record_batch": "Record RecordBatch read_batches",
    "barnabas.records.table_encoder": "encode_arrow",
    "barnabas.records.validation": "validate_records",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
