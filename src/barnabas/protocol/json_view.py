"""Messages as JSON objects, in the form of Kafka's own JSON converters.

Fields have Kafka's names with a small first letter; uuids are base64url, bytes and records base64; a field that the
version lacks, and a tagged field at its default, is left out. Tagged fields that the schema does not know are kept
under `unknownTaggedFields` as base64 by tag, where Kafka drops them.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from difflib import get_close_matches
from math import isfinite

from barnabas.errors import IllegalArgumentError, IllegalTypeError
from barnabas.protocol import kafka_uuid
from barnabas.protocol.api import message_class
from barnabas.protocol.codec import Field, Plan, blank, is_default
from barnabas.protocol.message import Message, Struct
from barnabas.protocol.names import camel_case
from barnabas.protocol.plan import plan_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from barnabas.protocol.message import Buffer

UNKNOWN = "unknownTaggedFields"


def to_bytes(name: str, version: int, obj: dict[str, Any]) -> bytes:
    """Return the bytes of a message given as JSON; what is left out has its default.

    Raises `IllegalArgumentError` for a message or field that the schema does not have, and as `Message.encode` does.
    """
    return to_message(message_class(name), version, obj).encode(version)


def from_bytes(name: str, version: int, data: Buffer) -> dict[str, Any]:
    """Return a message's bytes as JSON. Raises `ProtocolError` for malformed bytes."""
    return from_message(message_class(name).decode(data, version), version)


def to_message(cls: type[Message], version: int, obj: dict[str, Any]) -> Message:
    """Return the message that a JSON object describes."""
    message: Message = _struct_in(plan_of(cls, version), obj, cls.NAME)
    return message


def from_message(message: Message, version: int) -> dict[str, Any]:
    """Return the JSON object for a message in a version."""
    return _struct_out(plan_of(type(message), version), message)


def _struct_out(plan: Plan, struct: Struct) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for field in plan.present:
        value = getattr(struct, field.name)
        if field.tag < 0 or not is_default(field, value):
            shown[camel_case(field.name)] = _value_out(field, value)
    if struct.unknown_tagged_fields:
        shown[UNKNOWN] = {str(tag): _base64(data) for tag, data in struct.unknown_tagged_fields.items()}
    return shown


def _value_out(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.element is not None:
        return [_value_out(field.element, element) for element in value]
    if field.plan is not None:
        return _struct_out(field.plan, value)
    if field.type == "float64":
        return value if isfinite(value) else str(value).replace("nan", "NaN").replace("inf", "Infinity")
    return _OUT[field.type](value) if field.type in _OUT else value


def _base64(data: Buffer) -> str:
    return b64encode(data).decode()


_OUT: dict[str, Any] = {"uuid": kafka_uuid.to_text, "bytes": _base64, "records": _base64}


def _struct_in(plan: Plan, obj: Any, path: str) -> Any:
    if not isinstance(obj, dict):
        raise IllegalTypeError(f"{path}: a JSON object is needed, not {obj!r}")
    struct = blank(plan)
    fields = {camel_case(field.name): field for field in plan.all_fields}
    for name, value in obj.items():
        if name == UNKNOWN:
            struct.unknown_tagged_fields = {int(tag): _bytes_in(data, path) for tag, data in value.items()}
            continue
        field = fields.get(name)
        if field is None:
            near = get_close_matches(name, fields, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise IllegalArgumentError(f"{path} has no field {name!r}{hint}")
        setattr(struct, field.name, _value_in(field, value, f"{path}.{name}"))
    return struct


def _value_in(field: Field, value: Any, path: str) -> Any:
    if value is None:
        return None
    if field.element is not None:
        if not isinstance(value, list):
            raise IllegalTypeError(f"{path}: a JSON array is needed, not {value!r}")
        return [_value_in(field.element, element, f"{path}[{index}]") for index, element in enumerate(value)]
    if field.plan is not None:
        return _struct_in(field.plan, value, path)
    if field.type == "uuid":
        return kafka_uuid.from_text(value)
    if field.type in ("bytes", "records"):
        return _bytes_in(value, path)
    return _float_in(value, path) if field.type == "float64" else value


def _bytes_in(value: Any, path: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (Base64Error, TypeError, ValueError):
        raise IllegalArgumentError(f"{path}: {value!r} is not base64") from None


def _float_in(value: Any, path: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise IllegalArgumentError(f"{path}: {value!r} is not a number") from None
