"""What rows the sink takes: the built-in connector's columns, types and errors (Spark's KafkaWriter).

One column is ours: `timestamp`, the record's time, which the built-in connector leaves out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.spark.errors import SinkSchemaError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: Column and the types it may have, in the order in which they are checked. Other columns are left out of the records.
SINK_COLUMNS = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp", "bigint"),
}

NULL_TOPIC = "null topic present in the data. Use the topic option for setting a default topic."


def sink_columns(*, include_timestamp: bool) -> dict[str, tuple[str, ...]]:
    """Return the columns that become part of a record, with the types that each may have."""
    return {name: kinds for name, kinds in SINK_COLUMNS.items() if include_timestamp or name != "timestamp"}


def check_schema(schema: StructType, topic: str | None, *, include_timestamp: bool = True) -> None:
    """Hold the rows' schema against what a topic can take; `topic` and `include_timestamp` are the options.

    Raises SinkSchemaError in the words of the built-in connector, and says which columns there are.
    """
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    there = f"; the rows have {', '.join(f'{name} {kind}' for name, kind in types.items()) or 'no columns'}"
    if topic is None and "topic" not in types:
        raise SinkSchemaError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic"
            + there
        )
    for name, allowed in sink_columns(include_timestamp=include_timestamp).items():
        actual = types.get(name)
        if actual is None:
            if name == "value":
                raise SinkSchemaError("Required attribute 'value' not found" + there)
            continue
        is_overruled = name == "topic" and topic is not None
        if actual.lower() not in allowed and not is_overruled:
            hint = "; with the option includeTimestamp=false it is left out" if name == "timestamp" else ""
            raise SinkSchemaError(
                f"{name} attribute unsupported type {actual}. {name} must be a(n) {' or '.join(allowed)}{hint}"
            )
