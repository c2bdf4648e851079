"""Puts the parts of a producer together, from its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from barnabas import anatomy
from barnabas.client.client_utils import metric_config
from barnabas.client.metadata import MetadataRefresh
from barnabas.client.producer.accumulator_settings import AccumulatorSettings
from barnabas.client.producer.append import SendPath
from barnabas.client.producer.buffer_pool import BufferPool, Waiter, WaitingThread
from barnabas.client.producer.callback_exit import CallbackExit
from barnabas.client.producer.producer_config import IN_FLIGHT, ProducerConfig
from barnabas.client.producer.producer_interceptors import ProducerInterceptors
from barnabas.client.producer.producer_metrics import ProducerMetrics
from barnabas.client.producer.record_accumulator import RecordAccumulator
from barnabas.client.producer.sender import Guarantees, Sender
from barnabas.client.producer.transactions.idempotence import IdempotenceManager
from barnabas.client.producer.transactions.transaction_manager import TransactionManager
from barnabas.client.producer_metadata import ProducerMetadata
from barnabas.client.serializers import resolve_serializer
from barnabas.records.builder import RecordBatchBuilder

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.environment import Environment
    from barnabas.client.producer.append import TopicInfo
    from barnabas.client.producer.transactions.txn_partition_map import BatchNumbering
    from barnabas.network.network_client import NetworkClient


class ProducerParts:
    """The parts that both shells drive, wired together; nothing here waits."""

    def __init__(
        self, config: ProducerConfig, environment: Environment, new_waiter: Callable[[int], Waiter] = WaitingThread
    ) -> None:
        anatomy.record_if_asked("client")
        self.config = config
        self.environment = environment
        self.clock = environment.clock
        self.partitioner = config.partitioner()
        self.metadata = _metadata(config, environment)
        self.client = environment.network_client(config, config.client_id, self.metadata, config.get_int(IN_FLIGHT))
        window = metric_config(config)
        self.metrics = ProducerMetrics(environment.clock, window)
        self.transactions = _transactions(config, environment, self.client)
        is_idempotent = config.idempotent and self.transactions is None
        idempotence = IdempotenceManager() if is_idempotent else None
        self.pool = BufferPool(config.get_int("buffer.memory"), environment.clock, window, new_waiter)
        guarantees = Guarantees(idempotence, self.transactions)
        self.accumulator = self._accumulator(guarantees.numbering)
        self.exit = CallbackExit(self.accumulator)
        self.metadata.add_listener(self.accumulator.on_metadata_changed)
        self.metadata.add_listener(partial(_forget_idle_topics, self.metrics, self.metadata))
        if self.transactions is not None:
            self.transactions.states.refuse_records_by(self.accumulator.refuse)
        self.sender = Sender(
            self.client, self.metadata, self.accumulator, config.sender_config(), self.metrics,
            guarantees,
        )  # fmt: skip
        self.interceptors = ProducerInterceptors(config["interceptor.classes"], config.given, config.client_id)

    def _accumulator(self, numbering: BatchNumbering | None) -> RecordAccumulator:
        config = self.config
        codec, level = config.compression()
        settings = AccumulatorSettings(
            batch_size=config.get_int("batch.size"),
            linger=config.get_seconds("linger.ms"),
            delivery_timeout=config.delivery_timeout,
            retry_backoff=config.retry_backoff(self.environment.random),
            adaptive_partitioning=self.partitioner is None
            and config.get_bool("partitioner.adaptive.partitioning.enable"),
            availability_timeout=config.get_seconds("partitioner.availability.timeout.ms"),
            compresses=codec != "none",
            client_id=config.client_id,
            before_append=self._before_append(),
        )
        return RecordAccumulator(
            settings,
            self.pool,
            partial(new_builder, codec, level),
            clock=self.clock,
            rng=self.environment.random,
            numbering=numbering,
        )

    def _before_append(self) -> tuple[str, str, str]:
        key, value = (_named(self.config[name]) for name in ("key.serializer", "value.serializer"))
        return key, value, _named(self.partitioner)

    def send_path(self, find_topic: Callable[[str, int], TopicInfo | None]) -> SendPath:
        """Return the way of every record; `find_topic(topic, partition)` gives None where the metadata is missing."""
        config = self.config
        return SendPath(
            self.accumulator,
            find_topic,
            resolve_serializer(config["key.serializer"], "key.serializer"),
            resolve_serializer(config["value.serializer"], "value.serializer"),
            config.get_int("max.request.size"),
            config.get_int("buffer.memory"),
            self.partitioner is not None,
            config.get_bool("partitioner.ignore.keys"),
            None if self.environment.has_system_time else self.environment.wall_clock_ms,
        )

    def telemetry_labels(self) -> Mapping[str, str | None]:
        """Return what the cluster is told of this client besides its metrics."""
        return {"transactional_id": self.config.transactional_id}

    def close(self) -> None:
        """Close what the Sender leaves open."""
        self.metadata.close()
        close_partitioner = getattr(self.partitioner, "close", None)
        if close_partitioner is not None:
            close_partitioner()
        self.interceptors.close()


def _metadata(config: ProducerConfig, environment: Environment) -> ProducerMetadata:
    return ProducerMetadata(
        MetadataRefresh.of(config, environment.random), max_idle=config.get_seconds("metadata.max.idle.ms")
    )


def _transactions(config: ProducerConfig, environment: Environment, client: NetworkClient) -> TransactionManager | None:
    if config.transactional_id is None:
        return None
    two_phases = config.get_bool("transaction.two.phase.commit.enable")
    return TransactionManager(
        config.transactional_id,
        2**31 - 1 if two_phases else config.get_int("transaction.timeout.ms"),
        config.retry_backoff(environment.random),
        client.api_versions,
        two_phases,
    )


def _forget_idle_topics(metrics: ProducerMetrics, metadata: ProducerMetadata, _: Cluster) -> None:
    metrics.retain_topics(metadata.contains_topic)


def new_builder(codec: str, level: int | None, capacity: int, ratio: float) -> RecordBatchBuilder:
    """Return a builder for a batch of the producer."""
    return RecordBatchBuilder(capacity, codec, level, 0, ratio)


def _named(given: object) -> str:
    """Return the name of a serializer or partitioner, however it was given; empty for none."""
    if given is None or isinstance(given, str):
        return (given or "").rpartition(".")[2]
    return str(getattr(given, "__qualname__", type(given).__qualname__))
