"""Serdes for common types under Kafka's names."""

from __future__ import annotations

from typing import Any

from barnabas.streams.serdes.primitives import (
    BooleanSerde,
    BytesSerde,
    DoubleSerde,
    FloatSerde,
    IntegerSerde,
    LongSerde,
    ShortSerde,
    StringSerde,
    VoidSerde,
)
from barnabas.streams.serdes.serde import Serde


class Serdes:
    """Serdes for common types; `of(serializer, deserializer)` makes one of any two."""

    @staticmethod
    def of(serializer: Any, deserializer: Any) -> Serde[Any]:
        """Return a serde of a serializer and a deserializer, as `barnabas.serializers` describes them."""
        return Serde(serializer, deserializer)

    serde_from = of

    @staticmethod
    def string() -> Serde[str]:
        """Return the serde of texts in UTF-8."""
        return StringSerde()

    @staticmethod
    def bytes() -> Serde[bytes]:
        """Return the serde of bytes as they are."""
        return BytesSerde()

    @staticmethod
    def long() -> Serde[int]:
        """Return the serde of ints in 8 bytes."""
        return LongSerde()

    @staticmethod
    def integer() -> Serde[int]:
        """Return the serde of ints in 4 bytes."""
        return IntegerSerde()

    @staticmethod
    def short() -> Serde[int]:
        """Return the serde of ints in 2 bytes."""
        return ShortSerde()

    @staticmethod
    def double() -> Serde[float]:
        """Return the serde of floats in 8 bytes."""
        return DoubleSerde()

    @staticmethod
    def float() -> Serde[Any]:
        """Return the serde of floats in 4 bytes."""
        return FloatSerde()

    @staticmethod
    def boolean() -> Serde[bool]:
        """Return the serde of bools in one byte."""
        return BooleanSerde()

    @staticmethod
    def uuid() -> Serde[Any]:
        """Return the serde of uuid.UUID as its text."""
        return Serde("UUIDSerializer", "UUIDDeserializer")

    @staticmethod
    def json() -> Serde[Any]:
        """Return the serde of what json can write."""
        return Serde("JSONSerializer", "JSONDeserializer")

    @staticmethod
    def void() -> Serde[None]:
        """Return the serde of None."""
        return VoidSerde()
