"""What is stored and shipped: record batches, compression, checksums, Arrow.

The names load on first use, for the compiled modules are not needed by all who need the headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.records.arrow import ColumnBuilder as ColumnBuilder
    from barnabas.records.arrow import arrow_schema as arrow_schema
    from barnabas.records.arrow import decode_arrow as decode_arrow
    from barnabas.records.batch_header import BatchHeader as BatchHeader
    from barnabas.records.batch_header import assign_offsets as assign_offsets
    from barnabas.records.batch_header import check_crc as check_crc
    from barnabas.records.batch_header import scan_batches as scan_batches
    from barnabas.records.batch_header import set_producer_state as set_producer_state
    from barnabas.records.builder import RecordBatchBuilder as RecordBatchBuilder
    from barnabas.records.checksum import crc32c as crc32c
    from barnabas.records.compression import compress as compress
    from barnabas.records.compression import decompress as decompress
    from barnabas.records.decoder import ConsumerRecord as ConsumerRecord
    from barnabas.records.decoder import RecordsDecoder as RecordsDecoder
    from barnabas.records.decoder import decode_records as decode_records
    from barnabas.records.record_batch import Record as Record
    from barnabas.records.record_batch import RecordBatch as RecordBatch
    from barnabas.records.record_batch import read_batches as read_batches
    from barnabas.records.table_encoder import encode_arrow as encode_arrow
    from barnabas.records.validation import validate_records as validate_records

_HOMES = {
    "BatchHeader": "batch_header",
    "ColumnBuilder": "arrow",
    "ConsumerRecord": "decoder",
    "Record": "record_batch",
    "RecordBatch": "record_batch",
    "RecordBatchBuilder": "builder",
    "RecordsDecoder": "decoder",
    "arrow_schema": "arrow",
    "assign_offsets": "batch_header",
    "check_crc": "batch_header",
    "compress": "compression",
    "crc32c": "checksum",
    "decode_arrow": "arrow",
    "decode_records": "decoder",
    "decompress": "compression",
    "encode_arrow": "table_encoder",
    "read_batches": "record_batch",
    "scan_batches": "batch_header",
    "set_producer_state": "batch_header",
    "validate_records": "validation",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
