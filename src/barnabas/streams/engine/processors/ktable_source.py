# cython: language_level=3, annotation_typing=False
"""The beginning of a table: records of a topic become changes. C types are in `ktable_source.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING, Any

from barnabas.streams.engine.processors.operator import Operator

if not cython.compiled:
    from barnabas.streams.engine.processors.table_processor import TableProcessor
    from barnabas.streams.serdes.change import make_change
    from barnabas.streams.topology.record import make_record

if TYPE_CHECKING:
    from barnabas.streams.topology.record import Record


class KTableSource(Operator):
    """Makes changes of records. There is a store when users ask for it, or when followers need old values."""

    def __init__(self, store: Any, queryable_name: str | None = None) -> None:
        super().__init__(store)
        self.queryable_name = queryable_name
        self.send_old_values = False

    def stores(self) -> list[Any]:
        """Return the builder of the store, when there is to be one."""
        return super().stores() if self.materialized else []

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Keep a store, and send old values from now on."""
        self.send_old_values = True
        self.queryable_name = self.store_name
        return True

    def materialize(self) -> None:
        """Keep a store."""
        self.queryable_name = self.store_name

    @property
    def materialized(self) -> bool:
        """Whether there is a store."""
        return self.queryable_name is not None

    def __call__(self) -> KTableSourceProcessor:
        """Return a new processor."""
        return KTableSourceProcessor(self.queryable_name, self.send_old_values)


@cython.cclass
class KTableSourceProcessor(TableProcessor):
    """See `KTableSource`."""

    def process(self, record: Record[Any, Any]) -> None:
        """Keep the value and send the change on; records without key are dropped."""
        if record.key is None:
            self.context.drop("null key")
            return
        if self.store is None:
            change = make_change(record.value, None, True)
            self.context.forward_all(make_record(record.key, change, record.timestamp, record.header_list))
            return
        self.put_and_forward(record, record.value, self.stored_value(record.key))
