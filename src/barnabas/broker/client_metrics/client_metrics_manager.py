"""Which clients are asked for which of their metrics, and whether a push may be taken (KIP-714)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from barnabas import errors
from barnabas.broker.config_helper import CLIENT_METRICS_SETTINGS
from barnabas.broker.metadata.cluster_metadata import CLIENT_METRICS
from barnabas.broker.regex.matching import matching_names
from barnabas.protocol.kafka_uuid import ZERO_UUID, random_uuid, to_text
from barnabas.records.checksum import crc32c
from barnabas.records.compression import CODECS, decompress

if TYPE_CHECKING:
    import random

    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.push_telemetry_request import PushTelemetryRequest

# zstd, lz4, gzip, snappy: the best first, as in Kafka; gzip comes with Python.
_COMPRESSION_TYPES: Final = (4, 3, 1, 2)
_GZIP: Final = 1
# Kafka's bound of the clients that are remembered.
_MOST_CLIENTS: Final = 16384
_ALL: Final = "*"
# A payload may grow to so many times telemetry.max.bytes when it is decompressed.
_GROWTH: Final = 16


class TelemetryClient(NamedTuple):
    """What a broker knows of a client by itself; the names are those that subscriptions match by."""

    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class Subscription(NamedTuple):
    """What a client is asked for; the interval is in milliseconds."""

    id: int
    metrics: tuple[str, ...]
    push_interval_ms: int


class Receiver(Protocol):
    """Where the metrics go, as Kafka's ClientTelemetryReceiver."""

    def export(self, client: TelemetryClient, metrics: bytes, now: float, keep_until: float) -> None:
        """Take OTLP MetricsData; raises ValueError when it is none."""


def telemetry_client(context: RequestContext) -> TelemetryClient:
    """Who sent a request, but for its instance id."""
    connection = context.connection
    return TelemetryClient(
        "",
        context.client_id or "",
        connection.client_software_name,
        connection.client_software_version,
        connection.client_host,
        str(connection.client_port),
    )


def accepted_compression_types() -> list[int]:
    """Those that can be read here."""
    return list(_COMPRESSION_TYPES) if find_spec("cramjam") is not None else [_GZIP]


class _Instance:
    """Kafka's ClientMetricsInstance: one client, and when it was heard."""

    __slots__ = ("asked_at", "client", "has_to_ask", "is_terminated", "metadata_version", "pushed_at", "subscription")

    def __init__(self, client: TelemetryClient, subscription: Subscription, metadata_version: int) -> None:
        self.client = client
        self.subscription = subscription
        self.metadata_version = metadata_version
        self.asked_at = self.pushed_at = float("-inf")
        self.is_terminated = False
        self.has_to_ask = False

    def may_ask(self, now: float) -> bool:
        return self.has_to_ask or self._is_over(now, max(self.asked_at, self.pushed_at))

    def may_push(self, now: float) -> bool:
        """Return the first push after the subscription was asked for may come early: clients spread it."""
        return self.asked_at > self.pushed_at or self._is_over(now, self.pushed_at)

    def _is_over(self, now: float, since: float) -> bool:
        # To the millisecond, as the interval is given.
        return (now - since) * 1000 > self.subscription.push_interval_ms - 0.5


class ClientMetricsManager:
    """Kafka's ClientMetricsManager, sans-IO. Subscriptions are `client-metrics` resources of the metadata.

    It remembers the clients heard last, as many as Kafka does; one that was forgotten is known again with its next
    request.
    """

    def __init__(self, metadata: ClusterMetadata, receiver: Receiver, random: random.Random, max_bytes: int) -> None:
        self._metadata = metadata
        self._receiver = receiver
        self._random = random
        self.max_bytes = max_bytes
        self._instances: OrderedDict[bytes, _Instance] = OrderedDict()
        #: Pushes for a subscription that was not the client's any more.
        self.unknown_subscriptions = 0

    def __len__(self) -> int:
        """How many clients are known."""
        return len(self._instances)

    def subscription(self, instance_id: bytes, client: TelemetryClient, now: float) -> tuple[bytes, Subscription]:
        """Return what a client is asked for, and its id: a new one for a client that has none yet.

        Raises `ThrottlingQuotaExceededError` when it asks again before its interval is over.

        """
        if instance_id == ZERO_UUID:
            instance_id = random_uuid(self._random)
        instance = self._instance(instance_id, client)
        if not instance.may_ask(now):
            raise errors.ThrottlingQuotaExceededError(
                f"client {to_text(instance_id)} asked for its subscription before its push interval was over"
            )
        instance.asked_at, instance.has_to_ask = now, False
        return instance_id, instance.subscription

    def push(self, client: TelemetryClient, request: PushTelemetryRequest, now: float) -> None:
        """Take what a client tells.

        Raises `InvalidRequestError`, `ThrottlingQuotaExceededError`, `UnknownSubscriptionIdError`,
        `UnsupportedCompressionTypeError`, `TelemetryTooLargeError`, `InvalidRecordError`.

        """
        if request.client_instance_id == ZERO_UUID:
            raise errors.InvalidRequestError("a push without a client instance id")
        instance = self._instance(request.client_instance_id, client)
        try:
            self._check(instance, request, now)
        finally:
            instance.is_terminated = instance.is_terminated or request.terminating
        if request.metrics:
            self._export(instance, request.compression_type, request.metrics, now)

    def _check(self, instance: _Instance, request: PushTelemetryRequest, now: float) -> None:
        name = f"client {instance.client.client_instance_id}"
        if instance.is_terminated:
            raise errors.InvalidRequestError(f"{name} pushes again after its last push")
        if not instance.may_push(now) and not request.terminating:
            raise errors.ThrottlingQuotaExceededError(f"{name} pushed before its push interval was over")
        instance.pushed_at, instance.has_to_ask = now, True
        if request.subscription_id != instance.subscription.id:
            self.unknown_subscriptions += 1
            raise errors.UnknownSubscriptionIdError(f"{name} pushed for a subscription that is not its own any more")
        compression_type, size = request.compression_type, len(request.metrics)
        if not 0 <= compression_type < len(CODECS):
            raise errors.UnsupportedCompressionTypeError(f"{name} pushed with compression type {compression_type}")
        instance.has_to_ask = False
        if size > self.max_bytes:
            raise errors.TelemetryTooLargeError(f"{name} pushed {size} bytes, telemetry.max.bytes is {self.max_bytes}")

    def _export(self, instance: _Instance, compression_type: int, metrics: bytes | memoryview, now: float) -> None:
        # Three missed pushes, and never less than a minute: Kafka forgets a client after that.
        keep_until = now + max(60.0, 3 * instance.subscription.push_interval_ms / 1000)
        try:
            plain = bytes(decompress(CODECS[compression_type], metrics, self.max_bytes * _GROWTH))
            self._receiver.export(instance.client, plain, now, keep_until)
        except (errors.DecompressionError, ValueError) as problem:
            raise errors.InvalidRecordError(
                f"the metrics of client {instance.client.client_instance_id} cannot be read: {problem}"
            ) from problem

    def _instance(self, instance_id: bytes, client: TelemetryClient) -> _Instance:
        client = client._replace(client_instance_id=to_text(instance_id))
        instance, version = self._instances.get(instance_id), self._metadata.version
        if instance is None or instance.metadata_version != version:
            subscription = self._subscription_of(instance_id, client)
            if instance is None or instance.subscription != subscription:
                instance = self._instances[instance_id] = _Instance(client, subscription, version)
            instance.metadata_version = version
        self._instances.move_to_end(instance_id)
        while len(self._instances) > _MOST_CLIENTS:
            self._instances.popitem(last=False)
        return instance

    def _subscription_of(self, instance_id: bytes, client: TelemetryClient) -> Subscription:
        metrics: set[str] = set()
        interval_ms = int(CLIENT_METRICS_SETTINGS["interval.ms"][1])
        for name in self._metadata.configured(CLIENT_METRICS):
            configs = self._metadata.configs(CLIENT_METRICS, name)
            if matches(configs.get("match", ""), client):
                metrics.update(_listed(configs.get("metrics", "")))
                interval_ms = min(interval_ms, int(configs.get("interval.ms", interval_ms)))
        wanted = (_ALL,) if _ALL in metrics else tuple(sorted(metrics))
        checksum = crc32c(f"{wanted}{interval_ms}".encode() + instance_id)
        return Subscription(checksum - (1 << 32) if checksum >> 31 else checksum, wanted, interval_ms)


def matches(patterns: str, client: TelemetryClient) -> bool:
    """Whether a client is what all patterns of a subscription's `match` say; none match every client."""
    facts: Mapping[str, str] = client._asdict()
    for pattern in _listed(patterns):
        name, _, expression = pattern.partition("=")
        fact = facts[name.strip()]
        try:
            if fact not in matching_names(expression.strip(), [fact]):
                return False
        except errors.InvalidRegularExpressionError:
            # Stored by a version that matched with back references: it matches no client, and DescribeConfigs shows it.
            return False
    return True


def _listed(text: str) -> list[str]:
    return [part for part in (part.strip() for part in text.split(",")) if part]
