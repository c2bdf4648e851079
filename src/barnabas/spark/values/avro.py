"""Avro: what a schema is in Arrow, and values of a writer's schema read as those of a reader's.

Needs fastavro, from the extra `avro`. Types: https://avro.apache.org/docs/1.12.0/specification/
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

WriterSchemas = Callable[[int], str]

#: Logical types that become a type of their own; any other is read as what it is based on.
_LOGICAL = {"date", "timestamp-millis", "timestamp-micros", "decimal"}


def fastavro() -> Any:
    """Return the module fastavro. Raises `ImportError` with advice where it is not installed."""
    try:
        import fastavro as module
    except ImportError:
        raise ImportError("Avro needs the package fastavro: pip install 'barnabas[avro]'") from None
    return module


class AvroDecoder:
    """Reads values written with any schema as those of one schema; picklable."""

    def __init__(self, schema: str, writer_schemas: WriterSchemas | None) -> None:
        """`writer_schemas` gives the schema of an id; without it all are written with `schema`."""
        self._schema = schema
        self._writer_schemas = writer_schemas
        self._parsed: dict[int | None, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parsed": {}}

    def __call__(self, schema_id: int | None, data: bytes) -> Any:
        """Decode the value. Raises an exception of some kind for bytes that cannot be decoded."""
        reader = self._reader(None)
        writer = reader if schema_id is None else self._reader(schema_id)
        return fastavro().schemaless_reader(io.BytesIO(data), writer, reader)

    def arrow_type(self) -> pa.DataType:
        """Return the type of the values. Raises IllegalArgumentError for what has none (unions, recursion)."""
        return arrow_type(json.loads(self._schema), {}, "value")

    def _reader(self, schema_id: int | None) -> Any:
        if schema_id not in self._parsed:
            if schema_id is None:
                text = self._schema
            else:
                assert self._writer_schemas is not None
                text = self._writer_schemas(schema_id)
            self._parsed[schema_id] = fastavro().parse_schema(_without_other_logical_types(json.loads(text)))
        return self._parsed[schema_id]


def _without_other_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_other_logical_types(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = "logicalType" in schema and schema["logicalType"] not in _LOGICAL
    kept = {name: part for name, part in schema.items() if not (dropped and name == "logicalType")}
    nested = {"type", "items", "values", "fields"}
    return {name: _without_other_logical_types(part) if name in nested else part for name, part in kept.items()}


def arrow_type(schema: Any, named: Mapping[str, pa.DataType | None], path: str) -> pa.DataType:
    """Return the Arrow type of a parsed schema; `named` are the types met on the way, None inside themselves."""
    import pyarrow as pa

    if isinstance(schema, str):
        return _by_name(schema, named, path)
    if isinstance(schema, list):
        return _union(schema, named, path)
    kind = schema["type"]
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if (kind, logical) in _LOGICAL_TYPES:
        return _LOGICAL_TYPES[kind, logical](pa)
    if kind in ("enum", "fixed"):
        return _remember(schema, named, pa.string() if kind == "enum" else pa.binary())
    if kind == "array":
        return pa.list_(arrow_type(schema["items"], named, f"{path}.element"))
    if kind == "map":
        return pa.map_(pa.string(), arrow_type(schema["values"], named, f"{path}.value"))
    if kind in ("record", "error"):
        _remember(schema, named, None)
        fields = [
            (each["name"], arrow_type(each["type"], named, f"{path}.{each['name']}")) for each in schema["fields"]
        ]
        return _remember(schema, named, pa.struct(fields))
    return arrow_type(kind, named, path)


def _remember(schema: Any, named: Any, found: pa.DataType | None) -> Any:
    name = str(schema["name"])
    named[name] = found
    if "namespace" in schema and "." not in name:
        named[f"{schema['namespace']}.{name}"] = found
    return found


def _by_name(name: str, named: Mapping[str, pa.DataType | None], path: str) -> pa.DataType:
    import pyarrow as pa

    if name in _PRIMITIVES:
        return _PRIMITIVES[name](pa)
    found = named.get(name)
    if found is None:
        raise IllegalArgumentError(
            f"the Avro schema has the type {name!r} inside itself, or does not define it, at {path}: Spark has no "
            "recursive types; give a schema without that field"
        )
    return found


def _union(parts: list[Any], named: Mapping[str, pa.DataType | None], path: str) -> pa.DataType:
    given = [part for part in parts if part != "null"]
    wider = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
    if len(given) > 1 and all(isinstance(part, str) for part in given):
        given = [wider.get(frozenset(given), given)]
    if len(given) != 1 or isinstance(given[0], list):
        raise IllegalArgumentError(
            f"the Avro schema has the union {json.dumps(parts)} at {path}, and a column has one type: give a schema "
            "with one of them, or without the field"
        )
    return arrow_type(given[0], named, path)


_PRIMITIVES: dict[str, Callable[[Any], Any]] = {
    "null": lambda pa: pa.null(),
    "boolean": lambda pa: pa.bool_(),
    "int": lambda pa: pa.int32(),
    "long": lambda pa: pa.int64(),
    "float": lambda pa: pa.float32(),
    "double": lambda pa: pa.float64(),
    "bytes": lambda pa: pa.binary(),
    "string": lambda pa: pa.string(),
}
_LOGICAL_TYPES: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("int", "date"): lambda pa: pa.date32(),
    ("long", "timestamp-millis"): lambda pa: pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): lambda pa: pa.timestamp("us", tz="UTC"),
}
