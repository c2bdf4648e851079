"""The store that an operator of the DSL keeps: what `Materialized` asks for, with the operator's name and serdes.

Source: Kafka's MaterializedInternal and the store materializers beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from barnabas.streams.emit_strategy import EmitStrategy
from barnabas.streams.topology.dsl_store_suppliers import (
    DslKeyValueParams,
    DslParams,
    DslSessionParams,
    DslStoreFormat,
    DslStoreSuppliers,
    DslWindowParams,
)
from barnabas.streams.topology.stores import StoreBuilder, StoreKind, StoreSupplier, builder_of, segment_interval_ms


@dataclass(eq=False)
class MaterializedInternal:
    """What is known of an operator's store before it is built; `suppliers` None means those of the settings."""

    store_name: str | None
    queryable: bool = False
    key_serde: Any = None
    value_serde: Any = None
    store_supplier: StoreSupplier | None = None
    suppliers: DslStoreSuppliers | None = None
    logging_enabled: bool = True
    log_config: dict[str, str] = field(default_factory=dict)
    caching_enabled: bool = True
    retention_ms: int | None = None
    _store: StoreBuilder | None = None

    @property
    def queryable_store_name(self) -> str | None:
        """The name under which users find the store; None when they gave none."""
        return self.store_name if self.queryable else None

    @property
    def is_versioned(self) -> bool:
        """Tell whether the store keeps a history."""
        return self.store_supplier is not None and self.store_supplier.kind is StoreKind.VERSIONED_KEY_VALUE

    def key_value_store(self) -> StoreBuilder:
        """Return the builder of the key-value store, each time the same (KeyValueStoreMaterializer)."""
        if self._store is None:
            kind = StoreKind.VERSIONED_KEY_VALUE if self.is_versioned else StoreKind.TIMESTAMPED_KEY_VALUE
            self._store = self._builder(kind, DslKeyValueParams(self._name, DslStoreFormat.TIMESTAMPED))
        return self._store

    def window_store(self, size_ms: int, grace_ms: int, emit_strategy: EmitStrategy) -> StoreBuilder:
        """Return the builder of a window store (WindowStoreMaterializer).

        Raises ValueError when the retention asked for is shorter than a window and its grace.
        """
        retention_ms = size_ms + grace_ms if self.retention_ms is None else self.retention_ms
        if size_ms + grace_ms > retention_ms:
            raise ValueError(
                f"The retention period of the window store {self.store_name} must be no smaller than its window size "
                f"plus the grace period. Got size=[{size_ms}], grace=[{grace_ms}], retention=[{retention_ms}]"
            )
        asked = DslWindowParams(
            self._name, retention_ms, size_ms, False, emit_strategy, False, DslStoreFormat.TIMESTAMPED
        )
        return self._windowed(StoreKind.TIMESTAMPED_WINDOW, asked, size_ms)

    def sliding_window_store(self, difference_ms: int, grace_ms: int, emit_strategy: EmitStrategy) -> StoreBuilder:
        """Return the builder of a store for sliding windows (SlidingWindowStoreMaterializer).

        Raises ValueError when the retention asked for is too short.
        """
        retention_ms = grace_ms + 2 * difference_ms if self.retention_ms is None else self.retention_ms
        if difference_ms * 2 + grace_ms > retention_ms:
            raise ValueError(
                f"The retention period of the window store {self.store_name} must be no smaller than 2 * time "
                f"difference plus the grace period. Got time difference=[{difference_ms}], grace=[{grace_ms}], "
                f"retention=[{retention_ms}]"
            )
        asked = DslWindowParams(
            self._name, retention_ms, difference_ms, False, emit_strategy, True, DslStoreFormat.TIMESTAMPED
        )
        return _uncached_on_close(self._windowed(StoreKind.TIMESTAMPED_WINDOW, asked, difference_ms), emit_strategy)

    def session_store(self, gap_ms: int, grace_ms: int, emit_strategy: EmitStrategy) -> StoreBuilder:
        """Return the builder of a session store (SessionStoreMaterializer).

        Raises ValueError when the retention asked for is too short.
        """
        retention_ms = gap_ms + grace_ms if self.retention_ms is None else self.retention_ms
        if gap_ms + grace_ms > retention_ms:
            raise ValueError(
                f"The retention period of the session store {self.store_name} must be no smaller than the session "
                f"inactivity gap plus the grace period. Got gap=[{gap_ms}], grace=[{grace_ms}], "
                f"retention=[{retention_ms}]"
            )
        asked = DslSessionParams(self._name, retention_ms, emit_strategy)
        return _uncached_on_close(self._windowed(StoreKind.SESSION, asked, None), emit_strategy)

    @property
    def _name(self) -> str:
        name = self.store_name if self.store_supplier is None else self.store_supplier.name
        if name is None:
            raise TypeError("a store needs a name")
        return name

    def _windowed(
        self, kind: StoreKind, asked: DslWindowParams | DslSessionParams, size_ms: int | None
    ) -> StoreBuilder:
        store = self._builder(kind, asked)
        if self.store_supplier is None:
            store.retention_ms = asked.retention_period_ms
            store.window_size_ms = size_ms
            store.segment_interval_ms = segment_interval_ms(asked.retention_period_ms)
        return store

    def _builder(self, kind: StoreKind, asked: DslParams) -> StoreBuilder:
        if self.store_supplier is not None:
            store = builder_of(self.store_supplier, kind, self.key_serde, self.value_serde)
        else:
            store = StoreBuilder(
                self._name, kind, self.key_serde, self.value_serde, asks=asked, suppliers=self.suppliers
            )
        store.logging = self.logging_enabled
        store.log_config = dict(self.log_config)
        return store.with_caching_enabled() if self.caching_enabled else store


def _uncached_on_close(store: StoreBuilder, emit_strategy: EmitStrategy) -> StoreBuilder:
    return store.with_caching_disabled() if emit_strategy is EmitStrategy.ON_WINDOW_CLOSE else store
