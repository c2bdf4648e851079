"""Operators of tables that follow from the parent's values: filter, map values, transform values.

Each keeps a store only when it was given one; else what asks for values computes them from the parent's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.streams.engine.processors.operator import (
    DerivedGetter,
    DerivedGetterSupplier,
    Operator,
    StoreValueGetterSupplier,
    ValueGetterSupplier,
)
from barnabas.streams.engine.processors.stateless import Mapper, Predicate
from barnabas.streams.engine.processors.table_processor import TableProcessor
from barnabas.streams.serdes.change import Change
from barnabas.streams.serdes.record_context import RecordContext
from barnabas.streams.state.store import ValueAndTimestamp
from barnabas.streams.topology.record import Record


class TableOperator(Operator):
    """An operator of a table with a `parent`: a table with `enable_sending_old_values` and `value_getter_supplier`."""

    def __init__(self, parent: Any, queryable_name: str | None, store: Any = None) -> None:
        super().__init__(store)
        self.parent = parent
        self.queryable_name = queryable_name
        self.send_old_values = False

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        """Send old values from now on, if the operator has a store or its parent sends them; tell whether it does."""
        if self.queryable_name is not None or self.parent.enable_sending_old_values(force_materialization):
            self.send_old_values = True
        return self.send_old_values

    def view(self) -> ValueGetterSupplier:
        """Return what looks the table's values up."""
        if self.queryable_name is not None:
            return StoreValueGetterSupplier(self.queryable_name)
        return DerivedGetterSupplier(self.parent.value_getter_supplier(), self._getter)

    def _getter(self, parent: Any) -> Any:
        raise NotImplementedError


class KTableFilter(TableOperator):
    """Lets through values for which the predicate says so, or with `filter_not` the others; the rest are tombstones."""

    def __init__(
        self, parent: Any, predicate: Predicate, filter_not: bool, queryable_name: str | None, store: Any = None
    ) -> None:
        super().__init__(parent, queryable_name, store)
        self.predicate = predicate
        self.filter_not = filter_not
        self.use_versioned_semantics = False
        # Where the parent has a store, its old values cost nothing and save superfluous tombstones.
        self.send_old_values = parent.enable_sending_old_values(False)

    def set_use_versioned_semantics(self, use: bool) -> None:
        """Say whether the table before is versioned: then tombstones are sent even if nothing was there."""
        self.use_versioned_semantics = use

    def passes(self, key: Any, value: Any) -> bool:
        """Tell whether a value, not None, is let through."""
        return bool(self.predicate(key, value)) is not self.filter_not

    def _getter(self, parent: Any) -> Any:
        return _FilterGetter(parent, self)

    def __call__(self) -> KTableFilterProcessor:
        """Return a new processor."""
        return KTableFilterProcessor(self)


class _FilterGetter(DerivedGetter):
    def __init__(self, parent: Any, operator: KTableFilter) -> None:
        super().__init__(parent)
        self._operator = operator

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return the parent's value, if it is let through."""
        found = self._parent.get(key) if as_of is None else self._parent.get(key, as_of)
        return found if found is not None and self._operator.passes(key, found.value) else None


class KTableFilterProcessor(TableProcessor):
    """See `KTableFilter`."""

    def __init__(self, operator: KTableFilter) -> None:
        super().__init__(operator.queryable_name, operator.send_old_values)
        self._operator = operator

    def process(self, record: Record[Any, Change]) -> None:
        """Send the change on, with None for what is not let through; a change from None to None is not sent."""
        key, change = record.key, record.value
        new = self._passed(key, change.new_value)
        old = None
        if self.send_old_values:
            old = self._passed(key, change.old_value) if self.store is None else self.stored_value(key)
            if old is None and new is None and not self._operator.use_versioned_semantics:
                return
        if self.store is not None:
            self.put_and_forward(record, new, old)
        else:
            self.context.forward(Record(key, Change(new, old, change.is_latest), record.timestamp, record.headers))

    def _passed(self, key: Any, value: Any) -> Any:
        return value if value is not None and self._operator.passes(key, value) else None


class KTableMapValues(TableOperator):
    """Maps values; tombstones stay tombstones."""

    def __init__(self, parent: Any, mapper: Mapper, queryable_name: str | None, store: Any = None) -> None:
        super().__init__(parent, queryable_name, store)
        self.mapper = mapper

    def _getter(self, parent: Any) -> Any:
        return _MapValuesGetter(parent, self.mapper)

    def __call__(self) -> KTableMapValuesProcessor:
        """Return a new processor."""
        return KTableMapValuesProcessor(self)


class _MapValuesGetter(DerivedGetter):
    def __init__(self, parent: Any, mapper: Mapper) -> None:
        super().__init__(parent)
        self._mapper = mapper

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return the mapped value of the parent."""
        found = self._parent.get(key) if as_of is None else self._parent.get(key, as_of)
        if found is None:
            return None
        value = self._mapper(key, found.value)
        return None if value is None else ValueAndTimestamp(value, found.timestamp)


class KTableMapValuesProcessor(TableProcessor):
    """See `KTableMapValues`."""

    def __init__(self, operator: KTableMapValues) -> None:
        super().__init__(operator.queryable_name, operator.send_old_values)
        self._mapper = operator.mapper

    def process(self, record: Record[Any, Change]) -> None:
        """Send the mapped change on."""
        key, change = record.key, record.value
        new = None if change.new_value is None else self._mapper(key, change.new_value)
        old = None
        if self.send_old_values:
            if self.store is not None:
                old = self.stored_value(key)
            elif change.old_value is not None:
                old = self._mapper(key, change.old_value)
        if self.store is not None:
            self.put_and_forward(record, new, old)
        else:
            self.context.forward(Record(key, Change(new, old, change.is_latest), record.timestamp, record.headers))


class KTableTransformValues(TableOperator):
    """Transforms values with a transformer of each task's own: `init(context)`, `transform(key, value)`, `close()`."""

    def __init__(
        self, parent: Any, transformer_supplier: Callable[[], Any], queryable_name: str | None, store: Any = None
    ) -> None:
        super().__init__(parent, queryable_name, store)
        self.transformer_supplier = transformer_supplier

    def _getter(self, parent: Any) -> Any:
        return _TransformGetter(parent, self.transformer_supplier())

    def __call__(self) -> KTableTransformValuesProcessor:
        """Return a new processor."""
        return KTableTransformValuesProcessor(self)


class _TransformGetter(DerivedGetter):
    def __init__(self, parent: Any, transformer: Any) -> None:
        super().__init__(parent)
        self._transformer = transformer

    def init(self, context: Any) -> None:
        """Take the context; the transformer gets one that cannot forward."""
        super().init(context)
        self._transformer.init(context.without_forward())

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return the transformed value of the parent, as if it were the record that is processed."""
        found = self._parent.get(key) if as_of is None else self._parent.get(key, as_of)
        context = self._context
        current = context.record_context
        timestamp = -1 if found is None else found.timestamp
        context.record_context = RecordContext(timestamp, -1, -1, None, [])
        try:
            value = self._transformer.transform(key, None if found is None else found.value)
        finally:
            context.record_context = current
        return None if value is None else ValueAndTimestamp(value, timestamp)

    def close(self) -> None:
        """Close parent and transformer."""
        super().close()
        self._transformer.close()


class KTableTransformValuesProcessor(TableProcessor):
    """See `KTableTransformValues`."""

    def __init__(self, operator: KTableTransformValues) -> None:
        super().__init__(operator.queryable_name, operator.send_old_values)
        self._transformer = operator.transformer_supplier()

    def init(self, context: Any) -> None:
        """Take the context; the transformer gets one that cannot forward."""
        super().init(context)
        self._transformer.init(context.without_forward())

    def process(self, record: Record[Any, Change]) -> None:
        """Send the transformed change on; tombstones are transformed too."""
        key, change = record.key, record.value
        new = self._transformer.transform(key, change.new_value)
        if self.store is not None:
            self.put_and_forward(record, new, self.stored_value(key) if self.send_old_values else None)
            return
        old = self._transformer.transform(key, change.old_value) if self.send_old_values else None
        self.context.forward(Record(key, Change(new, old, change.is_latest), record.timestamp, record.headers))

    def close(self) -> None:
        """Close the transformer."""
        self._transformer.close()
