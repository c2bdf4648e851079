"""What operators of the DSL have in common: suppliers of processors, and how tables are asked for values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from barnabas.streams.serdes.change import Change
from barnabas.streams.state.store import NOT_PUT, VALID_TO_UNDEFINED, ValueAndTimestamp
from barnabas.streams.topology.processor_api import Processor
from barnabas.streams.topology.record import Record


class Operator:
    """A supplier of processors: calling it makes one for a task. `store` is a builder, or the name of a store."""

    def __init__(self, store: Any = None) -> None:
        self.store = store

    @property
    def store_name(self) -> str:
        """The name of the operator's store."""
        name: str = self.store if isinstance(self.store, str) else self.store.name
        return name

    def stores(self) -> list[Any]:
        """Return the builders of the stores that the operator brings."""
        return [] if self.store is None or isinstance(self.store, str) else [self.store]

    def __call__(self) -> Any:
        """Return a new processor."""
        raise NotImplementedError

    def get(self) -> Any:
        """Return a new processor."""
        return self()


class ValueGetter(Protocol):
    """Looks values of a table up, in its store or in that of a table which it was made of."""

    is_versioned: bool

    def init(self, context: Any) -> None:
        """Take the context of the processor that asks."""

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return value and timestamp of a key, of a versioned table also as of a time in milliseconds."""

    def close(self) -> None:
        """Give back what `init` took."""


class ValueGetterSupplier(Protocol):
    """Makes getters, and names the stores that whoever asks must be connected to."""

    def __call__(self) -> ValueGetter:
        """Return a new getter."""

    def store_names(self) -> list[str]:
        """Return the names of the stores that the getter reads."""


class StoreValueGetterSupplier:
    """Getters that read a store: KTableMaterializedValueGetterSupplier and KTableSourceValueGetterSupplier.

    `make` is the kind of getter, given the store's name; tables with windows have kinds of their own.
    """

    def __init__(self, store_name: str, make: Callable[[str], ValueGetter] | None = None) -> None:
        self._store_name = store_name
        self._make = make or StoreValueGetter

    def __call__(self) -> ValueGetter:
        """Return a new getter."""
        return self._make(self._store_name)

    def store_names(self) -> list[str]:
        """Return the name of the store."""
        return [self._store_name]


KTableMaterializedValueGetterSupplier = StoreValueGetterSupplier
KTableSourceValueGetterSupplier = StoreValueGetterSupplier


class StoreValueGetter:
    """Reads the store of a table."""

    is_versioned = False

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name
        self._store: Any = None

    def init(self, context: Any) -> None:
        """Find the store."""
        self._store = context.get_state_store(self._store_name)
        self.is_versioned = hasattr(self._store, "history")

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return value and timestamp of a key."""
        found: ValueAndTimestamp[Any] | None = (
            self._store.get_with_timestamp(key) if as_of is None else self._store.get_with_timestamp(key, as_of)
        )
        return found

    def close(self) -> None:
        """Do nothing: the store is the task's."""


class DerivedGetterSupplier:
    """Getters that compute from the parent's: `make` is given the parent's getter."""

    def __init__(self, parent: ValueGetterSupplier, make: Any) -> None:
        self._parent = parent
        self._make = make

    def __call__(self) -> ValueGetter:
        """Return a new getter."""
        getter: ValueGetter = self._make(self._parent())
        return getter

    def store_names(self) -> list[str]:
        """Return the names of the parent's stores."""
        return self._parent.store_names()


class DerivedGetter:
    """A getter above that of the parent."""

    def __init__(self, parent: ValueGetter) -> None:
        self._parent = parent
        self._context: Any = None

    @property
    def is_versioned(self) -> bool:
        """Whether the parent's table is versioned."""
        return self._parent.is_versioned

    def init(self, context: Any) -> None:
        """Take the context."""
        self._context = context
        self._parent.init(context)

    def close(self) -> None:
        """Close the parent's getter."""
        self._parent.close()


class TableProcessor(Processor[Any, Any]):
    """A processor that keeps a table in a store and sends its changes on, unless the store's cache does so later.

    Kafka's TimestampedTupleForwarder with the store before it.
    """

    def __init__(self, store_name: str | None, send_old_values: bool) -> None:
        self.store_name = store_name
        self.send_old_values = send_old_values
        self.context: Any = None
        self.store: Any = None
        self._cached = False

    def init(self, context: Any) -> None:
        """Find the store; a cache is told where its changes go."""
        self.context = context
        if self.store_name is not None:
            self.store = context.get_state_store(self.store_name)
            self._cached = context.set_flush_listener(self.store, self.send_old_values)

    def put_and_forward(
        self, record: Record[Any, Any], new_value: Any, old_value: Any, timestamp: int | None = None
    ) -> None:
        """Keep a value and send the change on, with the record's timestamp or another."""
        at = record.timestamp if timestamp is None else timestamp
        code = self.store.put_with_timestamp(record.key, new_value, at)
        if code != NOT_PUT and not self._cached:
            change = Change(new_value, old_value if self.send_old_values else None, code == VALID_TO_UNDEFINED)
            self.context.forward(Record(record.key, change, at, record.headers))

    def stored_value(self, key: Any) -> Any:
        """Return the value of a key, None for none."""
        found = self.store.get_with_timestamp(key)
        return None if found is None else found.value
