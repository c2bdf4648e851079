"""The records of a cluster's metadata as bytes: a frame, a type, a version, a message (MetadataRecordSerde)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import ProtocolError, UnsupportedVersionError
from barnabas.protocol.names import camel_case

if TYPE_CHECKING:
    from barnabas.protocol.message import Buffer, Message

#: The frame's version, before the type of each record.
FRAME_VERSION = 1

#: Record type → module of the message.
RECORDS: dict[int, str] = {
    0: "register_broker_record",
    1: "unregister_broker_record",
    2: "topic_record",
    3: "partition_record",
    4: "config_record",
    5: "partition_change_record",
    7: "fence_broker_record",
    8: "unfence_broker_record",
    9: "remove_topic_record",
    10: "delegation_token_record",
    11: "user_scram_credential_record",
    12: "feature_level_record",
    14: "client_quota_record",
    15: "producer_ids_record",
    17: "broker_registration_change_record",
    18: "access_control_entry_record",
    19: "remove_access_control_entry_record",
    20: "no_op_record",
    21: "zk_migration_state_record",
    22: "remove_user_scram_credential_record",
    23: "begin_transaction_record",
    24: "end_transaction_record",
    25: "abort_transaction_record",
    26: "remove_delegation_token_record",
    27: "register_controller_record",
    28: "clear_elr_record",
}

_classes: dict[int, type[Message]] = {}


class ApiMessageAndVersion(NamedTuple):
    """A record, and the version that it is written in."""

    message: Message
    version: int = 0


def record_class(record_type: int) -> type[Message]:
    """Return the message of a record type. Raises `UnsupportedVersionError` for one that is not known."""
    found = _classes.get(record_type)
    if found is None:
        name = RECORDS.get(record_type)
        if name is None:
            raise UnsupportedVersionError(
                f"there is a metadata record of type {record_type}, which this version of barnabas does not know: "
                "upgrade barnabas, or lower the cluster's metadata.version"
            )
        capital = camel_case(name)
        module = import_module(f"barnabas.protocol.messages.{name}")
        found = _classes[record_type] = getattr(module, capital[0].upper() + capital[1:])
    return found


def decode_record(value: Buffer) -> Message:
    """Return the message of a record's value.

    Raises `ProtocolError` for malformed bytes, `UnsupportedVersionError` for a type or version that is not known.
    """
    return decode_versioned_record(value).message


def decode_versioned_record(value: Buffer) -> ApiMessageAndVersion:
    """Return the message of a record's value, and its version. Raises as `decode_record` does."""
    data = memoryview(value)
    frame, offset = _varint(data, 0)
    if frame != FRAME_VERSION:
        raise UnsupportedVersionError(f"a metadata record has the frame version {frame}; {FRAME_VERSION} is known")
    record_type, offset = _varint(data, offset)
    version, offset = _varint(data, offset)
    return ApiMessageAndVersion(record_class(record_type).decode(data[offset:], version), version)


def encode_record(message: Message, version: int) -> bytes:
    """Return a record's value. Raises as `Message.encode` does."""
    header = bytearray()
    for number in (FRAME_VERSION, message.API_KEY, version):
        while number > 0x7F:
            header.append(number & 0x7F | 0x80)
            number >>= 7
        header.append(number)
    return bytes(header) + message.encode(version)


def _varint(data: memoryview, offset: int) -> tuple[int, int]:
    """Read an unsigned varint; the number and the position behind it."""
    found = shift = 0
    while True:
        if offset >= len(data) or shift > 28:
            raise ProtocolError(f"a metadata record ends, or has no varint, at byte {offset}")
        byte = data[offset]
        offset += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, offset
        shift += 7
