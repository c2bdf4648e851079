"""The stores of a stream-stream join: one for each side, and one for records that have no partner yet.

Source: Kafka's StreamJoinedStoreFactory and OuterStreamJoinStoreFactory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.streams.dsl.options import StreamJoined
from barnabas.streams.dsl.windows import JoinWindows
from barnabas.streams.emit_strategy import EmitStrategy
from barnabas.streams.errors import StreamsError
from barnabas.streams.topology.dsl_store_suppliers import (
    BuiltInDslStoreSuppliers,
    DslKeyValueParams,
    DslStoreSuppliers,
    DslWindowParams,
)
from barnabas.streams.topology.stores import StoreBuilder, StoreKind, StoreSupplier, builder_of, segment_interval_ms

if TYPE_CHECKING:
    from barnabas.streams.dsl.internal_streams_builder import InternalStreamsBuilder


def this_and_other_store(
    windows: JoinWindows,
    joined: StreamJoined[Any, Any, Any],
    generated: tuple[str, str],
    suffixes: tuple[str, str],
) -> tuple[StoreBuilder, StoreBuilder]:
    """Return the stores of both sides. Raises `StreamsError` for suppliers that do not suit the windows."""
    suppliers = (joined.this_store_supplier, joined.other_store_supplier)
    if suppliers[0] is not None and suppliers[1] is not None and suppliers[0].name == suppliers[1].name:
        raise StreamsError("Both StoreSuppliers have the same name.  StoreSuppliers must provide unique names")
    serdes = (joined.value_serde, joined.other_value_serde)
    stores = []
    for supplier, value_serde, name, suffix in zip(suppliers, serdes, generated, suffixes, strict=True):
        if supplier is not None:
            _check(supplier, windows)
            store = builder_of(supplier, StoreKind.WINDOW, joined.key_serde, value_serde)
            store.logs_headers = True
            stores.append(store)
        else:
            base = name if joined.store_name is None else joined.store_name + suffix
            stores.append(_side(f"{base}-store", value_serde, windows, joined))
    return stores[0], stores[1]


def _side(name: str, value_serde: Any, windows: JoinWindows, joined: StreamJoined[Any, Any, Any]) -> StoreBuilder:
    retention_ms = windows.size_ms + windows.grace_period_ms
    return StoreBuilder(
        name,
        StoreKind.WINDOW,
        joined.key_serde,
        value_serde,
        asks=DslWindowParams(name, retention_ms, windows.size_ms, True, EmitStrategy.ON_WINDOW_UPDATE, False),
        suppliers=joined.dsl_store_suppliers,
        logs_headers=True,
        retention_ms=retention_ms,
        window_size_ms=windows.size_ms,
        segment_interval_ms=segment_interval_ms(retention_ms),
        retain_duplicates=True,
        logging=joined.logging_enabled,
        log_config={**joined.log_config, "cleanup.policy": "delete"},
    )


def _check(supplier: StoreSupplier, windows: JoinWindows) -> None:
    if not supplier.retain_duplicates:
        raise StreamsError("The StoreSupplier must set retainDuplicates=true, found retainDuplicates=false")
    wanted = (windows.size_ms + windows.grace_period_ms, windows.size_ms)
    if (supplier.retention_ms, supplier.window_size_ms) != wanted:
        raise StreamsError(
            f"Window settings mismatch. WindowBytesStoreSupplier settings {supplier} must match JoinWindows settings "
            f"{windows} for the window size and retention period"
        )


def outer_join_store(
    windows: JoinWindows, joined: StreamJoined[Any, Any, Any], generated: str, right_outer: bool
) -> StoreBuilder:
    """Return the store of records without a partner, shared by both sides."""
    suffix = "-outer-shared-join" if right_outer else "-left-shared-join"
    if joined.this_store_supplier is not None and joined.this_store_supplier.name:
        name = joined.this_store_supplier.name + suffix
    elif joined.store_name is not None:
        name = joined.store_name + suffix
    else:
        prefix = "KSTREAM-OUTERTHIS-" if right_outer else "KSTREAM-JOINTHIS-"
        name = "KSTREAM-OUTERSHARED-" + generated.removeprefix(prefix)
    return StoreBuilder(
        f"{name}-store",
        StoreKind.JOIN_LIST,
        joined.key_serde,
        joined.value_serde,
        asks=DslKeyValueParams(f"{name}-store"),
        suppliers=joined.dsl_store_suppliers or _like(joined.this_store_supplier),
        other_value_serde=joined.other_value_serde,
        logging=joined.logging_enabled,
        log_config=dict(joined.log_config),
    )


def _like(supplier: StoreSupplier | None) -> DslStoreSuppliers | None:
    """Return what keeps a store as this one's is kept; None, the settings, for none and for a store of the user's."""
    if supplier is None or supplier.get is not None:
        return None
    return BuiltInDslStoreSuppliers.ROCKS_DB if supplier.persistent else BuiltInDslStoreSuppliers.IN_MEMORY


def add_generated_names(builder: InternalStreamsBuilder, stores: list[StoreBuilder]) -> None:
    """Note that the names of these stores were generated."""
    for store in stores:
        builder.topology_builder.names.add(
            store=store.name, changelog=f"{store.name}-changelog" if store.logging else None
        )
