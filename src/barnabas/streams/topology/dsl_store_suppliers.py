"""Which stores the DSL keeps where a step names no supplier: Kafka's `DslStoreSuppliers` (KIP-954)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from barnabas.config.loading import load_attribute
from barnabas.errors import ConfigError
from barnabas.streams.emit_strategy import EmitStrategy
from barnabas.streams.topology.given_fields import check_field
from barnabas.streams.topology.stores import (
    FAMILY,
    StoreBuilder,
    StoreKind,
    Stores,
    StoreSupplier,
    supplied,
)

SETTING = "dsl.store.suppliers.class"


class DslStoreFormat(Enum):
    """What a store of the DSL keeps beside a value: nothing, its timestamp, or headers too (KIP-1271)."""

    PLAIN = "plain"
    TIMESTAMPED = "timestamped"
    HEADERS = "headers"


@dataclass(frozen=True)
class DslKeyValueParams:
    """The key-value store that a step needs."""

    name: str
    dsl_store_format: DslStoreFormat = DslStoreFormat.PLAIN


@dataclass(frozen=True)
class DslWindowParams:
    """The window store that a step needs; times are in milliseconds."""

    name: str
    retention_period_ms: int
    window_size_ms: int
    retain_duplicates: bool
    emit_strategy: EmitStrategy
    is_sliding_window: bool
    dsl_store_format: DslStoreFormat = DslStoreFormat.PLAIN


@dataclass(frozen=True)
class DslSessionParams:
    """The session store that a step needs; times are in milliseconds."""

    name: str
    retention_period_ms: int
    emit_strategy: EmitStrategy
    dsl_store_format: DslStoreFormat = DslStoreFormat.PLAIN


DslParams = DslKeyValueParams | DslWindowParams | DslSessionParams


class DslStoreSuppliers:
    """Gives the DSL the suppliers of its stores; a subclass gives its own.

    `Materialized.as_`, `Materialized.with_store_type`, `StreamJoined.with_` and the setting
    `dsl.store.suppliers.class` take one, the first of them that is set counts. Each method returns a `StoreSupplier` of
    the name that it is given, one of `Stores` or one whose `get` makes a store of yours.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the settings of the application, when the setting names the class."""

    def key_value_store(self, params: DslKeyValueParams) -> StoreSupplier:
        """Return the supplier of a key-value store, versioned or not."""
        raise NotImplementedError(f"{type(self).__name__} has no key_value_store")

    def window_store(self, params: DslWindowParams) -> StoreSupplier:
        """Return the supplier of a window store."""
        raise NotImplementedError(f"{type(self).__name__} has no window_store")

    def session_store(self, params: DslSessionParams) -> StoreSupplier:
        """Return the supplier of a session store."""
        raise NotImplementedError(f"{type(self).__name__} has no session_store")


class RocksDBDslStoreSuppliers(DslStoreSuppliers):
    """Stores on disk, under Kafka's name: LMDB keeps them here."""

    def key_value_store(self, params: DslKeyValueParams) -> StoreSupplier:
        """Return the supplier of a store that keeps what the format says."""
        makers = {
            DslStoreFormat.PLAIN: Stores.persistent_key_value_store,
            DslStoreFormat.TIMESTAMPED: Stores.persistent_timestamped_key_value_store,
            DslStoreFormat.HEADERS: Stores.persistent_timestamped_key_value_store_with_headers,
        }
        return makers[params.dsl_store_format](params.name)

    def window_store(self, params: DslWindowParams) -> StoreSupplier:
        """Return the supplier of a store that is sorted by time where results are emitted on close."""
        makers = {
            DslStoreFormat.PLAIN: Stores.persistent_window_store,
            DslStoreFormat.TIMESTAMPED: Stores.persistent_timestamped_window_store,
            DslStoreFormat.HEADERS: Stores.persistent_timestamped_window_store_with_headers,
        }
        made = makers[params.dsl_store_format](
            params.name, params.retention_period_ms, params.window_size_ms, params.retain_duplicates
        )
        on_close = params.emit_strategy is EmitStrategy.ON_WINDOW_CLOSE
        return replace(made, time_ordered=on_close, indexed=on_close and params.is_sliding_window)

    def session_store(self, params: DslSessionParams) -> StoreSupplier:
        """Return the supplier of a store that is sorted by time where results are emitted on close."""
        with_headers = params.dsl_store_format is DslStoreFormat.HEADERS
        make = Stores.persistent_session_store_with_headers if with_headers else Stores.persistent_session_store
        on_close = params.emit_strategy is EmitStrategy.ON_WINDOW_CLOSE
        return replace(make(params.name, params.retention_period_ms), time_ordered=on_close, indexed=on_close)


class InMemoryDslStoreSuppliers(DslStoreSuppliers):
    """Stores in memory, which are restored from their changelogs at each start."""

    def key_value_store(self, params: DslKeyValueParams) -> StoreSupplier:
        """Return the supplier of a store in memory."""
        return Stores.in_memory_key_value_store(params.name)

    def window_store(self, params: DslWindowParams) -> StoreSupplier:
        """Return the supplier of a store in memory."""
        return Stores.in_memory_window_store(
            params.name, params.retention_period_ms, params.window_size_ms, params.retain_duplicates
        )

    def session_store(self, params: DslSessionParams) -> StoreSupplier:
        """Return the supplier of a store in memory."""
        return Stores.in_memory_session_store(params.name, params.retention_period_ms)


class BuiltInDslStoreSuppliers:
    """Those that Kafka brings."""

    ROCKS_DB = RocksDBDslStoreSuppliers()
    IN_MEMORY = InMemoryDslStoreSuppliers()
    RocksDBDslStoreSuppliers = RocksDBDslStoreSuppliers
    InMemoryDslStoreSuppliers = InMemoryDslStoreSuppliers


_BUILT_IN = {kind.__name__: kind for kind in (RocksDBDslStoreSuppliers, InMemoryDslStoreSuppliers)}


def suppliers_of(config: Mapping[str, Any]) -> DslStoreSuppliers | None:
    """Return the suppliers of the setting: a class, an object, `module:name`, or one of Kafka's by name; None if unset.

    Raises ConfigError for another.
    """
    given = config.get(SETTING)
    if given is None:
        return None
    found = given
    if isinstance(given, str):
        built_in = _BUILT_IN.get(given.rpartition("$")[2].rpartition(".")[2])
        found = load_attribute(given, SETTING) if built_in is None else built_in
    made = found() if isinstance(found, type) else found
    if not isinstance(made, DslStoreSuppliers):
        known = ", ".join(_BUILT_IN)
        raise ConfigError(
            f"Invalid value {given} for configuration {SETTING}: it is no DslStoreSuppliers; a subclass is, an object "
            f"of one, 'module:name' of either, and BuiltInDslStoreSuppliers has {known}"
        )
    made.configure(config)
    return made


def chosen_suppliers(suppliers: DslStoreSuppliers | None, persistent: bool | None) -> DslStoreSuppliers:
    """Return the suppliers that `with_store_type` was given. Raises TypeError unless it was given one of the two."""
    if (suppliers is None) == (persistent is None):
        raise TypeError("with_store_type takes suppliers (a DslStoreSuppliers), or persistent=True or False")
    if persistent is not None:
        check_field("persistent", persistent)
        return BuiltInDslStoreSuppliers.ROCKS_DB if persistent else BuiltInDslStoreSuppliers.IN_MEMORY
    if not isinstance(suppliers, DslStoreSuppliers):
        raise TypeError(f"suppliers is a DslStoreSuppliers, not {suppliers!r}")
    return suppliers


def resolved(builder: StoreBuilder, default: DslStoreSuppliers, *, with_headers: bool) -> StoreBuilder:
    """Return the builder of a store as its suppliers keep it, `default` where the step named none.

    `with_headers`: the setting dsl.store.format. Raises TypeError or ValueError for what cannot be such a store.
    """
    asked = builder.asks
    if asked is None:
        return builder
    if with_headers and builder.kind is not StoreKind.JOIN_LIST:  # as Kafka 4.3
        asked = replace(asked, dsl_store_format=DslStoreFormat.HEADERS)
    suppliers = builder.suppliers or default
    if isinstance(asked, DslKeyValueParams):
        supplier = suppliers.key_value_store(asked)
    elif isinstance(asked, DslWindowParams):
        supplier = suppliers.window_store(asked)
    else:
        supplier = suppliers.session_store(asked)
    where = f"{type(suppliers).__name__} gave for store {builder.name}"
    if not isinstance(supplier, StoreSupplier):
        raise TypeError(f"{where} {supplier!r}, which is no StoreSupplier")
    versioned = builder.kind is StoreKind.TIMESTAMPED_KEY_VALUE and supplier.kind is StoreKind.VERSIONED_KEY_VALUE
    if not versioned and FAMILY.get(supplier.kind) != FAMILY.get(builder.kind, "key-value"):
        raise ValueError(f"{where} a {supplier.kind.value} supplier; it must be one of a {builder.kind.value} store")
    if versioned:
        builder = replace(builder, kind=StoreKind.VERSIONED_KEY_VALUE, caching=False)
    return supplied(builder, supplier)
