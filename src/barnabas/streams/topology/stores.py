"""State stores as a topology describes them: of what kind, how long they keep, whether they are logged and cached.

Nothing here stores anything: the engine makes a store from its `StoreBuilder`. Source: Kafka's `Stores` and
`StoreBuilder`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

from barnabas.streams.durations import Duration, as_ms
from barnabas.streams.topology.given_fields import check_fields, log_config_of

#: How long a window store's segments last at least.
MIN_SEGMENT_INTERVAL_MS = 60_000


class StoreKind(Enum):
    """What a store keeps. The last three are internal: Kafka's DSL makes them, users do not."""

    KEY_VALUE = "key-value"
    TIMESTAMPED_KEY_VALUE = "timestamped-key-value"
    VERSIONED_KEY_VALUE = "versioned-key-value"
    WINDOW = "window"
    TIMESTAMPED_WINDOW = "timestamped-window"
    SESSION = "session"
    #: A store of the user's own kind.
    OWN = "own"
    #: Outer stream-stream joins: TimestampedKeyAndJoinSide to a list of LeftOrRightValue (ListValueStore).
    JOIN_LIST = "join-list"
    #: Stream-table joins with grace (RocksDBTimeOrderedKeyValueBuffer).
    TIME_ORDERED_KEY_VALUE_BUFFER = "time-ordered-key-value-buffer"
    #: Suppress (InMemoryTimeOrderedKeyValueChangeBuffer).
    TIME_ORDERED_CHANGE_BUFFER = "time-ordered-change-buffer"


WINDOW_KINDS = frozenset({StoreKind.WINDOW, StoreKind.TIMESTAMPED_WINDOW, StoreKind.SESSION})


@dataclass(frozen=True)
class StoreSupplier:
    """How the bytes of a store are kept; made by the functions of `Stores`. Times are in milliseconds.

    With `get`, a function of yours makes what keeps them, once for each task: a `BytesMap`, `WindowBytes` or
    `SessionBytes`, as `kind` says. The changelog fills it whenever a task starts, so it need not outlive the task.
    """

    name: str
    kind: StoreKind
    persistent: bool
    headers: bool = False
    retention_ms: int | None = None
    window_size_ms: int | None = None
    segment_interval_ms: int | None = None
    retain_duplicates: bool = False
    history_retention_ms: int | None = None
    max_entries: int | None = None
    #: Windows are sorted by time first, for what emits on window close; `indexed`: by key as well (sliding windows).
    time_ordered: bool = False
    indexed: bool = False
    get: Callable[[], Any] | None = None

    def __post_init__(self) -> None:
        check_fields(self, kind=StoreKind)


@dataclass(eq=False)
class StoreBuilder:
    """One store of a topology. Two builders are the same store only when they are the same object, or `same_as` is.

    `key_serde` and `value_serde`: None means the defaults of the settings. `asks` is what a step of the DSL asks
    `suppliers` for, or those of the settings (`dsl.store.suppliers.class`), once they are known. `headers` are kept
    with the values; with `logs_headers` the changelog alone has those of the records. `get` makes what keeps the bytes,
    where the user does. `grace_ms` is the buffers' for stream-table joins; `other_value_serde` is that of the right
    side in a `JOIN_LIST`.
    """

    name: str
    kind: StoreKind
    key_serde: Any = None
    value_serde: Any = None
    persistent: bool = True
    headers: bool = False
    logs_headers: bool = False
    retention_ms: int | None = None
    window_size_ms: int | None = None
    segment_interval_ms: int | None = None
    retain_duplicates: bool = False
    time_ordered: bool = False
    indexed: bool = False
    history_retention_ms: int | None = None
    max_entries: int | None = None
    get: Callable[[], Any] | None = None
    #: DslParams and DslStoreSuppliers of `dsl_store_suppliers`, which makes use of this module.
    asks: Any = None
    suppliers: Any = None
    grace_ms: int | None = None
    other_value_serde: Any = None
    caching: bool = False
    logging: bool = True
    log_config: dict[str, str] = field(default_factory=dict)
    #: What made it, where Kafka compares that: two joins may share a store when their options are equal.
    made_of: Any = None
    connected_processors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_fields(self, kind=StoreKind)

    @staticmethod
    def of(name: str, make: Callable[[], Any]) -> StoreBuilder:
        """Describe a store of a kind of your own: `make` returns a new subclass of `StateStore` for each task."""
        if not callable(make):
            raise TypeError(f"the store {name} needs a function that makes it, not {make!r}")
        return StoreBuilder(_checked(name), StoreKind.OWN, persistent=False, get=make)

    def with_caching_enabled(self) -> StoreBuilder:
        """Keep records in memory until a commit, so that only the last update of a key is sent on."""
        if self.kind is StoreKind.VERSIONED_KEY_VALUE:
            return self  # as Kafka: versioned stores are not cached
        self.caching = True
        return self

    def with_caching_disabled(self) -> StoreBuilder:
        """Send on every update."""
        self.caching = False
        return self

    def with_logging_enabled(self, config: Mapping[str, str] | None = None) -> StoreBuilder:
        """Keep a changelog topic; `config` are settings of the topic."""
        self.logging = True
        self.log_config = {} if config is None else log_config_of(config)
        return self

    def with_logging_disabled(self) -> StoreBuilder:
        """Keep no changelog topic: the store is lost with its task."""
        self.logging = False
        self.log_config = {}
        return self

    @property
    def is_window_store(self) -> bool:
        """Tell whether the changelog topic needs the cleanup policy of windows."""
        return self.kind in WINDOW_KINDS

    @property
    def is_versioned_store(self) -> bool:
        """Tell whether the store keeps a history."""
        return self.kind is StoreKind.VERSIONED_KEY_VALUE

    def is_compatible_with(self, other: StoreBuilder) -> bool:
        """Tell whether a second builder of the same name means this very store."""
        return self is other or (self.made_of is not None and self.kind is other.kind and self.made_of == other.made_of)


def check_store_builder(given: Any) -> None:
    """Raise TypeError for what is no builder of a store."""
    if given is None:
        raise TypeError("builder can't be null")
    if not isinstance(given, StoreBuilder):
        raise TypeError(f"a store is added by its StoreBuilder, as the functions of Stores make, not by {given!r}")


def segment_interval_ms(retention_ms: int) -> int:
    """Return how long a segment of a persistent window store lasts."""
    return max(retention_ms // 2, MIN_SEGMENT_INTERVAL_MS)


class Stores:
    """Makes suppliers and builders of stores, as Kafka's `Stores`. Durations are timedeltas or milliseconds."""

    @staticmethod
    def persistent_key_value_store(name: str) -> StoreSupplier:
        """Describe a store on disk."""
        return StoreSupplier(_checked(name), StoreKind.KEY_VALUE, persistent=True)

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> StoreSupplier:
        """Describe a store on disk that keeps each value's timestamp."""
        return StoreSupplier(_checked(name), StoreKind.TIMESTAMPED_KEY_VALUE, persistent=True)

    @staticmethod
    def persistent_timestamped_key_value_store_with_headers(name: str) -> StoreSupplier:
        """Describe a store on disk that keeps each value's timestamp and headers."""
        return StoreSupplier(_checked(name), StoreKind.TIMESTAMPED_KEY_VALUE, persistent=True, headers=True)

    @staticmethod
    def in_memory_key_value_store(name: str) -> StoreSupplier:
        """Describe a store in memory."""
        return StoreSupplier(_checked(name), StoreKind.KEY_VALUE, persistent=False)

    @staticmethod
    def lru_map(name: str, max_cache_size: int) -> StoreSupplier:
        """Describe a store in memory that keeps the entries used last. Raises ValueError for a negative size."""
        if isinstance(max_cache_size, int) and max_cache_size < 0:
            raise ValueError("maxCacheSize cannot be negative")
        return StoreSupplier(_checked(name), StoreKind.KEY_VALUE, persistent=False, max_entries=max_cache_size)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> StoreSupplier:
        """Describe a store on disk that keeps old values for `history_retention`. Raises ValueError below zero."""
        history_ms = as_ms(history_retention, "history_retention")
        if history_ms < 0:
            raise ValueError("historyRetention cannot be negative")
        segment_ms = None if segment_interval is None else as_ms(segment_interval, "segment_interval")
        if segment_ms is not None and segment_ms < 1:
            raise ValueError("segmentInterval cannot be zero or negative")
        return StoreSupplier(
            _checked(name),
            StoreKind.VERSIONED_KEY_VALUE,
            persistent=True,
            history_retention_ms=history_ms,
            segment_interval_ms=segment_ms,
        )

    @staticmethod
    def persistent_window_store(
        name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """Describe a window store on disk. Raises ValueError for negative times and when too little is kept."""
        return _window_store(StoreKind.WINDOW, name, retention_period, window_size, retain_duplicates, True)

    @staticmethod
    def persistent_timestamped_window_store(
        name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """Describe a window store on disk that keeps each value's timestamp. Raises as `persistent_window_store`."""
        return _window_store(StoreKind.TIMESTAMPED_WINDOW, name, retention_period, window_size, retain_duplicates, True)

    @staticmethod
    def persistent_timestamped_window_store_with_headers(
        name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """Describe a window store on disk with timestamps and headers. Raises as `persistent_window_store`."""
        made = _window_store(StoreKind.TIMESTAMPED_WINDOW, name, retention_period, window_size, retain_duplicates, True)
        return replace(made, headers=True)

    @staticmethod
    def in_memory_window_store(
        name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """Describe a window store in memory. Raises as `persistent_window_store`."""
        return _window_store(StoreKind.WINDOW, name, retention_period, window_size, retain_duplicates, False)

    @staticmethod
    def persistent_session_store(name: str, retention_period: Duration) -> StoreSupplier:
        """Describe a session store on disk. Raises ValueError for a negative retention."""
        return _session_store(name, retention_period, True)

    @staticmethod
    def persistent_session_store_with_headers(name: str, retention_period: Duration) -> StoreSupplier:
        """Describe a session store on disk that keeps headers. Raises ValueError for a negative retention."""
        return replace(_session_store(name, retention_period, True), headers=True)

    @staticmethod
    def in_memory_session_store(name: str, retention_period: Duration) -> StoreSupplier:
        """Describe a session store in memory. Raises ValueError for a negative retention."""
        return _session_store(name, retention_period, False)

    @staticmethod
    def key_value_store_builder(
        supplier: StoreSupplier, key_serde: Any = None, value_serde: Any = None
    ) -> StoreBuilder:
        """Describe a store from key to value."""
        return builder_of(supplier, StoreKind.KEY_VALUE, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: StoreSupplier, key_serde: Any = None, value_serde: Any = None
    ) -> StoreBuilder:
        """Describe a store from key to value and timestamp."""
        return builder_of(supplier, StoreKind.TIMESTAMPED_KEY_VALUE, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_with_headers_builder(
        supplier: StoreSupplier, key_serde: Any = None, value_serde: Any = None
    ) -> StoreBuilder:
        """Describe a store from key to value, timestamp and headers (KIP-1271). Raises as `builder_of`."""
        builder = builder_of(supplier, StoreKind.TIMESTAMPED_KEY_VALUE, key_serde, value_serde)
        builder.headers = True
        return builder

    @staticmethod
    def timestamped_window_store_with_headers_builder(
        supplier: StoreSupplier, key_serde: Any = None, value_serde: Any = None
    ) -> StoreBuilder:
        """Describe a store from key and time to value, timestamp and headers (KIP-1271). Raises as `builder_of`."""
        builder = builder_of(supplier, StoreKind.TIMESTAMPED_WINDOW, key_serde, value_serde)
        builder.headers = True
        return builder

    @staticmethod
    def versioned_key_value_store_builder(
        supplier: StoreSupplier, key_serde: Any = None, value_serde: Any = None
    ) -> StoreBuilder:
        """Describe a store from key to a history of values."""
        return builder_of(supplier, StoreKind.VERSIONED_KEY_VALUE, key_serde, value_serde)

    @staticmethod
    def window_store_builder(supplier: StoreSupplier, key_serde: Any = None, value_serde: Any = None) -> StoreBuilder:
        """Describe a store from key and time to value."""
        return builder_of(supplier, StoreKind.WINDOW, key_serde, value_serde)

    @staticmethod
    def timestamped_window_store_builder(
        supplier: StoreSupplier, key_serde: Any = None, value_serde: Any = None
    ) -> StoreBuilder:
        """Describe a store from key and time to value and timestamp."""
        return builder_of(supplier, StoreKind.TIMESTAMPED_WINDOW, key_serde, value_serde)

    @staticmethod
    def session_store_builder(supplier: StoreSupplier, key_serde: Any = None, value_serde: Any = None) -> StoreBuilder:
        """Describe a store from key and session to value."""
        return builder_of(supplier, StoreKind.SESSION, key_serde, value_serde)

    @staticmethod
    def session_store_with_headers_builder(
        supplier: StoreSupplier, key_serde: Any = None, value_serde: Any = None
    ) -> StoreBuilder:
        """Describe a store from key and session to `AggregationWithHeaders` (KIP-1271). Raises as `builder_of`."""
        builder = builder_of(supplier, StoreKind.SESSION, key_serde, value_serde)
        builder.headers = True
        return builder


def builder_of(supplier: StoreSupplier, kind: StoreKind, key_serde: Any, value_serde: Any) -> StoreBuilder:
    """Return the builder of a store of `kind` whose bytes are kept as the supplier says.

    Raises TypeError without a supplier, ValueError when the supplier cannot keep such a store.
    """
    if supplier is None:
        raise TypeError("supplier cannot be null")
    if not isinstance(supplier, StoreSupplier):
        raise TypeError(f"a {kind.value} store takes a StoreSupplier, made by Stores, not {supplier!r}")
    if FAMILY[supplier.kind] != FAMILY[kind]:
        raise ValueError(f"a {supplier.kind.value} supplier, {supplier.name}, cannot keep a {kind.value} store")
    return supplied(StoreBuilder(supplier.name, kind, key_serde, value_serde), supplier)


def supplied(builder: StoreBuilder, supplier: StoreSupplier) -> StoreBuilder:
    """Return the builder of a store whose bytes are kept as the supplier says."""
    return replace(builder, **{name: getattr(supplier, name) for name in _SUPPLIED})


_SUPPLIED = tuple(found.name for found in fields(StoreSupplier) if found.name not in ("name", "kind"))


#: Kinds of stores that one supplier can keep.
FAMILY = {
    StoreKind.KEY_VALUE: "key-value",
    StoreKind.TIMESTAMPED_KEY_VALUE: "key-value",
    StoreKind.VERSIONED_KEY_VALUE: "versioned",
    StoreKind.WINDOW: "window",
    StoreKind.TIMESTAMPED_WINDOW: "window",
    StoreKind.SESSION: "session",
}


def _checked(name: str) -> str:
    if name is None:
        raise TypeError("name cannot be null")
    if not isinstance(name, str):
        raise TypeError(f"a store's name is a str, not {name!r}")
    return name


def _window_store(
    kind: StoreKind, name: str, retention: Duration, size: Duration, retain_duplicates: bool, persistent: bool
) -> StoreSupplier:
    retention_ms = as_ms(retention, "retention_period")
    size_ms = as_ms(size, "window_size")
    if retention_ms < 0:
        raise ValueError("retentionPeriod cannot be negative")
    if size_ms < 0:
        raise ValueError("windowSize cannot be negative")
    if size_ms > retention_ms:
        raise ValueError(
            f"The retention period of the window store {_checked(name)} must be no smaller than its window size. "
            f"Got size=[{iso_duration(size_ms)}], retention=[{iso_duration(retention_ms)}]"
        )
    return StoreSupplier(
        _checked(name),
        kind,
        persistent,
        retention_ms=retention_ms,
        window_size_ms=size_ms,
        segment_interval_ms=segment_interval_ms(retention_ms),
        retain_duplicates=retain_duplicates,
    )


def _session_store(name: str, retention: Duration, persistent: bool) -> StoreSupplier:
    retention_ms = as_ms(retention, "retention_period")
    if retention_ms < 0:
        raise ValueError("retentionPeriod cannot be negative")
    return StoreSupplier(
        _checked(name),
        StoreKind.SESSION,
        persistent,
        retention_ms=retention_ms,
        segment_interval_ms=segment_interval_ms(retention_ms),
    )


def iso_duration(ms: int) -> str:
    """Return milliseconds as ISO 8601 writes them: 20 is `PT0.02S`, 90,000 is `PT1M30S`."""
    hours, rest = divmod(ms, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds = f"{rest / 1000:.3f}".rstrip("0").rstrip(".")
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else "", f"{seconds}S" if rest else ""]
    return "PT" + ("".join(parts) or "0S")
