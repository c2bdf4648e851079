# cython: language_level=3, annotation_typing=False
"""What operators of the DSL have in common: suppliers of processors, and how tables are asked for values.

C types are in `operator.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable
from typing import Any, Protocol

from barnabas.streams.state.store import ValueAndTimestamp

if not cython.compiled:
    from barnabas.streams.state.key_value import TimestampedKeyValueStore


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


@cython.cclass
class ValueGetter:
    """Looks values of a table up, in its store or in that of a table which it was made of."""

    @property
    def is_versioned(self) -> bool:
        """Whether the table is versioned; known after `init`."""
        return False

    def init(self, context: Any) -> None:
        """Take the context of the processor that asks."""

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return value and timestamp of a key, of a versioned table also as of a time in milliseconds."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what `init` took."""


class ValueGetterSupplier(Protocol):
    """Makes getters, and names the stores that their user must be connected to."""

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


@cython.cclass
class StoreValueGetter(ValueGetter):
    """Reads the store of a table."""

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name
        self._store: Any = None
        #: The store once more, if it is of the usual kind, which is called without the interpreter.
        self._timestamped: TimestampedKeyValueStore | None = None
        self._has_history = False

    @property
    def is_versioned(self) -> bool:
        """Whether the store is versioned."""
        return self._has_history

    def init(self, context: Any) -> None:
        """Find the store."""
        self._store = context.get_state_store(self._store_name)
        self._timestamped = self._store if type(self._store) is TimestampedKeyValueStore else None
        self._has_history = hasattr(self._store, "history")

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return value and timestamp of a key."""
        if as_of is not None:
            return self._store.get_with_timestamp(key, as_of)  # type: ignore[no-any-return]
        if self._timestamped is not None:
            return self._timestamped.get_with_timestamp(key)
        return self._store.get_with_timestamp(key)  # type: ignore[no-any-return]


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


class DerivedGetter(ValueGetter):
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
