"""The users' processors of a case: one class, whose behaviour is a function per kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from barnabas.streams.state.store import ValueAndTimestamp
from barnabas.streams.topology.processor_api import PunctuationType
from barnabas.streams.topology.record import Record
from barnabas.streams.topology.stores import StoreBuilder
from tools.streams_vectors.expressions import of_key_value, text

_TYPES = {"stream_time": PunctuationType.STREAM_TIME, "wall_clock_time": PunctuationType.WALL_CLOCK_TIME}


class CaseProcessor:
    """A processor of one kind; keyed kinds leave out records without a key."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._kind = spec["kind"]
        self._expression = of_key_value(spec.get("mapper", spec.get("value", spec.get("child"))))
        self._punctuations = 0
        self._cancellable: Any = None

    def init(self, context: Any) -> None:
        """Take the context, and schedule what is to be scheduled."""
        self.context = context
        punctuate = self._spec.get("punctuate")
        if punctuate is not None:
            type_ = _TYPES[punctuate["type"]]
            callback = self._buffered if self._kind == "buffer" else self._heartbeat
            self._cancellable = context.schedule(punctuate["interval_ms"], type_, callback)

    def process(self, record: Record[Any, Any]) -> None:
        """Do what the kind does."""
        handle, needs_key = _KINDS[self._kind]
        if record.key is not None or not needs_key:
            handle(self, record)

    def close(self) -> None:
        """Do nothing."""

    @property
    def store(self) -> Any:
        """The store that the kind uses; looked up for each record, as Java's does."""
        return self.context.get_state_store(self._spec.get("store") or self._spec["own_store"]["name"])

    def _pass(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)

    def _count(self, record: Record[Any, Any]) -> None:
        store = self.store
        count = _value(store.get(record.key) or 0) + 1
        store.put(record.key, count)
        self.context.forward(record.with_value(count))

    def _deduplicate(self, record: Record[Any, Any]) -> None:
        store = self.store
        if store.get(record.key) == record.value:
            return
        store.put(record.key, record.value)
        self.context.forward(record)

    def _put(self, record: Record[Any, Any]) -> None:
        self.store.put(record.key, record.value)

    def _nothing(self, record: Record[Any, Any]) -> None:
        pass

    def _shift(self, record: Record[Any, Any]) -> None:
        self.context.forward(record.with_timestamp(record.timestamp + self._spec["by_ms"]))

    def _add_header(self, record: Record[Any, Any]) -> None:
        value = text(self._expression(record.key, record.value)).encode()
        self.context.forward(record.with_headers([*record.headers, (self._spec["name"], value)]))

    def _route(self, record: Record[Any, Any]) -> None:
        child = self._expression(record.key, record.value)
        if child is None:
            self.context.forward(record)
        else:
            self.context.forward(record, child)

    def _context(self, record: Record[Any, Any]) -> None:
        context = self.context
        meta = context.record_metadata()
        where = "none" if meta is None else f"{meta.topic}/{meta.partition}/{meta.offset}"
        shown = (
            f"{where},ts={record.timestamp},stream={context.current_stream_time_ms()},"
            f"wall={context.current_system_time_ms()},task={context.task_id}"
        )
        self.context.forward(record.with_value(shown))

    def _window_collect(self, record: Record[Any, Any]) -> None:
        store, time, span = self.store, record.timestamp, self._spec["span_ms"]
        store.put(record.key, record.value, time)
        found = store.fetch(record.key, max(0, time - span), time + span)
        self.context.forward(record.with_value("".join(f"{text(at)}={text(_value(value))};" for at, value in found)))

    def _version_lookup(self, record: Record[Any, Any]) -> None:
        store, time = self.store, record.timestamp
        until = store.put(record.key, record.value, time)
        now, then = store.get(record.key), store.get(record.key, max(0, time - self._spec["back_ms"]))
        shown = ["none" if found is None else f"{text(found.value)}@{found.timestamp}" for found in (now, then)]
        self.context.forward(record.with_value(f"until={until},now={shown[0]},then={shown[1]}"))

    def _lookup(self, record: Record[Any, Any]) -> None:
        found = _value(self.store.get(record.key))
        self.context.forward(record.with_value(f"{text(record.value)}&{text(found)}"))

    def _range(self, record: Record[Any, Any]) -> None:
        store = self.store
        store.put(record.key, record.value)
        ranged = store.reverse_range if self._spec.get("reverse") else store.range
        found = ranged(self._spec.get("from"), self._spec.get("to"))
        self.context.forward(record.with_value("".join(f"{text(key)}={text(_value(value))};" for key, value in found)))

    def _map(self, record: Record[Any, Any]) -> None:
        self.context.forward(record.with_value(self._expression(record.key, record.value)))

    def _buffered(self, time: int) -> None:
        store = self.store
        for key, value in list(store.all()):
            self.context.forward(Record(key, value, time))
            store.delete(key)

    def _heartbeat(self, time: int) -> None:
        self._punctuations += 1
        if self._punctuations == self._spec.get("cancel_after"):
            self._cancellable.cancel()
        context = self.context
        shown = f"t={time},stream={context.current_stream_time_ms()},wall={context.current_system_time_ms()}"
        context.forward(Record("tick", shown, time))


def _value(found: Any) -> Any:
    return found.value if isinstance(found, ValueAndTimestamp) else found


#: By kind: what it does, and whether records without a key are left out.
_KINDS: dict[str, tuple[Callable[[CaseProcessor, Record[Any, Any]], None], bool]] = {
    "pass": (CaseProcessor._pass, False),
    "count": (CaseProcessor._count, True),
    "deduplicate": (CaseProcessor._deduplicate, True),
    "buffer": (CaseProcessor._put, True),
    "heartbeat": (CaseProcessor._nothing, False),
    "shift_timestamp": (CaseProcessor._shift, False),
    "add_header": (CaseProcessor._add_header, False),
    "route": (CaseProcessor._route, False),
    "context": (CaseProcessor._context, False),
    "window_collect": (CaseProcessor._window_collect, True),
    "version_lookup": (CaseProcessor._version_lookup, True),
    "lookup": (CaseProcessor._lookup, True),
    "range": (CaseProcessor._range, True),
    "map": (CaseProcessor._map, False),
    "store_put": (CaseProcessor._put, True),
}


class CaseSupplier:
    """Makes the processor of a case, and brings its own store if it has one."""

    def __init__(self, spec: dict[str, Any], own: StoreBuilder | None) -> None:
        self._spec = spec
        self._own = own

    def __call__(self) -> Any:
        """Return a new processor."""
        return CaseProcessor(self._spec)

    def stores(self) -> Iterable[StoreBuilder]:
        """Return the store that the processor brings."""
        return [] if self._own is None else [self._own]


class CaseTransformer:
    """A transformer of a table's values: maps, or counts the updates of each key."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._expression = of_key_value(spec.get("mapper"))

    def init(self, context: Any) -> None:
        """Take the context."""
        self._context = context

    def transform(self, key: Any, value: Any) -> Any:
        """Return another value."""
        if self._spec["kind"] == "map":
            return self._expression(key, value)
        store = self._context.get_state_store(self._spec["store"])
        count = (store.get(key) or 0) + 1
        store.put(key, count)
        return count

    def close(self) -> None:
        """Do nothing."""
