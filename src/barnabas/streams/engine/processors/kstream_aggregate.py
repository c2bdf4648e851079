# cython: language_level=3, annotation_typing=False
"""Aggregations of a stream by key, without windows: aggregate, count, reduce, and what cogroups share.

C types are in `kstream_aggregate.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.streams.engine.processors.operator import (
    Operator,
    StoreValueGetterSupplier,
    ValueGetterSupplier,
)

if not cython.compiled:
    from barnabas.streams.engine.operator_processor import OperatorProcessor
    from barnabas.streams.engine.processors.table_processor import TableProcessor
    from barnabas.streams.serdes.key_bytes import field

if TYPE_CHECKING:
    from barnabas.streams.topology.record import Record

#: () -> the aggregate to begin with.
Initializer = Callable[[], Any]
#: (key, value, aggregate) -> aggregate.
Aggregator = Callable[[Any, Any, Any], Any]
#: (old value, new value) -> value.
Reducer = Callable[[Any, Any], Any]


class Aggregation(Operator):
    """A supplier for an aggregation of a stream or of a grouped table; its table sends old values where asked for."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.send_old_values = False

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Send old values from now on."""
        self.send_old_values = True
        return True

    def view(self) -> ValueGetterSupplier:
        """Return what looks the table's values up."""
        return StoreValueGetterSupplier(self.store_name)


class KStreamAggregate(Aggregation):
    """Adds each value to the aggregate of its key."""

    def __init__(self, store: Any, initializer: Initializer, aggregator: Aggregator) -> None:
        super().__init__(store)
        self.initializer = initializer
        self.aggregator = aggregator

    def __call__(self) -> KStreamAggregateProcessor:
        """Return a new processor."""
        return KStreamAggregateProcessor(self.store_name, self.send_old_values, self.initializer, self.aggregator)


@cython.cclass
class KStreamAggregateProcessor(TableProcessor):
    """See `KStreamAggregate`."""

    def __init__(
        self, store_name: str, send_old_values: bool, initializer: Initializer, aggregator: Aggregator
    ) -> None:
        super().__init__(store_name, send_old_values)
        self._initializer = initializer
        self._aggregator = aggregator

    def process(self, record: Record[Any, Any]) -> None:
        """Update the aggregate; records without key or value are dropped."""
        if record.key is None or record.value is None:
            self.context.drop("null key or value")
            return
        found = self.stored(record.key)
        timestamp = record.timestamp
        if found is None or field(found, 0) is None:
            old = self._initializer()
        else:
            old, before = field(found, 0), field(found, 1)
            if before > timestamp:
                timestamp = before
        self.put_and_forward(record, self._aggregator(record.key, record.value, old), old, timestamp)


class KStreamReduce(Aggregation):
    """Combines each value with what its key had before."""

    def __init__(self, store: Any, reducer: Reducer) -> None:
        super().__init__(store)
        self.reducer = reducer

    def __call__(self) -> KStreamReduceProcessor:
        """Return a new processor."""
        return KStreamReduceProcessor(self.store_name, self.send_old_values, self.reducer)


@cython.cclass
class KStreamReduceProcessor(TableProcessor):
    """See `KStreamReduce`."""

    def __init__(self, store_name: str, send_old_values: bool, reducer: Reducer) -> None:
        super().__init__(store_name, send_old_values)
        self._reducer = reducer

    def process(self, record: Record[Any, Any]) -> None:
        """Update the value; records without key or value are dropped."""
        if record.key is None or record.value is None:
            self.context.drop("null key or value")
            return
        found = self.stored(record.key)
        timestamp = record.timestamp
        if found is None or field(found, 0) is None:
            old, new = None, record.value
        else:
            old, before = field(found, 0), field(found, 1)
            new = self._reducer(old, record.value)
            if before > timestamp:
                timestamp = before
        self.put_and_forward(record, new, old, timestamp)


class KTablePassThrough(Operator):
    """The end of a cogroup: forwards what its aggregations, the `parents`, send, and looks values up in their store."""

    def __init__(self, parents: Sequence[Aggregation], store: Any) -> None:
        super().__init__(store)
        self.parents = parents

    def stores(self) -> list[Any]:
        """Return nothing: the parents bring the store."""
        return []

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Let all parents send old values."""
        for parent in self.parents:
            parent.enable_sending_old_values()
        return True

    def view(self) -> ValueGetterSupplier:
        """Return what looks the table's values up."""
        return StoreValueGetterSupplier(self.store_name)

    def __call__(self) -> KTablePassThroughProcessor:
        """Return a new processor."""
        return KTablePassThroughProcessor()


@cython.cclass
class KTablePassThroughProcessor(OperatorProcessor):
    """See `KTablePassThrough`."""

    def process(self, record: Record[Any, Any]) -> None:
        """Forward the record."""
        self.context.forward_all(record)
