# cython: language_level=3, annotation_typing=False
"""Joins of a stream with a table, or with a global one: each record looks the table's value up.

C types are in `kstream_ktable_join.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.streams.engine.processors.kstream_kstream_join import JoinerWithKey
from barnabas.streams.engine.processors.operator import Operator, ValueGetter, ValueGetterSupplier
from barnabas.streams.state.time_ordered_buffer import Eviction

if not cython.compiled:
    from barnabas.streams.engine.operator_processor import OperatorProcessor
    from barnabas.streams.topology.record import make_record

if TYPE_CHECKING:
    from barnabas.streams.topology.record import Record

#: (key, value) -> the table's key.
KeyMapper = Callable[[Any, Any], Any]


class KStreamKTableJoin(Operator):
    """Joins with a table; with a grace, records wait in `buffer_store` and see the table as of their time."""

    def __init__(
        self,
        value_getter_supplier: ValueGetterSupplier,
        joiner: JoinerWithKey,
        left_join: bool,
        grace_period: Any | None = None,
        buffer_store: Any | None = None,
    ) -> None:
        super().__init__(buffer_store)
        self.value_getter_supplier = value_getter_supplier
        self.joiner = joiner
        self.left_join = left_join
        self.grace_period = grace_period

    def __call__(self) -> KStreamKTableJoinProcessor:
        """Return a new processor."""
        buffer = None if self.grace_period is None else self.store_name
        return KStreamKTableJoinProcessor(self.value_getter_supplier(), _same_key, self.joiner, self.left_join, buffer)


class KStreamGlobalKTableJoin(Operator):
    """Joins with a global table, by a key that is made of the record."""

    def __init__(
        self,
        value_getter_supplier: ValueGetterSupplier,
        joiner: JoinerWithKey,
        mapper: KeyMapper,
        left_join: bool,
    ) -> None:
        super().__init__()
        self.value_getter_supplier = value_getter_supplier
        self.joiner = joiner
        self.mapper = mapper
        self.left_join = left_join

    def __call__(self) -> KStreamKTableJoinProcessor:
        """Return a new processor."""
        return KStreamKTableJoinProcessor(self.value_getter_supplier(), self.mapper, self.joiner, self.left_join, None)


def _same_key(key: Any, value: Any) -> Any:
    return key


@cython.cclass
class KStreamKTableJoinProcessor(OperatorProcessor):
    """See `KStreamKTableJoin`."""

    def __init__(
        self,
        value_getter: ValueGetter,
        key_mapper: KeyMapper,
        joiner: JoinerWithKey,
        left_join: bool,
        buffer_name: str | None,
    ) -> None:
        self._getter = value_getter
        self._mapper = key_mapper
        self._joiner = joiner
        self._left_join = left_join
        self._buffer_name = buffer_name
        self._versioned = False
        self._buffer: Any = None

    def init(self, context: Any) -> None:
        """Find table and buffer. Raises ValueError when records shall wait and the table has no history."""
        self.context = context
        self._getter.init(context)
        self._versioned = self._getter.is_versioned
        if self._buffer_name is not None:
            if not self._versioned:
                raise ValueError("KTable must be versioned to use a grace period in a stream table join.")
            self._buffer = context.get_state_store(self._buffer_name)

    def process(self, record: Record[Any, Any]) -> None:
        """Join the record, now or when its time has come; without key or value it is dropped."""
        mapped = self._mapper(record.key, record.value)
        if record.value is None or (mapped is None and not self._left_join):
            self.context.drop("null join key or value")
            return
        if self._buffer is None:
            self._join(record)
        elif self._buffer.put(record, self.context.record_context):
            self._buffer.evict(self._emit)
        else:
            self._join(record)

    def _emit(self, due: Eviction) -> None:
        context = self.context
        record = make_record(due.key, due.value, due.context.timestamp, due.context.header_list)
        previous = context.record_context
        context.record_context = due.context
        try:
            self._join(record)
        finally:
            context.record_context = previous

    def _join(self, record: Record[Any, Any]) -> None:
        key = self._mapper(record.key, record.value)
        found = None
        if key is not None:
            found = self._getter.get(key, record.timestamp if self._versioned else None)
        value = None if found is None else found.value
        if self._left_join or value is not None:
            joined = self._joiner(record.key, record.value, value)
            self.context.forward_all(make_record(record.key, joined, record.timestamp, record.header_list))

    def close(self) -> None:
        """Close the getter."""
        self._getter.close()
