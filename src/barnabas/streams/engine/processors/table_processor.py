# cython: language_level=3, annotation_typing=False
"""What processors of tables have in common. C types are in `table_processor.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING, Any

from barnabas.streams.state.store import NOT_PUT, VALID_TO_UNDEFINED

if not cython.compiled:
    from barnabas.streams.engine.operator_processor import OperatorProcessor
    from barnabas.streams.serdes.change import make_change
    from barnabas.streams.serdes.key_bytes import field
    from barnabas.streams.state.key_value import TimestampedKeyValueStore
    from barnabas.streams.topology.record import make_record

if TYPE_CHECKING:
    from barnabas.streams.topology.record import Record


@cython.cclass
class TableProcessor(OperatorProcessor):
    """A processor that keeps a table in a store and sends its changes on, unless the store's cache does so later.

    Kafka's TimestampedTupleForwarder with the store before it.
    """

    def __init__(self, store_name: str | None, send_old_values: bool) -> None:
        self.store_name = store_name
        self.send_old_values = send_old_values
        self.store: Any = None
        #: The store once more, if it is of the usual kind, which is called without the interpreter.
        self._timestamped: TimestampedKeyValueStore | None = None
        self._cached = False

    def init(self, context: Any) -> None:
        """Find the store; a cache is told where its changes go."""
        self.context = context
        if self.store_name is not None:
            self.store = context.get_state_store(self.store_name)
            if type(self.store) is TimestampedKeyValueStore:
                self._timestamped = self.store
            self._cached = context.set_flush_listener(self.store, self.send_old_values)

    def put_and_forward(
        self, record: Record[Any, Any], new_value: Any, old_value: Any, timestamp: int | None = None
    ) -> None:
        """Keep a value and send the change on, with the record's timestamp or another."""
        at = record.timestamp if timestamp is None else timestamp
        if self._timestamped is not None:
            code = self._timestamped.put_with_timestamp(record.key, new_value, at)
        else:
            code = self.store.put_with_timestamp(record.key, new_value, at)
        if code != NOT_PUT and not self._cached:
            change = make_change(new_value, old_value if self.send_old_values else None, code == VALID_TO_UNDEFINED)
            self.context.forward_all(make_record(record.key, change, at, record.header_list))

    def stored(self, key: Any) -> Any:
        """Return value and timestamp of a key, None for none."""
        if self._timestamped is not None:
            return self._timestamped.get_with_timestamp(key)
        return self.store.get_with_timestamp(key)

    def stored_value(self, key: Any) -> Any:
        """Return the value of a key, None for none."""
        found = self.stored(key)
        return None if found is None else field(found, 0)
