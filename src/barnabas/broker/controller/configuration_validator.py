"""What settings a resource may have (ControllerConfigurationValidator)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.config_admin_manager import check_client_metrics_configs
from barnabas.broker.group_config import check_group_configs
from barnabas.broker.topic_admin import check_topic_configs, check_topic_name
from barnabas.config.config_def import definitions
from barnabas.protocol.kinds import ConfigResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.metadata.metadata_image import Resource

_LARGEST_ID = 2**31 - 1


class ConfigurationValidator:
    """Raises KafkaError for settings that a resource may not have; those of brokers they check themselves."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def __call__(self, resource: Resource, configs: Mapping[str, str]) -> None:
        """Check all settings that a resource is to have."""
        kind, name = resource
        if kind == ConfigResourceType.TOPIC:
            if not name:
                raise errors.InvalidRequestError("Default topic resources are not allowed.")
            check_topic_name(name)
            check_topic_configs(configs, self._config.topic_defaults)
        elif kind == ConfigResourceType.BROKER:
            _check_broker(name)
            _check_broker_configs(configs)
        elif kind == ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise errors.InvalidRequestError("Subscription name can't be empty")
            check_client_metrics_configs(configs)
        elif kind == ConfigResourceType.GROUP:
            if not name:
                raise errors.InvalidRequestError("Default group resources are not allowed.")
            check_group_configs(self._config, configs)
        else:
            raise errors.InvalidRequestError(f"Unknown resource type {kind}")


def _check_broker_configs(configs: Mapping[str, str]) -> None:
    # Brokers check their own before they forward them; who asks the controller itself (KIP-919) is checked here only.
    known = definitions("broker").keys
    for name, value in configs.items():
        if name in known:
            try:
                known[name].parse(value)
            except errors.ConfigError as problem:
                raise errors.InvalidConfigurationError(str(problem)) from problem


def _check_broker(name: str) -> None:
    if not name:
        return
    digits = name.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal() and int(digits) <= _LARGEST_ID):
        raise errors.InvalidRequestError("Unable to parse broker name as a base 10 number.")
    if name.startswith("-"):
        raise errors.InvalidRequestError("Invalid negative broker ID.")
