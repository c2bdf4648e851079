"""Descriptor files of Protobuf, made without protoc: an order with lines, and a message that it imports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

STRING, INT64, INT32, DOUBLE, BYTES, ENUM, MESSAGE = 9, 3, 5, 1, 12, 14, 11
OPTIONAL, REPEATED = 1, 3


def descriptor_set(*, with_imports: bool = True) -> bytes:
    """What `protoc --descriptor_set_out` makes of shop.proto, which imports money.proto and timestamp.proto."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    found = descriptor_pb2.FileDescriptorSet()
    if with_imports:
        money = found.file.add(name="money.proto", package="shop", syntax="proto3")
        amount = money.message_type.add(name="Money")
        amount.field.add(name="cents", number=1, type=INT64, label=OPTIONAL)
    shop = found.file.add(name="shop.proto", package="shop", syntax="proto3")
    shop.dependency.extend(["money.proto", "google/protobuf/timestamp.proto"])
    state = shop.enum_type.add(name="State")
    state.value.add(name="OPEN", number=0)
    state.value.add(name="PAID", number=1)
    order = shop.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=INT64, label=OPTIONAL)
    order.field.add(name="user_name", number=2, type=STRING, label=OPTIONAL)
    order.field.add(name="total", number=3, type=MESSAGE, type_name=".shop.Money", label=OPTIONAL)
    order.field.add(name="lines", number=4, type=MESSAGE, type_name=".shop.Order.Line", label=REPEATED)
    order.field.add(name="state", number=5, type=ENUM, type_name=".shop.State", label=OPTIONAL)
    order.field.add(name="made", number=6, type=MESSAGE, type_name=".google.protobuf.Timestamp", label=OPTIONAL)
    order.field.add(name="stock", number=7, type=MESSAGE, type_name=".shop.Order.StockEntry", label=REPEATED)
    order.field.add(name="seal", number=8, type=BYTES, label=OPTIONAL)
    line = order.nested_type.add(name="Line")
    line.field.add(name="article", number=1, type=STRING, label=OPTIONAL)
    line.field.add(name="count", number=2, type=INT32, label=OPTIONAL)
    entry = order.nested_type.add(name="StockEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=STRING, label=OPTIONAL)
    entry.field.add(name="value", number=2, type=DOUBLE, label=OPTIONAL)
    return bytes(found.SerializeToString())


def descriptor_file(directory: Path, *, with_imports: bool = True) -> Path:
    """The same in a file."""
    path = directory / "shop.desc"
    path.write_bytes(descriptor_set(with_imports=with_imports))
    return path


def order(**fields: Any) -> bytes:
    """A shop.Order, serialized by Protobuf's own classes; fields as json_format takes them."""
    from google.protobuf import descriptor_pb2, json_format, message_factory, timestamp_pb2

    found = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set())
    found.file.insert(0, descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb))
    make = message_factory.GetMessages(list(found.file))["shop.Order"]  # type: ignore[attr-defined]
    return bytes(json_format.ParseDict(fields, make()).SerializeToString())
