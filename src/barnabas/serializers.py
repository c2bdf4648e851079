"""Serializers and deserializers under Kafka's names, and the types of those of your own."""

from __future__ import annotations

from barnabas import _lazily

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from barnabas.client.format_serializers import (
        AvroDeserializer,
        AvroSerializer,
        MsgpackDeserializer,
        MsgpackSerializer,
        ProtobufDeserializer,
        ProtobufSerializer,
    )
    from barnabas.client.serializers import (
        BytesSerializer,
        DeserializerSetting,
        DoubleDeserializer,
        DoubleSerializer,
        FloatDeserializer,
        FloatSerializer,
        IntegerDeserializer,
        IntegerSerializer,
        JSONDeserializer,
        JSONSerializer,
        KafkaDeserializer,
        KafkaSerializer,
        LongDeserializer,
        LongSerializer,
        SerializerSetting,
        ShortDeserializer,
        ShortSerializer,
        StringDeserializer,
        StringSerializer,
        UUIDDeserializer,
        UUIDSerializer,
    )

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "BytesSerializer",
    "DeserializerSetting",
    "DoubleDeserializer",
    "DoubleSerializer",
    "FloatDeserializer",
    "FloatSerializer",
    "IntegerDeserializer",
    "IntegerSerializer",
    "JSONDeserializer",
    "JSONSerializer",
    "KafkaDeserializer",
    "KafkaSerializer",
    "LongDeserializer",
    "LongSerializer",
    "MsgpackDeserializer",
    "MsgpackSerializer",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "SerializerSetting",
    "ShortDeserializer",
    "ShortSerializer",
    "StringDeserializer",
    "StringSerializer",
    "UUIDDeserializer",
    "UUIDSerializer",
]

_HOMES = {
    "barnabas.client.format_serializers": (
        "AvroDeserializer AvroSerializer MsgpackDeserializer MsgpackSerializer ProtobufDeserializer ProtobufSerializer"
    ),
    "barnabas.client.serializers": (
        "BytesSerializer DeserializerSetting DoubleDeserializer DoubleSerializer FloatDeserializer FloatSerializer "
        "IntegerDeserializer IntegerSerializer JSONDeserializer JSONSerializer KafkaDeserializer KafkaSerializer "
        "LongDeserializer LongSerializer SerializerSetting ShortDeserializer ShortSerializer StringDeserializer "
        "StringSerializer UUIDDeserializer UUIDSerializer"
    ),
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
