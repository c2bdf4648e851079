# cython: language_level=3, annotation_typing=False
"""Joins of two tables by their keys: inner, left, right and outer.

Each side is a processor that looks the other table up; a merger takes what both send. C types are in
`ktable_ktable_join.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.streams.engine.processors.operator import (
    Operator,
    StoreValueGetterSupplier,
    ValueGetter,
    ValueGetterSupplier,
)
from barnabas.streams.state.store import ValueAndTimestamp

if not cython.compiled:
    from barnabas.streams.engine.operator_processor import OperatorProcessor
    from barnabas.streams.engine.processors.table_processor import TableProcessor
    from barnabas.streams.serdes.change import make_change
    from barnabas.streams.topology.record import make_record

if TYPE_CHECKING:
    from barnabas.streams.serdes.change import Change
    from barnabas.streams.topology.record import Record

#: (value of this table, value of the other) -> value.
ValueJoiner = Callable[[Any, Any], Any]


class KTableKTableJoin(Operator):
    """One side of a join: `table1` is this side, `table2` the one that is looked up.

    `needs_this` and `needs_other` say which values must be there for a result.
    """

    NEEDS_THIS = True
    NEEDS_OTHER = True

    def __init__(self, table1: Any, table2: Any, joiner: ValueJoiner) -> None:
        super().__init__()
        self.table1 = table1
        self.table2 = table2
        self.joiner = joiner
        self.use_versioned_semantics = False
        self.send_old_values = False
        self._getters1: ValueGetterSupplier = table1.value_getter_supplier()
        self._getters2: ValueGetterSupplier = table2.value_getter_supplier()

    def set_use_versioned_semantics(self, use: bool) -> None:
        """Say whether this side's table is versioned: then changes of old versions are dropped."""
        self.use_versioned_semantics = use

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Send old values from now on; both tables must send them and so keep stores."""
        self.table1.enable_sending_old_values(True)
        self.table2.enable_sending_old_values(True)
        self.send_old_values = True
        return True

    def join(self, this: Any, other: Any) -> Any:
        """Return the joined value; None when one is missing that must be there."""
        if (this is None and self.NEEDS_THIS) or (other is None and self.NEEDS_OTHER):
            return None
        if this is None and other is None:
            return None
        return self.joiner(this, other)

    def view(self) -> ValueGetterSupplier:
        """Return what joins the values of both tables."""
        return _JoinGetterSupplier(self, self._getters1, self._getters2)

    def __call__(self) -> KTableKTableJoinProcessor:
        """Return a new processor."""
        return KTableKTableJoinProcessor(self, self._getters2())


class KTableKTableInnerJoin(KTableKTableJoin):
    """Both values must be there."""


class KTableKTableLeftJoin(KTableKTableJoin):
    """This side's value must be there."""

    NEEDS_OTHER = False


class KTableKTableRightJoin(KTableKTableJoin):
    """The other side's value must be there: the right side of a left join."""

    NEEDS_THIS = False


class KTableKTableOuterJoin(KTableKTableJoin):
    """One of the values must be there."""

    NEEDS_THIS = False
    NEEDS_OTHER = False


@cython.cclass
class KTableKTableJoinProcessor(OperatorProcessor):
    """See `KTableKTableJoin`."""

    def __init__(self, operator: KTableKTableJoin, getter: ValueGetter) -> None:
        self._join = operator.join
        self._needs_other = operator.NEEDS_OTHER
        self._use_versioned_semantics = operator.use_versioned_semantics
        self._send_old_values = operator.send_old_values
        self._getter = getter

    def init(self, context: Any) -> None:
        """Find the other table."""
        self.context = context
        self._getter.init(context)

    def process(self, record: Record[Any, Change]) -> None:
        """Send the joined change on, when there can be one; records without key are dropped."""
        key, change = record.key, record.value
        if key is None:
            self.context.drop("null key")
            return
        if self._use_versioned_semantics and not change.is_latest:
            self.context.drop("out-of-order update of a versioned table")
            return
        found = self._getter.get(key)
        other = None if found is None else found.value
        if other is None and (self._needs_other or (change.new_value is None and change.old_value is None)):
            return
        timestamp = record.timestamp
        if found is not None and other is not None and found.timestamp > timestamp:
            timestamp = found.timestamp
        new = self._join(change.new_value, other)
        old = self._join(change.old_value, other) if self._send_old_values else None
        joined = make_change(new, old, change.is_latest)
        self.context.forward_all(make_record(key, joined, timestamp, record.header_list))

    def close(self) -> None:
        """Close the getter."""
        self._getter.close()


class _JoinGetterSupplier:
    def __init__(
        self, operator: KTableKTableJoin, getters1: ValueGetterSupplier, getters2: ValueGetterSupplier
    ) -> None:
        self._operator = operator
        self._getters1 = getters1
        self._getters2 = getters2

    def __call__(self) -> ValueGetter:
        """Return a new getter."""
        return _JoinGetter(self._operator, self._getters1(), self._getters2())

    def store_names(self) -> list[str]:
        """Return the names of both tables' stores."""
        return list(dict.fromkeys([*self._getters1.store_names(), *self._getters2.store_names()]))


class _JoinGetter(ValueGetter):
    def __init__(self, operator: KTableKTableJoin, getter1: ValueGetter, getter2: ValueGetter) -> None:
        self._operator = operator
        self._getter1 = getter1
        self._getter2 = getter2

    def init(self, context: Any) -> None:
        """Find both tables."""
        self._getter1.init(context)
        self._getter2.init(context)

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return the joined value and the later one of both timestamps."""
        # What must be there is looked up first, and where it is not the other is not looked up, as in Kafka.
        first = second = None
        if self._operator.NEEDS_THIS:
            if (first := self._getter1.get(key)) is None or first.value is None:
                return None
            second = self._getter2.get(key)
        else:
            second = self._getter2.get(key)
            if self._operator.NEEDS_OTHER and (second is None or second.value is None):
                return None
            first = self._getter1.get(key)
        value = self._operator.join(None if first is None else first.value, None if second is None else second.value)
        if value is None:
            return None
        return ValueAndTimestamp(
            value, max(-1 if first is None else first.timestamp, -1 if second is None else second.timestamp)
        )

    def close(self) -> None:
        """Close both getters."""
        self._getter1.close()
        self._getter2.close()


class KTableKTableJoinMerger(Operator):
    """Takes what both sides of a join send, and keeps it in a store if it was given one."""

    def __init__(self, parent1: Any, parent2: Any, queryable_name: str | None = None, store: Any = None) -> None:
        super().__init__(store)
        self.parent1 = parent1
        self.parent2 = parent2
        self.queryable_name = queryable_name
        self.send_old_values = False

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Let both sides send old values."""
        self.parent1.enable_sending_old_values(True)
        self.parent2.enable_sending_old_values(True)
        self.send_old_values = True
        return True

    def view(self) -> ValueGetterSupplier:
        """Return what looks the table's values up."""
        if self.queryable_name is not None:
            return StoreValueGetterSupplier(self.queryable_name)
        return _MergerGetterSupplier(self.parent1.view(), self.parent2.view())

    def __call__(self) -> KTableKTableJoinMergeProcessor:
        """Return a new processor."""
        return KTableKTableJoinMergeProcessor(self.queryable_name, self.send_old_values)


class _MergerGetterSupplier:
    def __init__(self, view1: ValueGetterSupplier, view2: ValueGetterSupplier) -> None:
        self._view1 = view1
        self._view2 = view2

    def __call__(self) -> ValueGetter:
        """Return a new getter of the first side, which knows both tables."""
        return self._view1()

    def store_names(self) -> list[str]:
        """Return the names of both sides' stores."""
        return list(dict.fromkeys([*self._view1.store_names(), *self._view2.store_names()]))


@cython.cclass
class KTableKTableJoinMergeProcessor(TableProcessor):
    """See `KTableKTableJoinMerger`."""

    def process(self, record: Record[Any, Change]) -> None:
        """Keep the value, and send the change on."""
        change = record.value
        if self.store is not None:
            self.put_and_forward(record, change.new_value, change.old_value)
        elif self.send_old_values:
            self.context.forward_all(record)
        else:
            change = make_change(change.new_value, None, change.is_latest)
            self.context.forward_all(make_record(record.key, change, record.timestamp, record.header_list))
