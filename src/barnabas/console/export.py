"""Records as files: NDJSON, CSV or Parquet, written as they are found."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.console.decoders import Decoders, as_json
from barnabas.console.records import LONG, Scans, shown_sides
from barnabas.console.scan import ScannedRow, ScanRequest

if TYPE_CHECKING:
    import pyarrow as pa

MOST_EXPORTED = 1_000_000
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")
_CHUNK = 256 * 1024
#: What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Form(NamedTuple):
    """A kind of file: its media type, and what writes rows as they come."""

    media_type: str
    write: Callable[[Scans, ScanRequest, Decoders], AsyncIterator[bytes]]


def _texts(row: ScannedRow, request: ScanRequest, decoders: Decoders) -> list[Any]:
    shown = shown_sides(row, request, decoders, LONG)
    headers = [[name, value["text"]] for name, value in shown["headers"]]
    place = [row.column("partition"), row.column("offset"), row.timestamp]
    return [*place, shown["key"]["text"], shown["value"]["text"], headers]


async def _ndjson(scans: Scans, request: ScanRequest, decoders: Decoders) -> AsyncIterator[bytes]:
    async for part in scans.parts(request):
        if isinstance(part, list):
            lines = [as_json(dict(zip(COLUMNS, _texts(row, request, decoders), strict=True))) for row in part]
            yield ("\n".join(lines) + "\n").encode("utf-8", "replace")


async def _csv(scans: Scans, request: ScanRequest, decoders: Decoders) -> AsyncIterator[bytes]:
    yield csv_lines([COLUMNS])
    async for part in scans.parts(request):
        if isinstance(part, list):
            rows = [_texts(row, request, decoders) for row in part]
            yield csv_lines([*row[:-1], json.dumps(row[-1], ensure_ascii=False)] for row in rows)


def csv_lines(rows: Any) -> bytes:
    """Return lines of CSV, in which no cell is a formula to a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out)
    for row in rows:
        writer.writerow([f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in row])
    return out.getvalue().encode("utf-8", "replace")


async def _parquet(scans: Scans, request: ScanRequest, decoders: Decoders) -> AsyncIterator[bytes]:
    """Keys, values and headers are bytes here, as they were sent."""
    import pyarrow.parquet as pq

    schema = _parquet_schema()
    with tempfile.TemporaryFile() as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            async for part in scans.parts(request):
                if isinstance(part, list):
                    writer.write_table(_table(part, schema))
        file.seek(0, os.SEEK_SET)
        while chunk := file.read(_CHUNK):
            yield chunk


def _parquet_schema() -> pa.Schema:
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    kinds = (pa.int32(), pa.int64(), pa.timestamp("ms", tz="UTC"), pa.binary(), pa.binary(), pa.list_(header))
    return pa.schema(list(zip(COLUMNS, kinds, strict=True)))


def _table(rows: list[ScannedRow], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    columns = [
        [row.column("partition") for row in rows],
        [row.column("offset") for row in rows],
        [None if row.timestamp < 0 else row.timestamp for row in rows],
        [row.key for row in rows],
        [row.value for row in rows],
        [[{"key": name, "value": value} for name, value in row.headers] for row in rows],
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


FORMS: Mapping[str, Form] = {
    "ndjson": Form("application/x-ndjson", _ndjson),
    "csv": Form("text/csv", _csv),
    "parquet": Form("application/vnd.apache.parquet", _parquet),
}
