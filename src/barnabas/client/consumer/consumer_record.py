"""`ConsumerRecord` with the types of its key and value, for type checkers; at run time it is the compiled class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import typing_extensions

    from barnabas.records import decoder

    # What the deserializers return; anything, where settings do not tell a type checker.
    K = typing_extensions.TypeVar("K", default=Any)
    V = typing_extensions.TypeVar("V", default=Any)

    class ConsumerRecord(decoder.ConsumerRecord, Generic[K, V]):
        """See `barnabas.records.decoder.ConsumerRecord`; deserializers are not asked about a null key or value."""

        key: K | None
        value: V | None

else:
    from barnabas.records.decoder import ConsumerRecord as ConsumerRecord

    K = TypeVar("K")
    V = TypeVar("V")
