"""The rows of the source: the built-in connector's schema, for Spark and for Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS = "headers"

_DDL = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key:string,value:binary>>",
}


def column_names(include_headers: bool) -> tuple[str, ...]:
    """The columns in order; headers last, and only when asked for."""
    return (*COLUMNS, HEADERS) if include_headers else COLUMNS


def ddl(include_headers: bool) -> str:
    """The schema in Spark's DDL form."""
    return ", ".join(f"{name} {_DDL[name]}" for name in column_names(include_headers))


def arrow_schema(include_headers: bool) -> pa.Schema:
    """The Arrow schema that Spark demands of the batches, to the letter."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        HEADERS: pa.list_(pa.field("element", header)),
    }
    return pa.schema([pa.field(name, types[name]) for name in column_names(include_headers)])
