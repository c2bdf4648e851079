"""Record batches by every reader: records or a CorruptRecordError, and what one reads the others read, too.

The first byte of an input says whether checksums are looked at (0: yes).
"""

from __future__ import annotations

import gzip
import json

from barnabas.errors import CorruptRecordError, InvalidRecordError
from barnabas.records import RecordsDecoder, decode_arrow, read_batches, scan_batches, validate_records
from tests.vectors.message_vectors import DATA

_VECTORS = DATA / "record-batch-vectors.jsonl.gz"


def run(data: bytes) -> None:
    """See the module."""
    check, records = not data[:1] or data[0] == 0, data[1:]
    plain = _plain(records, check)
    decoded = _decoded(records, check)
    assert plain is None or decoded is None or plain == decoded, f"{plain} and {decoded}"
    try:
        table = decode_arrow(records, "t", 0, 0)
    except CorruptRecordError:
        return
    assert not check or decoded is None or table.num_rows == len(decoded)


def _plain(records: bytes, check: bool) -> list[tuple[int, bytes | None, bytes | None]] | None:
    found = []
    try:
        for batch in read_batches(records):
            if check:
                batch.check()
            found += [(record.offset, record.key, record.value) for record in batch if not batch.is_control]
        for header in scan_batches(memoryview(records)):
            try:
                validate_records(records, header)
            except InvalidRecordError:
                continue
    except CorruptRecordError:
        return None
    return [record for record in found if record[0] >= 0]


def _decoded(records: bytes, check: bool) -> list[tuple[int, bytes | None, bytes | None]] | None:
    decoder = RecordsDecoder(records, "t", 0, 0, check_crcs=check)
    found = []
    try:
        while more := decoder.take(100):
            found += [(record.offset, record.key, record.value) for record in more]
    except CorruptRecordError:
        return None
    return found


def seeds() -> list[bytes]:
    """Return the small ones of the batches that Kafka's own classes wrote."""
    lines = [json.loads(line) for line in gzip.decompress(_VECTORS.read_bytes()).splitlines()]
    found = [bytes.fromhex(line["hex"]) for line in lines]
    return [bytes([flag]) + data for data in found if len(data) < 600 for flag in (0, 1)]
