# cython: language_level=3, annotation_typing=False
"""Suppress (KIP-328): a table's changes wait until a time limit is over, or a window closes, or memory is full.

C types are in `ktable_suppress.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING, Any

from barnabas.streams.engine.processors.operator import (
    DerivedGetter,
    DerivedGetterSupplier,
    Operator,
    ValueGetterSupplier,
)
from barnabas.streams.errors import StreamsError
from barnabas.streams.state.store import ValueAndTimestamp

if not cython.compiled:
    from barnabas.streams.engine.operator_processor import OperatorProcessor
    from barnabas.streams.state.time_ordered_buffer import TimeOrderedChangeBuffer
    from barnabas.streams.topology.record import make_record

if TYPE_CHECKING:
    from barnabas.streams.serdes.change import Change
    from barnabas.streams.state.time_ordered_buffer import Eviction
    from barnabas.streams.topology.record import Record


class KTableSuppressProcessorSupplier(Operator):
    """Holds changes back; `suppress` is the DSL's `Suppressed`, which says until when and how many."""

    def __init__(self, suppress: Any, store: Any, parent: Any) -> None:
        super().__init__(store)
        self.suppress = suppress
        self.parent = parent
        parent.enable_sending_old_values(True)

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Let the parent send old values."""
        return bool(self.parent.enable_sending_old_values(force_materialization))

    def view(self) -> ValueGetterSupplier:
        """Return what looks up the values that followers know."""
        return _SuppressGetterSupplier(self)

    def __call__(self) -> KTableSuppressProcessor:
        """Return a new processor."""
        return KTableSuppressProcessor(self.suppress, self.store_name)


class _SuppressGetterSupplier(DerivedGetterSupplier):
    def __init__(self, operator: KTableSuppressProcessorSupplier) -> None:
        super().__init__(operator.parent.value_getter_supplier(), self._getter)
        self._store_name = operator.store_name

    def _getter(self, parent: Any) -> Any:
        return _SuppressGetter(parent, self._store_name)

    def store_names(self) -> list[str]:
        """Return the names of the buffer and of the parent's stores."""
        return [self._store_name, *super().store_names()]


class _SuppressGetter(DerivedGetter):
    is_versioned = False

    def __init__(self, parent: Any, store_name: str) -> None:
        super().__init__(parent)
        self._store_name = store_name
        self._buffer: Any = None

    def init(self, context: Any) -> None:
        """Find buffer and parent."""
        super().init(context)
        self._buffer = context.get_state_store(self._store_name)

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return the value before those that wait, else the parent's."""
        waits, prior = self._buffer.prior_value(key)
        if waits:
            found: ValueAndTimestamp[Any] | None = prior
            return found
        return self._parent.get(key)


@cython.cclass
class KTableSuppressProcessor(OperatorProcessor):
    """See `KTableSuppressProcessorSupplier`."""

    def __init__(self, suppress: Any, store_name: str) -> None:
        self._drops_tombstones = suppress.safe_to_drop_tombstones
        self._window_end = suppress.window_end
        self._store_name = store_name
        config = suppress.buffer_config
        self._max_records: int = config.max_records
        self._max_bytes: int = config.max_bytes
        self._emit_early: bool = config.buffer_full_strategy.value == "emit"
        self._wait_ms: int = suppress.time_to_wait_ms
        self._buffer: Any = None
        #: The buffer once more, if it is not measured, which is called without the interpreter.
        self._own: TimeOrderedChangeBuffer | None = None
        self._stream_time = -1

    def init(self, context: Any) -> None:
        """Find the buffer."""
        self.context = context
        self._buffer = context.get_state_store(self._store_name)
        if type(self._buffer) is TimeOrderedChangeBuffer:
            self._own = self._buffer
        context.keep(self)

    def state(self) -> dict[str, int]:
        """Return what the task keeps of the processor."""
        return {"observed": self._stream_time}

    def restore(self, state: dict[str, int]) -> None:
        """Take what `state` returned."""
        self._stream_time = state["observed"]

    def process(self, record: Record[Any, Change]) -> None:
        """Hold the change back, and send on what is due.

        Raises `StreamsError` when the buffer is full and it is not to emit early.
        """
        if record.timestamp > self._stream_time:
            self._stream_time = record.timestamp
        context: Any = self.context
        buffer, own = self._buffer, self._own
        time = record.key.window.end if self._window_end else context.record_context.timestamp
        if own is not None:
            own.put(time, record.key, record.value, context.record_context)
            own.evict_until(self._stream_time - self._wait_ms, self._emit)
        else:
            buffer.put(time, record.key, record.value, context.record_context)
            buffer.evict_until(self._stream_time - self._wait_ms, self._emit)
        if not self._over_capacity():
            return
        if not self._emit_early:
            raise StreamsError(
                f"{context.current_node.name} buffer exceeded its max capacity. Currently "
                f"[{buffer.num_records}/{self._max_records}] records and "
                f"[{buffer.buffer_size}/{self._max_bytes}] bytes."
            )
        buffer.evict_while(self._over_capacity, self._emit)

    def _over_capacity(self) -> bool:
        if self._own is not None:
            return self._own.exceeds(self._max_records, self._max_bytes)
        return bool(self._buffer.exceeds(self._max_records, self._max_bytes))

    def _emit(self, due: Eviction) -> None:
        if due.value.new_value is None and self._drops_tombstones:
            return
        context = self.context
        previous = context.record_context
        where = context.record_context = due.context
        try:
            context.forward_all(make_record(due.key, due.value, where.timestamp, where.header_list))
        finally:
            context.record_context = previous
