"""The rows of the source: the built-in connector's schema. `barnabas.records.arrow` has the same for Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

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
COLUMNS = tuple(name for name in _DDL if name != HEADERS)


def column_names(include_headers: bool) -> tuple[str, ...]:
    """Return the columns in order; headers last, and only when asked for."""
    return (*COLUMNS, HEADERS) if include_headers else COLUMNS


def ddl(columns: Iterable[str]) -> str:
    """Return the schema of these columns in Spark's DDL form."""
    return ", ".join(f"{name} {_DDL[name]}" for name in columns)


def check_fixed(schema: StructType, columns: Iterable[str]) -> None:
    """Raise OptionError when a query was given another schema by `.schema(...)`."""
    expected = ddl(columns)
    given = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
    if given != expected:
        raise OptionError(
            f"the schema of the format 'barnabas' is fixed and cannot be set: it is {expected}, not {given}; "
            "leave .schema(...) out, choose columns with the option columns, and decode values in the query"
        )
