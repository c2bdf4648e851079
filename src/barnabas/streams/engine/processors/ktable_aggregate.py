"""Aggregations of a grouped table: what a row was is subtracted, what it is is added."""

from __future__ import annotations

from typing import Any

from barnabas.streams.engine.processors.kstream_aggregate import Aggregation, Aggregator, Initializer, Reducer
from barnabas.streams.engine.processors.operator import (
    DerivedGetter,
    DerivedGetterSupplier,
    Operator,
    ValueGetterSupplier,
)
from barnabas.streams.engine.processors.stateless import Mapper
from barnabas.streams.engine.processors.table_processor import TableProcessor
from barnabas.streams.errors import StreamsError
from barnabas.streams.serdes.change import Change
from barnabas.streams.state.store import ValueAndTimestamp
from barnabas.streams.topology.processor_api import ContextualProcessor
from barnabas.streams.topology.record import Record


class KTableRepartitionMap(Operator):
    """Maps the rows of a table to the keys and values by which they are grouped."""

    def __init__(self, parent: Any, mapper: Mapper) -> None:
        super().__init__()
        self.parent = parent
        self.mapper = mapper
        self.use_versioned_semantics = False

    def set_use_versioned_semantics(self, use: bool) -> None:
        """Say whether the table before is versioned: then changes of old versions are left out."""
        self.use_versioned_semantics = use

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        """Raise RuntimeError: it always sends them."""
        raise RuntimeError("KTableRepartitionMap should always require sending old values.")

    def view(self) -> ValueGetterSupplier:
        """Return what maps the parent's values."""
        return _RepartitionGetterSupplier(self.parent.value_getter_supplier(), self._getter)

    def _getter(self, parent: Any) -> Any:
        return _RepartitionGetter(parent, self.mapper)

    def __call__(self) -> KTableRepartitionMapProcessor:
        """Return a new processor."""
        return KTableRepartitionMapProcessor(self)


class _RepartitionGetterSupplier(DerivedGetterSupplier):
    def store_names(self) -> list[str]:
        """Raise `StreamsError`: the stores lie before a repartition topic."""
        raise StreamsError("Underlying state store not accessible due to repartitioning.")


class _RepartitionGetter(DerivedGetter):
    def __init__(self, parent: Any, mapper: Mapper) -> None:
        super().__init__(parent)
        self._mapper = mapper

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return the mapped pair of the parent's value."""
        found = self._parent.get(key) if as_of is None else self._parent.get(key, as_of)
        pair = self._mapper(key, None if found is None else found.value)
        return ValueAndTimestamp(pair, self._context.record_context.timestamp if found is None else found.timestamp)


class KTableRepartitionMapProcessor(ContextualProcessor[Any, Any]):
    """See `KTableRepartitionMap`."""

    def __init__(self, operator: KTableRepartitionMap) -> None:
        self._operator = operator
        self._mapper = operator.mapper

    def process(self, record: Record[Any, Change]) -> None:
        """Send old and new row on: in one record when the group stays. Raises `StreamsError` for a key of None."""
        if record.key is None:
            raise StreamsError("Record key for the grouping KTable should not be null.")
        change = record.value
        if self._operator.use_versioned_semantics and not change.is_latest:
            return
        new = self._pair(record.key, change.new_value)
        old = self._pair(record.key, change.old_value)
        latest = change.is_latest
        if old is not None and new is not None and old[0] == new[0]:
            self._forward(record, old[0], Change(new[1], old[1], latest))
            return
        if old is not None:
            self._forward(record, old[0], Change(None, old[1], latest))
        if new is not None:
            self._forward(record, new[0], Change(new[1], None, latest))

    def _pair(self, key: Any, value: Any) -> Any:
        if value is None:
            return None
        pair = self._mapper(key, value)
        return None if pair is None or pair[0] is None or pair[1] is None else pair

    def _forward(self, record: Record[Any, Any], key: Any, change: Change) -> None:
        self.context.forward(Record(key, change, record.timestamp, record.headers))


class RowAggregateProcessor(TableProcessor):
    """Removes the old row from what its key has, and adds the new one: what aggregations and reductions share."""

    WHAT = ""

    def __init__(self, operator: KTableAggregate | KTableReduce) -> None:
        super().__init__(operator.store_name, operator.send_old_values)
        self._operator: Any = operator

    def process(self, record: Record[Any, Change]) -> None:
        """Update what the key has. Raises `StreamsError` for a key of None."""
        key, change = record.key, record.value
        if key is None:
            raise StreamsError(
                f"Record key for KTable {self.WHAT} operator with state {self.store_name} should not be null."
            )
        found = self.stored(key)
        old = None if found is None else found.value
        timestamp = record.timestamp if found is None else max(record.timestamp, found.timestamp)
        new = old
        is_removed = change.old_value is not None and old is not None
        if is_removed:
            new = self._removed(key, change.old_value, old)
        if change.new_value is not None:
            new = self._added(key, change.new_value, new)
        elif not is_removed:
            timestamp = record.timestamp
        self.put_and_forward(record, new, old, timestamp)

    def _removed(self, key: Any, row: Any, value: Any) -> Any:
        """Return the value without a row."""
        raise NotImplementedError

    def _added(self, key: Any, row: Any, value: Any) -> Any:
        """Return the value with a row; there may be none yet."""
        raise NotImplementedError


class KTableAggregate(Aggregation):
    """Removes old rows from the aggregate of their key and adds new ones."""

    def __init__(self, store: Any, initializer: Initializer, add: Aggregator, remove: Aggregator) -> None:
        super().__init__(store)
        self.initializer = initializer
        self.add = add
        self.remove = remove

    def __call__(self) -> KTableAggregateProcessor:
        """Return a new processor."""
        return KTableAggregateProcessor(self)


class KTableAggregateProcessor(RowAggregateProcessor):
    """See `KTableAggregate`."""

    WHAT = "aggregate"

    def _removed(self, key: Any, row: Any, value: Any) -> Any:
        return self._operator.remove(key, row, value)

    def _added(self, key: Any, row: Any, value: Any) -> Any:
        return self._operator.add(key, row, self._operator.initializer() if value is None else value)


class KTableReduce(Aggregation):
    """Removes old rows from the value of their key and adds new ones."""

    def __init__(self, store: Any, add_reducer: Reducer, remove_reducer: Reducer) -> None:
        super().__init__(store)
        self.add_reducer = add_reducer
        self.remove_reducer = remove_reducer

    def __call__(self) -> KTableReduceProcessor:
        """Return a new processor."""
        return KTableReduceProcessor(self)


class KTableReduceProcessor(RowAggregateProcessor):
    """See `KTableReduce`."""

    WHAT = "reduce"

    def _removed(self, key: Any, row: Any, value: Any) -> Any:
        return self._operator.remove_reducer(value, row)

    def _added(self, key: Any, row: Any, value: Any) -> Any:
        return row if value is None else self._operator.add_reducer(value, row)
