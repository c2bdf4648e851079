"""`Materialized`: the name, serdes and kind of the store of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from barnabas.streams.dsl.operator_names import validate
from barnabas.streams.durations import Duration, as_ms
from barnabas.streams.serdes import Serde
from barnabas.streams.topology.dsl_store_suppliers import DslStoreSuppliers, chosen_suppliers
from barnabas.streams.topology.given_fields import check_fields, log_config_of
from barnabas.streams.topology.materialized_internal import MaterializedInternal
from barnabas.streams.topology.stores import StoreSupplier

if TYPE_CHECKING:
    from barnabas.streams.dsl.internal_streams_builder import InternalStreamsBuilder

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Materialized(Generic[K, V]):
    """A store of a table: with a name it can be queried, `with_` only says the serdes."""

    store_name: str | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    store_supplier: StoreSupplier | None = None
    dsl_store_suppliers: DslStoreSuppliers | None = None
    logging_enabled: bool = True
    caching_enabled: bool = True
    log_config: Mapping[str, str] = field(default_factory=dict)
    retention_ms: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, store_supplier=StoreSupplier, dsl_store_suppliers=DslStoreSuppliers)

    @staticmethod
    def as_(store: str | StoreSupplier | DslStoreSuppliers) -> Materialized[Any, Any]:
        """Name the store, or say with a supplier of `Stores`, or with suppliers of all kinds, how it is kept."""
        if isinstance(store, StoreSupplier):
            return Materialized(store_supplier=store)
        if isinstance(store, DslStoreSuppliers):
            return Materialized(dsl_store_suppliers=store)
        return Materialized(store_name=validate(store))

    @staticmethod
    def with_(key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None) -> Materialized[K, V]:
        """Keep the store with serdes; it cannot be queried."""
        return Materialized(key_serde=key_serde, value_serde=value_serde)

    def with_key_serde(self, key_serde: Serde[K] | None) -> Materialized[K, V]:
        """Keep keys with a serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde[V] | None) -> Materialized[K, V]:
        """Keep values with a serde."""
        return replace(self, value_serde=value_serde)

    def with_logging_enabled(self, config: Mapping[str, str]) -> Materialized[K, V]:
        """Keep a changelog topic with these settings."""
        return replace(self, logging_enabled=True, log_config=log_config_of(config))

    def with_logging_disabled(self) -> Materialized[K, V]:
        """Keep no changelog topic: the store is lost with its task."""
        return replace(self, logging_enabled=False, log_config={})

    def with_caching_enabled(self) -> Materialized[K, V]:
        """Send on only the last update of a key before each commit."""
        return replace(self, caching_enabled=True)

    def with_caching_disabled(self) -> Materialized[K, V]:
        """Send on every update."""
        return replace(self, caching_enabled=False)

    def with_retention(self, retention: Duration) -> Materialized[K, V]:
        """Keep windows or sessions for a time. Raises ValueError when it is negative."""
        retention_ms = as_ms(retention, "retention")
        if retention_ms < 0:
            raise ValueError("Retention must not be negative.")
        return replace(self, retention_ms=retention_ms)

    def with_store_type(
        self, suppliers: DslStoreSuppliers | None = None, *, persistent: bool | None = None
    ) -> Materialized[K, V]:
        """Keep the store on disk or in memory, or as suppliers say.

        Raises ValueError beside a supplier of the store, which says so itself.
        """
        if self.store_supplier is not None:
            raise ValueError("Cannot set store type when store supplier is pre-configured.")
        return replace(self, dsl_store_suppliers=chosen_suppliers(suppliers, persistent))


def materialized_internal(
    materialized: Materialized[Any, Any],
    builder: InternalStreamsBuilder | None = None,
    prefix: str = "",
    force_queryable: bool = False,
) -> MaterializedInternal:
    """Return what an operator needs to know of its store; with a builder a store without a name gets the next one."""
    supplier = materialized.store_supplier
    name = supplier.name if supplier is not None else materialized.store_name
    queryable = force_queryable or name is not None
    if name is None and builder is not None:
        name = builder.names.store(prefix)
        changelog = f"{name}-changelog" if materialized.logging_enabled else None
        builder.topology_builder.names.add(changelog=changelog, store=name)
    default = None if builder is None else builder.topology_builder.dsl_store_suppliers
    return MaterializedInternal(
        store_name=name,
        queryable=queryable,
        key_serde=materialized.key_serde,
        value_serde=materialized.value_serde,
        store_supplier=supplier,
        suppliers=materialized.dsl_store_suppliers or default,
        logging_enabled=materialized.logging_enabled,
        log_config=dict(materialized.log_config),
        caching_enabled=materialized.caching_enabled,
        retention_ms=materialized.retention_ms,
    )
