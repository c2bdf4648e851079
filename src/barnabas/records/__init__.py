"""What is stored and shipped: record batches, compression, checksums, Arrow.

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
