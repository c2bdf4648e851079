"""Values as columns: JSON, Avro and Protobuf, with or without Schema Registry's framing, and what cannot be read.

Each `decode_*` gives a column `struct<value, error string>`: `error` says why a value cannot be read and is null
otherwise; a null (a tombstone) stays null and is no error. `decoded_rows` and `dead_letters` part the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.errors import IllegalArgumentError
from barnabas.spark.values.schema_registry import FRAME_SIZE, SchemaRegistryError, SchemasById, unframed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

Decode = Callable[[int | None, bytes], Any]

#: Kafka Connect's names of the headers that say what became of a record (KIP-298).
ERROR_HEADERS = {
    "topic": "__connect.errors.topic",
    "partition": "__connect.errors.partition",
    "offset": "__connect.errors.offset",
    "error": "__connect.errors.exception.message",
}
_CORRUPT = "_corrupt_record"


def decode_json(column: Column | str, schema: str | StructType, *, framed: bool = False) -> Column:
    """Read JSON with Spark's own `from_json`, without leaving the JVM; `schema` as DDL or a StructType.

    `framed`: the values are those of Schema Registry's JSON serializer, with the id of a schema before them.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    fields = _fields(schema)
    data = f.col(column) if isinstance(column, str) else column
    text = f.substring(data, FRAME_SIZE + 1, 0x7FFFFFFF) if framed else data
    wanted = StructType([*fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = f.from_json(text.cast("string"), wanted, options)
    value = f.struct(*[parsed[field.name].alias(field.name) for field in fields])
    has_frame = (f.substring(data, 1, 1) == f.lit(b"\0")) & (f.length(data) > FRAME_SIZE)
    error = (
        f.when(data.isNull(), None)
        .when(f.lit(framed) & ~has_frame, f.lit("no frame of the Schema Registry (0 and 4 bytes of schema id)"))
        .when(f.trim(text.cast("string")) == "", f.lit("no JSON: it is empty"))
        .when(parsed.isNull() | parsed[_CORRUPT].isNotNull(), f.lit(f"no JSON of the type {fields.simpleString()}"))
    )
    good = f.when(data.isNotNull() & error.isNull(), value)
    return f.struct(good.alias("value"), error.alias("error"))


def _fields(schema: str | StructType) -> StructType:
    from pyspark.sql.types import StructType, _parse_datatype_string

    found = _parse_datatype_string(schema) if isinstance(schema, str) else schema
    if not isinstance(found, StructType):
        raise IllegalArgumentError(f"the JSON values must be objects: schema {schema!r} is no struct")
    return found


def decode_avro(
    column: Column | str, schema: str | None = None, *, registry: str | None = None, subject: str | None = None
) -> Column:
    """Read Avro as values of `schema`, its JSON text, or of the latest schema of a registry's `subject`.

    With `registry` (`http://host:8081`) each value begins with the id of the schema it was written with, and is
    resolved to `schema` by Avro's rules; without, all are written with `schema` and have no frame. A registry that
    cannot be asked fails the query; an unknown id is an error of the record.
    """
    from barnabas.spark.values.avro import AvroDecoder

    schemas = None if registry is None else SchemasById(registry)
    if (schema is None) == (subject is None) or (subject is not None and schemas is None):
        raise IllegalArgumentError("Avro needs one of schema and subject, and a subject needs a registry")
    wanted = schema if schema is not None else schemas.latest(str(subject))  # type: ignore[union-attr]  # checked above
    decoder = AvroDecoder(wanted, schemas)
    return _decoded(column, decoder, decoder.arrow_type(), framed=schemas is not None)


def decode_protobuf(column: Column | str, message: str, descriptor_set: bytes, *, framed: bool = False) -> Column:
    """Read Protobuf messages of a type by its full name, out of a serialized FileDescriptorSet.

    `protoc --include_imports --descriptor_set_out=FILE` writes one. `framed`: a schema's id and message indexes come
    before each, as Schema Registry's serializer writes them.
    """
    from barnabas.spark.values.protobuf import ProtobufDecoder, without_message_indexes

    decoder = ProtobufDecoder(descriptor_set, message)

    def decode_framed(schema_id: int | None, data: bytes) -> Any:
        return decoder(schema_id, without_message_indexes(data))

    return _decoded(column, decode_framed if framed else decoder, decoder.arrow_type(), framed=framed)


def _decoded(column: Column | str, decode: Decode, value_type: pa.DataType, *, framed: bool) -> Column:
    import pyarrow as pa
    from pyspark.sql.pandas import functions
    from pyspark.sql.pandas.types import from_arrow_type

    result = from_arrow_type(pa.struct([("value", value_type), ("error", pa.string())]))

    def run(data: pa.Array) -> pa.Array:
        return decoded_array(data, decode, value_type, framed=framed)

    # Spark reads the annotations of the function; here they are text that it cannot resolve.
    run.__annotations__ = {"data": pa.Array, "return": pa.Array}
    arrow_udf: Any = functions.arrow_udf  # PySpark's types leave structs out
    found: Column = arrow_udf(run, result)(column)
    return found


def decoded_array(data: pa.Array, decode: Decode, value_type: pa.DataType, *, framed: bool) -> pa.Array:
    """Decode an array of binaries to `struct<value, error>`. Raises SchemaRegistryError; all else is the record's."""
    import pyarrow as pa

    values: list[Any] = []
    reasons: list[str | None] = []
    for each in data.to_pylist():
        value, reason = None, None
        if each is not None:
            try:
                value = decode(*(unframed(each) if framed else (None, each)))
            except SchemaRegistryError:
                raise
            except Exception as error:  # noqa: BLE001 - decoders raise what they like; it is the record's fault
                reason = _reason(error)
        values.append(value)
        reasons.append(reason)
    return pa.StructArray.from_arrays(
        [_array(values, reasons, value_type), pa.array(reasons, pa.string())], names=["value", "error"]
    )


def _array(values: list[Any], reasons: list[str | None], value_type: pa.DataType) -> pa.Array:
    """Return the values; one that does not fit the type (a number of more than 32 bits in an int) becomes an error."""
    import pyarrow as pa

    unfit = (pa.ArrowException, TypeError, ValueError, OverflowError)
    try:
        return pa.array(values, value_type)
    except unfit:
        for row, value in enumerate(values):
            try:
                pa.array([value], value_type)
            except unfit as error:
                values[row], reasons[row] = None, _reason(error)
        return pa.array(values, value_type)


def _reason(error: Exception) -> str:
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return f"{type(error).__name__}: {text}"[:1000]


def decoded_rows(frame: DataFrame, decoded: str = "decoded") -> DataFrame:
    """Return the rows that could be read."""
    return frame.where(f"{decoded}.error is null")


def dead_letters(frame: DataFrame, decoded: str = "decoded") -> DataFrame:
    """Return the rows that could not be read, as the sink takes them: key, value, and headers that say why.

    The headers have Kafka Connect's names (`__connect.errors.exception.message`, ...) and follow the record's own;
    those of topic, partition and offset are there where the frame has these columns.
    """
    from pyspark.sql import functions as f

    facts: dict[str, Column] = {name: f.col(name) for name in ("topic", "partition", "offset") if name in frame.columns}
    facts["error"] = f.col(f"{decoded}.error")
    added = [
        f.struct(f.lit(ERROR_HEADERS[name]).alias("key"), fact.cast("string").cast("binary").alias("value"))
        for name, fact in facts.items()
    ]
    headers = f.array(*added)
    if "headers" in frame.columns:
        headers = f.concat(
            f.coalesce(f.col("headers"), f.expr("cast(array() as array<struct<key:string,value:binary>>)")), headers
        )
    key = [f.col("key")] if "key" in frame.columns else []
    return frame.where(f"{decoded}.error is not null").select(*key, f.col("value"), headers.alias("headers"))
