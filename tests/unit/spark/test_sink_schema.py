"""What rows the sink takes; the messages are those of Spark's built-in connector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from barnabas.spark.errors import SinkSchemaError
from barnabas.spark.sink_schema import check_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

HEADERS = "headers array<struct<key:string,value:binary>>"


def schema(ddl: str) -> StructType:
    # StructType.fromDDL would need a JVM.
    from pyspark.sql import types as t

    kinds = {
        "string": t.StringType(), "binary": t.BinaryType(), "int": t.IntegerType(), "bigint": t.LongType(),
        "timestamp": t.TimestampType(),
        "array<struct<key:string,value:binary>>": t.ArrayType(
            t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType(), False)])
        ),
    }  # fmt: skip
    columns = [column.split(" ", 1) for column in ddl.split("; ")]
    return t.StructType([t.StructField(name, kinds[kind]) for name, kind in columns])


@pytest.mark.parametrize(
    "ddl",
    ["value string", "value binary; key string; topic string", f"value binary; partition int; {HEADERS}",
     "value string; offset bigint", "value string; timestamp timestamp", "value string; timestamp bigint"],
)  # fmt: skip
def test_the_built_ins_columns_in_its_types_are_taken_and_others_ignored(ddl: str) -> None:
    check_schema(schema(ddl), "flights")


@pytest.mark.parametrize(
    ("ddl", "topic", "message"),
    [
        ("value string", None, "topic option required when no 'topic' attribute is present. Use the topic option for "
         "setting a topic"),
        ("key string", "flights", "Required attribute 'value' not found"),
        ("value string; topic binary", None, "topic attribute unsupported type binary. topic must be a(n) string"),
        ("value string; key int", "flights", "key attribute unsupported type int. key must be a(n) string or binary"),
        ("value int", "flights", "value attribute unsupported type int. value must be a(n) string or binary"),
        ("value string; headers string", "flights", "headers attribute unsupported type string. headers must be a(n) "
         "array<struct<key:string,value:binary>>"),
        ("value string; partition bigint", "flights", "partition attribute unsupported type bigint. partition must be "
         "a(n) int"),
        ("key int; partition bigint", "flights", "key attribute"),
        ("value string; timestamp string", "flights", "timestamp attribute unsupported type string. timestamp must be "
         "a(n) timestamp or bigint; with the option includeTimestamp=false it is left out"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused_in_the_built_ins_words_and_order(
    ddl: str, topic: str | None, message: str
) -> None:
    with pytest.raises(SinkSchemaError) as refused:
        check_schema(schema(ddl), topic)

    assert str(refused.value).startswith(message)


def test_the_option_topic_makes_the_type_of_the_column_irrelevant() -> None:
    check_schema(schema("value string; topic binary"), "flights")


def test_without_timestamps_the_type_of_their_column_is_irrelevant_as_in_the_built_in_connector() -> None:
    check_schema(schema("value string; timestamp string"), "flights", include_timestamp=False)
