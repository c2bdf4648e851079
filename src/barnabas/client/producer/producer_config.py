"""A producer's settings: Kafka's, and what they mean together."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from barnabas.client.producer.partitioner import BY_NAME
from barnabas.client.producer.sender_config import SenderConfig
from barnabas.config.client_config import ClientConfig
from barnabas.config.loading import load_attribute
from barnabas.errors import ConfigError
from barnabas.network.exponential_backoff import ExponentialBackoff, RandomSource

MAX_IN_FLIGHT_FOR_IDEMPOTENCE = 5
IN_FLIGHT = "max.in.flight.requests.per.connection"
_LEVELS = {"gzip": "compression.gzip.level", "lz4": "compression.lz4.level", "zstd": "compression.zstd.level"}
_numbers = itertools.count(1)


class ProducerConfig(ClientConfig):
    """The checked settings of one producer; `acks`, `idempotent`, `delivery_timeout` and `client_id` are worked out.

    Raises `ConfigError` for settings that contradict each other.
    """

    BOOTSTRAP_SERVERS_CONFIG = "bootstrap.servers"
    KEY_SERIALIZER_CLASS_CONFIG = "key.serializer"
    VALUE_SERIALIZER_CLASS_CONFIG = "value.serializer"

    __slots__ = ("acks", "client_id", "delivery_timeout", "idempotent", "transactional_id")

    def __init__(self, properties: Mapping[str, Any] | None = None, keywords: Mapping[str, Any] | None = None) -> None:
        super().__init__("producer", properties, keywords)
        acks = self.get_str("acks").lower()
        self.transactional_id = self._check_transactional_id()
        self.acks = -1 if acks == "all" else int(acks)
        self.idempotent = self._check_idempotence()
        self.delivery_timeout = self._check_delivery_timeout()
        self.client_id = self.get_str("client.id") or f"producer-{self.transactional_id or next(_numbers)}"

    def _check_transactional_id(self) -> str | None:
        transactional_id: str | None = self["transactional.id"]
        if self.get_bool("transaction.two.phase.commit.enable"):
            if transactional_id is None:
                raise ConfigError("transaction.two.phase.commit.enable=true needs a transactional.id")
            if self.is_given("transaction.timeout.ms"):
                raise ConfigError(
                    "transaction.timeout.ms has no meaning with transaction.two.phase.commit.enable=true: a prepared "
                    "transaction waits until it is completed"
                )
        return transactional_id

    def _check_idempotence(self) -> bool:
        if not self.get_bool("enable.idempotence"):
            if self.transactional_id is not None:
                raise ConfigError("transactional.id needs enable.idempotence=true, which is the default")
            return False
        asked_for = self.is_given("enable.idempotence") or self.transactional_id is not None
        if self.get_int(IN_FLIGHT) > MAX_IN_FLIGHT_FOR_IDEMPOTENCE:
            raise ConfigError(
                f"{IN_FLIGHT}={self.get_int(IN_FLIGHT)}: the idempotent producer allows at most "
                f"{MAX_IN_FLIGHT_FOR_IDEMPOTENCE}; lower it, or set enable.idempotence=false"
            )
        conflicts = [("retries=0", self.get_int("retries") == 0), (f"acks={self.acks}", self.acks != -1)]
        for conflict, is_so in conflicts:
            if is_so and asked_for:
                raise ConfigError(
                    f"{conflict} and enable.idempotence=true contradict each other: the idempotent producer needs "
                    "acks=all and retries, and so does the transactional one"
                )
        # Who set only acks or retries gets what they asked for, without idempotence.
        return not any(is_so for _, is_so in conflicts)

    def _check_delivery_timeout(self) -> float:
        delivery = self.get_int("delivery.timeout.ms")
        least = min(self.get_int("linger.ms") + self.get_int("request.timeout.ms"), 2**31 - 1)
        if delivery < least:
            if self.is_given("delivery.timeout.ms"):
                raise ConfigError(
                    f"delivery.timeout.ms={delivery} must be at least linger.ms + request.timeout.ms = {least}"
                )
            delivery = least
        return delivery / 1000

    def retry_backoff(self, rng: RandomSource) -> ExponentialBackoff:
        """How long to wait before something is tried again."""
        return ExponentialBackoff(self.get_seconds("retry.backoff.ms"), self.get_seconds("retry.backoff.max.ms"), rng)

    def sender_config(self) -> SenderConfig:
        """Return what the Sender reads."""
        return SenderConfig(
            acks=self.acks,
            retries=self.get_int("retries"),
            max_request_size=self.get_int("max.request.size"),
            request_timeout=self.get_seconds("request.timeout.ms"),
            retry_backoff=self.get_seconds("retry.backoff.ms"),
            guarantee_message_order=self.get_int(IN_FLIGHT) == 1,
        )

    def compression(self) -> tuple[str, int | None]:
        """Return the codec and, where it was set, its level."""
        codec = self.get_str("compression.type")
        name = _LEVELS.get(codec)
        return codec, self.get_int(name) if name is not None and self.is_given(name) else None

    def partitioner(self) -> Any:
        """Return the custom partitioner, configured, or None for the built-in logic.

        A class, an object, one of this package's names (`RoundRobinPartitioner`, also as Kafka's Java class) or
        `module:name`. Raises `ConfigError` when it has no `partition` method.
        """
        setting = self["partitioner.class"]
        if setting is None or setting == "":
            return None
        if isinstance(setting, str):
            setting = _load(setting)
        partitioner = setting() if isinstance(setting, type) else setting
        if not hasattr(partitioner, "partition"):
            raise ConfigError(
                f"partitioner.class={setting!r} has no method "
                "partition(topic, key, key_bytes, value, value_bytes, cluster)"
            )
        if hasattr(partitioner, "configure"):
            partitioner.configure(self.given)
        return partitioner


def _load(path: str) -> Any:
    if ":" not in path:
        found = BY_NAME.get(path.rpartition(".")[2])
        if found is None:
            raise ConfigError(
                f"partitioner.class={path!r} is not known; there are {', '.join(BY_NAME)}, or 'module:name'"
            )
        return found
    return load_attribute(path, "partitioner.class")
