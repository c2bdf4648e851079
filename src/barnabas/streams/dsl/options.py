"""Kafka's option objects: names, serdes and more for one operator. They are values; `with_...` makes another one.

Source: Kafka's package `kstream`. A method takes them in any order, and most of them as keywords besides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from barnabas.streams.dsl.operator_names import validate
from barnabas.streams.durations import Duration, as_ms
from barnabas.streams.serdes import Serde
from barnabas.streams.topology.dsl_store_suppliers import DslStoreSuppliers, chosen_suppliers
from barnabas.streams.topology.given_fields import check_fields, log_config_of
from barnabas.streams.topology.processor_api import StreamPartitioner, TimestampExtractor
from barnabas.streams.topology.stores import StoreSupplier

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")


@dataclass(frozen=True)
class Named:
    """The name of an operator. Raises `TopologyError` for a name that no topic can have."""

    name: str

    def __post_init__(self) -> None:
        validate(self.name)

    @staticmethod
    def as_(name: str) -> Named:
        """Name an operator."""
        return Named(name)

    def with_name(self, name: str) -> Named:
        """Name it otherwise."""
        return Named(name)


@dataclass(frozen=True)
class Consumed(Generic[K, V]):
    """How a topic is read; serdes of None mean the default ones, `auto_offset_reset` is as in `Topology.add_source`."""

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    auto_offset_reset: Any = None
    name: str | None = None

    def __post_init__(self) -> None:
        _check(self)

    @staticmethod
    def with_(
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        *,
        timestamp_extractor: TimestampExtractor | None = None,
        auto_offset_reset: Any = None,
    ) -> Consumed[K, V]:
        """Read with serdes, an extractor of timestamps, a policy for where there is no committed offset."""
        return Consumed(key_serde, value_serde, timestamp_extractor, auto_offset_reset)

    @staticmethod
    def as_(name: str) -> Consumed[Any, Any]:
        """Name the source."""
        return Consumed(name=validate(name))

    def with_name(self, name: str) -> Consumed[K, V]:
        """Name the source."""
        return replace(self, name=name)

    def with_key_serde(self, key_serde: Serde[K]) -> Consumed[K, V]:
        """Read keys with a serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde[V]) -> Consumed[K, V]:
        """Read values with a serde."""
        return replace(self, value_serde=value_serde)

    def with_timestamp_extractor(self, timestamp_extractor: TimestampExtractor) -> Consumed[K, V]:
        """Take timestamps from records by a function."""
        return replace(self, timestamp_extractor=timestamp_extractor)

    def with_offset_reset_policy(self, auto_offset_reset: Any) -> Consumed[K, V]:
        """Begin at earliest, latest, none, or a timedelta back, where there is no committed offset."""
        return replace(self, auto_offset_reset=auto_offset_reset)


@dataclass(frozen=True)
class Produced(Generic[K, V]):
    """How a topic is written. Serdes of None mean those of the stream."""

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    partitioner: StreamPartitioner | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        _check(self)

    @staticmethod
    def with_(
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        partitioner: StreamPartitioner | None = None,
    ) -> Produced[K, V]:
        """Write with serdes and a partitioner."""
        return Produced(key_serde, value_serde, partitioner)

    @staticmethod
    def as_(name: str) -> Produced[Any, Any]:
        """Name the sink."""
        return Produced(name=validate(name))

    def with_name(self, name: str) -> Produced[K, V]:
        """Name the sink."""
        return replace(self, name=name)

    def with_key_serde(self, key_serde: Serde[K]) -> Produced[K, V]:
        """Write keys with a serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde[V]) -> Produced[K, V]:
        """Write values with a serde."""
        return replace(self, value_serde=value_serde)

    def with_stream_partitioner(self, partitioner: StreamPartitioner) -> Produced[K, V]:
        """Choose partitions by a function."""
        return replace(self, partitioner=partitioner)


@dataclass(frozen=True)
class Grouped(Generic[K, V]):
    """Serdes of a repartition topic, and the name that it and the operator get."""

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        _check(self)

    @staticmethod
    def with_(
        key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None, *, name: str | None = None
    ) -> Grouped[K, V]:
        """Group with serdes, and a name."""
        return Grouped(key_serde, value_serde, name)

    @staticmethod
    def as_(name: str) -> Grouped[Any, Any]:
        """Name the repartition topic."""
        return Grouped(name=validate(name))

    def with_name(self, name: str) -> Grouped[K, V]:
        """Name the repartition topic."""
        return replace(self, name=name)

    def with_key_serde(self, key_serde: Serde[K]) -> Grouped[K, V]:
        """Write keys with a serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde[V]) -> Grouped[K, V]:
        """Write values with a serde."""
        return replace(self, value_serde=value_serde)


@dataclass(frozen=True)
class Joined(Generic[K, V, V2]):
    """Serdes, name and grace of a stream-table join; grace needs a versioned table (KIP-923)."""

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[V2] | None = None
    name: str | None = None
    grace_period_ms: int | None = None

    def __post_init__(self) -> None:
        _check(self)

    @staticmethod
    def with_(
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        other_value_serde: Serde[V2] | None = None,
        *,
        name: str | None = None,
        grace_period: Duration | None = None,
    ) -> Joined[K, V, V2]:
        """Join with serdes, a name, and grace."""
        grace_ms = None if grace_period is None else as_ms(grace_period, "grace_period")
        return Joined(key_serde, value_serde, other_value_serde, name, grace_ms)

    @staticmethod
    def as_(name: str) -> Joined[Any, Any, Any]:
        """Name the join and its repartition topic."""
        return Joined(name=validate(name))

    def with_name(self, name: str) -> Joined[K, V, V2]:
        """Name the join and its repartition topic."""
        return replace(self, name=name)

    def with_key_serde(self, key_serde: Serde[K]) -> Joined[K, V, V2]:
        """Write keys with a serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde[V]) -> Joined[K, V, V2]:
        """Write the stream's values with a serde."""
        return replace(self, value_serde=value_serde)

    def with_other_value_serde(self, other_value_serde: Serde[V2]) -> Joined[K, V, V2]:
        """Read the table's values with a serde."""
        return replace(self, other_value_serde=other_value_serde)

    def with_grace_period(self, grace_period: Duration) -> Joined[K, V, V2]:
        """Wait for the table this long, and join with what it held at the record's time."""
        return replace(self, grace_period_ms=as_ms(grace_period, "grace_period"))


@dataclass(frozen=True)
class TableJoined(Generic[K, V]):
    """Name and partitioners of a foreign-key join (KIP-775)."""

    partitioner: StreamPartitioner | None = None
    other_partitioner: StreamPartitioner | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        _check(self)

    @staticmethod
    def with_(
        partitioner: StreamPartitioner | None = None, other_partitioner: StreamPartitioner | None = None
    ) -> TableJoined[Any, Any]:
        """Say how this table and the other are partitioned, where that is not by the hash of the key."""
        return TableJoined(partitioner, other_partitioner)

    @staticmethod
    def as_(name: str) -> TableJoined[Any, Any]:
        """Name the operators, topics and store of the join."""
        return TableJoined(name=validate(name))

    def with_name(self, name: str) -> TableJoined[K, V]:
        """Name the operators, topics and store of the join."""
        return replace(self, name=name)

    def with_partitioner(self, partitioner: StreamPartitioner) -> TableJoined[K, V]:
        """Say how this table is partitioned."""
        return replace(self, partitioner=partitioner)

    def with_other_partitioner(self, other_partitioner: StreamPartitioner) -> TableJoined[K, V]:
        """Say how the other table is partitioned."""
        return replace(self, other_partitioner=other_partitioner)


@dataclass(frozen=True)
class Repartitioned(Generic[K, V]):
    """Serdes, name, number of partitions and partitioner of a repartition topic (KIP-221)."""

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    name: str | None = None
    number_of_partitions: int | None = None
    partitioner: StreamPartitioner | None = None

    def __post_init__(self) -> None:
        _check(self)

    @staticmethod
    def with_(key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None) -> Repartitioned[K, V]:
        """Repartition with serdes."""
        return Repartitioned(key_serde, value_serde)

    @staticmethod
    def as_(name: str) -> Repartitioned[Any, Any]:
        """Name the repartition topic."""
        return Repartitioned(name=validate(name))

    def with_name(self, name: str) -> Repartitioned[K, V]:
        """Name the repartition topic."""
        return replace(self, name=name)

    def with_key_serde(self, key_serde: Serde[K]) -> Repartitioned[K, V]:
        """Write keys with a serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde[V]) -> Repartitioned[K, V]:
        """Write values with a serde."""
        return replace(self, value_serde=value_serde)

    def with_number_of_partitions(self, number_of_partitions: int) -> Repartitioned[K, V]:
        """Make the topic with so many partitions."""
        return replace(self, number_of_partitions=number_of_partitions)

    def with_stream_partitioner(self, partitioner: StreamPartitioner) -> Repartitioned[K, V]:
        """Choose partitions by a function."""
        return replace(self, partitioner=partitioner)


@dataclass(frozen=True)
class StreamJoined(Generic[K, V, V2]):
    """Serdes, names and stores of a stream-stream join (KIP-479)."""

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[V2] | None = None
    name: str | None = None
    store_name: str | None = None
    this_store_supplier: StoreSupplier | None = None
    other_store_supplier: StoreSupplier | None = None
    dsl_store_suppliers: DslStoreSuppliers | None = None
    logging_enabled: bool = True
    log_config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        suppliers = {"this_store_supplier": StoreSupplier, "other_store_supplier": StoreSupplier}
        _check(self, **suppliers, dsl_store_suppliers=DslStoreSuppliers)

    @staticmethod
    def with_(
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        other_value_serde: Serde[V2] | None = None,
    ) -> StreamJoined[K, V, V2]:
        """Join with serdes; `with_dsl_store_suppliers` says how the stores are kept."""
        return StreamJoined(key_serde, value_serde, other_value_serde)

    @staticmethod
    def with_stores(this: StoreSupplier, other: StoreSupplier) -> StreamJoined[Any, Any, Any]:
        """Keep the records of both sides in stores of these suppliers."""
        return StreamJoined(this_store_supplier=this, other_store_supplier=other)

    @staticmethod
    def as_(store_name: str) -> StreamJoined[Any, Any, Any]:
        """Name the stores; `with_name` names the operators."""
        return StreamJoined(store_name=store_name)

    def with_name(self, name: str) -> StreamJoined[K, V, V2]:
        """Name the operators and repartition topics."""
        return replace(self, name=name)

    def with_store_name(self, store_name: str) -> StreamJoined[K, V, V2]:
        """Name the stores."""
        return replace(self, store_name=store_name)

    def with_key_serde(self, key_serde: Serde[K]) -> StreamJoined[K, V, V2]:
        """Keep keys with a serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde[V]) -> StreamJoined[K, V, V2]:
        """Keep values of this stream with a serde."""
        return replace(self, value_serde=value_serde)

    def with_other_value_serde(self, other_value_serde: Serde[V2]) -> StreamJoined[K, V, V2]:
        """Keep values of the other stream with a serde."""
        return replace(self, other_value_serde=other_value_serde)

    def with_this_store_supplier(self, supplier: StoreSupplier) -> StreamJoined[K, V, V2]:
        """Keep the records of this stream in a store of this supplier."""
        return replace(self, this_store_supplier=supplier)

    def with_other_store_supplier(self, supplier: StoreSupplier) -> StreamJoined[K, V, V2]:
        """Keep the records of the other stream in a store of this supplier."""
        return replace(self, other_store_supplier=supplier)

    def with_dsl_store_suppliers(self, suppliers: DslStoreSuppliers) -> StreamJoined[K, V, V2]:
        """Keep the stores as suppliers say."""
        return replace(self, dsl_store_suppliers=chosen_suppliers(suppliers, None))

    def with_store_type(self, *, persistent: bool) -> StreamJoined[K, V, V2]:
        """Keep the stores on disk or in memory."""
        return replace(self, dsl_store_suppliers=chosen_suppliers(None, persistent))

    def with_logging_enabled(self, config: Mapping[str, str]) -> StreamJoined[K, V, V2]:
        """Keep changelog topics with these settings."""
        return replace(self, logging_enabled=True, log_config=log_config_of(config))

    def with_logging_disabled(self) -> StreamJoined[K, V, V2]:
        """Keep no changelog topics: what waits to be joined is lost with its task."""
        return replace(self, logging_enabled=False, log_config={})


@dataclass(frozen=True)
class Branched(Generic[K, V]):
    """The name of a branch, and what is made of it: a stream by a function, or nothing by a consumer (KIP-418)."""

    name: str | None = None
    chain_function: Callable[[Any], Any] | None = None
    chain_consumer: Callable[[Any], None] | None = None

    def __post_init__(self) -> None:
        _check(self)

    @staticmethod
    def as_(name: str) -> Branched[Any, Any]:
        """Name the branch; its key in the result has the name of the split in front."""
        return Branched(name=validate(name))

    @staticmethod
    def with_function(chain: Callable[[Any], Any], name: str | None = None) -> Branched[Any, Any]:
        """Put into the result what a function makes of the branch."""
        return Branched(name=name, chain_function=chain)

    @staticmethod
    def with_consumer(chain: Callable[[Any], None], name: str | None = None) -> Branched[Any, Any]:
        """Give the branch to a function, and leave it out of the result."""
        return Branched(name=name, chain_consumer=chain)

    def with_name(self, name: str) -> Branched[K, V]:
        """Name the branch."""
        return replace(self, name=name)


def _check(option: Any, **kinds: type) -> None:
    check_fields(option, **kinds)
    if option.name is not None:
        validate(option.name)


T = TypeVar("T")


def pick(kind: type[T], options: tuple[Any, ...], step: str) -> T | None:
    """Return the option of a kind among those that a method was given; None when there is none.

    Raises TypeError when there are two.
    """
    found = [option for option in options if isinstance(option, kind)]
    if len(found) > 1:
        raise TypeError(f"{step} was given two {kind.__name__}: {found[0]!r} and {found[1]!r}")
    return found[0] if found else None


def only(kinds: tuple[type[Any], ...], options: tuple[Any, ...], step: str) -> None:
    """Raise TypeError for an option that a method does not take."""
    for option in options:
        if not isinstance(option, kinds):
            takes = ", ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{step} takes {takes} as options, not {option!r}")


def combined(kind: type[T], given: T | None, step: str, **keywords: Any) -> T:
    """Return the option that a method was given, with what its keywords say besides.

    Raises TypeError, naming the step, for an option of another kind and for what is given twice.
    """
    only((kind,), () if given is None else (given,), step)
    asked: Any = kind() if given is None else given
    said = {name: value for name, value in keywords.items() if value is not None}
    for name, value in said.items():
        if getattr(asked, name) is not None:
            what = name.replace("_", " ")
            raise TypeError(f"{step}: the {what} is given twice: {getattr(asked, name)!r} and {value!r}")
    return replace(asked, **said)  # type: ignore[no-any-return]  # of the kind that was given


def name_of(named: Named | None, name: str | None, step: str) -> str | None:
    """Return the name that an option or a keyword gives. Raises TypeError for both, and for another option."""
    if isinstance(named, str):
        raise TypeError(f"{step}: give a name as Named.as_({named!r}) or as name={named!r}")
    only((Named,), () if named is None else (named,), step)
    if named is not None and name is not None:
        raise TypeError(f"{step}: the name is given twice: {named.name!r} and {name!r}")
    if name is not None:
        return Named(name).name
    return None if named is None else named.name
