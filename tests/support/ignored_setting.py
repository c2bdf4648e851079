"""A pytest plugin that lets one setting have no effect: IGNORED_SETTING=broker:log.retention.ms; tests of it must fail.

What a file, a request or a test gives for the setting is dropped where it is taken up, so that its default holds.
"""

from __future__ import annotations

import os
from typing import Any

from barnabas.broker.config import BrokerConfig
from barnabas.broker.log.log_config import LogConfig
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.replication.replication_quota import ReplicationQuota
from barnabas.broker.zookeeper import znodes
from barnabas.config.config import Config


def _without(name: str, settings: Any) -> Any:
    return {key: value for key, value in settings.items() if key != name} if settings else settings


def ignore(section: str, name: str) -> None:
    """Patch the classes that take settings up."""
    accept = Config._accept

    def accept_without(self: Config, given: str, value: Any, without_effect: list[str]) -> None:
        accept(self, given, value, without_effect)
        if self.section == section:
            self._given.pop(name, None)
            self._values.pop(name, None)

    Config._accept = accept_without  # type: ignore[method-assign]
    if section == "broker":
        apply_dynamic = BrokerConfig.apply_dynamic

        def apply_without(self: BrokerConfig, for_all: Any, for_this_broker: Any) -> None:
            apply_dynamic(self, _without(name, for_all), _without(name, for_this_broker))

        BrokerConfig.apply_dynamic = apply_without  # type: ignore[method-assign]
        _drop_argument(LogManager, name, "config", 2)
    elif section == "topic":
        _drop_argument(LogConfig, name, "settings", 0)
        is_throttled = ReplicationQuota.is_throttled

        def is_throttled_without(self: ReplicationQuota, topic: str, index: int) -> bool:
            configs_of = self._configs_of
            self._configs_of = lambda topic: _without(name, configs_of(topic)) or {}
            try:
                return is_throttled(self, topic, index)
            finally:
                self._configs_of = configs_of

        ReplicationQuota.is_throttled = is_throttled_without  # type: ignore[method-assign]
        decode = znodes.decode_config
        znodes.decode_config = lambda path, data: _without(name, decode(path, data))


def _drop_argument(cls: type, name: str, keyword: str, position: int) -> None:
    make = cls.__init__  # type: ignore[misc]  # what it is called with stays as it is

    def make_without(self: Any, *arguments: Any, **keywords: Any) -> None:
        given = list(arguments)
        if len(given) > position:
            given[position] = _without(name, given[position])
        elif keyword in keywords:
            keywords[keyword] = _without(name, keywords[keyword])
        make(self, *given, **keywords)

    cls.__init__ = make_without  # type: ignore[misc]


if os.environ.get("IGNORED_SETTING"):
    ignore(*os.environ["IGNORED_SETTING"].split(":", 1))
