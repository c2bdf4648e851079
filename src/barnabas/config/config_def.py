"""Kafka's settings by section: name, type, default and allowed values, read from the JSON files beside this module."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from barnabas.config.validators import Check, check_for
from barnabas.config.values import PARSERS, Resolved, shown
from barnabas.errors import ConfigError

SECTIONS = ("producer", "consumer", "admin", "topic", "broker")

# Where our default is not Kafka's, and why.
OUR_DEFAULTS: dict[str, dict[str, Any]] = {
    # -1 leaves socket buffers to the system: its auto-tuning keeps megabytes on the way where Kafka's sizes allow 0.1.
    # Metrics reporters are Java classes.
    "producer": {"receive.buffer.bytes": -1, "send.buffer.bytes": -1, "metric.reporters": ""},
    "consumer": {
        "receive.buffer.bytes": -1,
        "send.buffer.bytes": -1,
        "metric.reporters": "",
        "partition.assignment.strategy": "range,cooperative-sticky",
    },
    "admin": {"receive.buffer.bytes": -1, "send.buffer.bytes": -1, "metric.reporters": ""},
    "topic": {},
    # Kafka demands the roles and ids; a broker that is alone can only be both, and replicate once.
    "broker": {
        "node.id": 1,
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "socket.receive.buffer.bytes": -1,
        "socket.send.buffer.bytes": -1,
        "metric.reporters": "",
    },
}

# What Kafka has no setting for: names that librdkafka and Python's other clients made usual, and Python's own object.
_OUR_CLIENT_SETTINGS: list[dict[str, Any]] = [
    {"name": "sasl.username", "type": "string", "default": None},
    {"name": "sasl.password", "type": "password", "default": None},
    {"name": "ssl.context", "type": "class", "default": None},
]
OUR_SETTINGS: dict[str, list[dict[str, Any]]] = {
    "producer": _OUR_CLIENT_SETTINGS,
    "consumer": _OUR_CLIENT_SETTINGS,
    "admin": _OUR_CLIENT_SETTINGS,
    "topic": [],
    # Of Kafka's StandardAuthorizer, which reads them beside the broker's own.
    "broker": [
        {"name": "super.users", "type": "string", "default": None},
        {"name": "allow.everyone.if.no.acl.found", "type": "boolean", "default": "false"},
        # Of Kafka 3.9, for clusters whose metadata lie in ZooKeeper.
        {"name": "zookeeper.connect", "type": "string", "default": None},
        {"name": "zookeeper.session.timeout.ms", "type": "int", "default": "18000", "valid": "[1,...]"},
        {"name": "zookeeper.connection.timeout.ms", "type": "int", "default": None},
        {"name": "zookeeper.set.acl", "type": "boolean", "default": "false"},
        {"name": "zookeeper.clientCnxnSocket", "type": "string", "default": None},
        {"name": "zookeeper.ssl.client.enable", "type": "boolean", "default": "false"},
        {"name": "zookeeper.ssl.keystore.location", "type": "string", "default": None},
        {"name": "zookeeper.ssl.keystore.password", "type": "password", "default": None},
        {"name": "zookeeper.ssl.keystore.type", "type": "string", "default": None},
        {"name": "zookeeper.ssl.truststore.location", "type": "string", "default": None},
        {"name": "zookeeper.ssl.truststore.password", "type": "password", "default": None},
        {"name": "zookeeper.ssl.truststore.type", "type": "string", "default": None},
        {"name": "zookeeper.ssl.enabled.protocols", "type": "list", "default": None},
        {"name": "zookeeper.ssl.cipher.suites", "type": "list", "default": None},
        {"name": "zookeeper.ssl.endpoint.identification.algorithm", "type": "string", "default": "HTTPS"},
        {"name": "zookeeper.ssl.crl.enable", "type": "boolean", "default": "false"},
        {"name": "zookeeper.ssl.ocsp.enable", "type": "boolean", "default": "false"},
        # Ours: Apache Kafka's brokers have it in a file that the JVM is told of.
        {"name": "zookeeper.sasl.jaas.config", "type": "password", "default": None},
        {"name": "broker.id.generation.enable", "type": "boolean", "default": "true"},
        {"name": "reserved.broker.max.id", "type": "int", "default": "1000", "valid": "[0,...]"},
        {"name": "password.encoder.secret", "type": "password", "default": None},
        {"name": "password.encoder.old.secret", "type": "password", "default": None},
        {"name": "password.encoder.keyfactory.algorithm", "type": "string", "default": None},
        {"name": "password.encoder.cipher.algorithm", "type": "string", "default": "AES/CBC/PKCS5Padding"},
        {"name": "password.encoder.key.length", "type": "int", "default": "128", "valid": "[8,...]"},
        {"name": "password.encoder.iterations", "type": "int", "default": "4096", "valid": "[1024,...]"},
        {"name": "inter.broker.protocol.version", "type": "string", "default": "3.9-IV0"},
        {"name": "controlled.shutdown.max.retries", "type": "int", "default": "3"},
        {"name": "controlled.shutdown.retry.backoff.ms", "type": "long", "default": "5000"},
        {"name": "leader.imbalance.per.broker.percentage", "type": "int", "default": "10", "valid": "[0,...]"},
        # Ours: Apache Kafka waits for the session.
        {"name": "broker.silence.timeout.ms", "type": "int", "default": "-1", "valid": "[-1,...]"},
    ],
}


class ConfigKey:
    """One setting: `name`, `type`, `default` (parsed, None when there is none), `valid` (Kafka's text), `required`."""

    __slots__ = ("_check", "_default", "_is_default_parsed", "_raw_default", "name", "required", "type", "valid")

    def __init__(self, entry: dict[str, Any], our_defaults: dict[str, Any]) -> None:
        self.name: str = entry["name"]
        self.type: str = entry["type"]
        self.valid: str = entry.get("valid", "")
        self.required: bool = "required" in entry and self.name not in our_defaults
        self._raw_default = our_defaults.get(self.name, entry.get("default"))
        self._default: Any = None
        self._is_default_parsed = False
        self._check: Check | None = None

    @property
    def default(self) -> Any:
        """The default as a value of the setting's type; None when Kafka's is null or there is none."""
        if not self._is_default_parsed:
            self._default = None if self._raw_default is None else self.parse(self._raw_default)
            self._is_default_parsed = True
        return self._default

    @property
    def is_secret(self) -> bool:
        """Whether the value must never be shown."""
        return self.type == "password"

    def parse(self, value: Any) -> Any:
        """Return the value of the setting's type; what a `Resolved` holds is not shown when it is wrong.

        Raises `ConfigError` when it does not parse or is not allowed; the message says what is.
        """
        try:
            parsed = PARSERS[self.type](value.value if isinstance(value, Resolved) else value)
            if self.valid:
                if self._check is None:
                    self._check = check_for(self.valid)
                parsed = self._check(parsed) if self._check is not None else parsed
        except ValueError as problem:
            text = "[hidden]" if self.is_secret else shown(value)
            raise ConfigError(f"{self.name}={text} is not valid: it {problem}") from None
        return parsed


class ConfigDef:
    """All settings of one section, by name."""

    __slots__ = ("keys", "section")

    def __init__(self, section: str) -> None:
        self.section = section
        path = os.path.join(os.path.dirname(__file__), f"{section}.json")
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)
        our_defaults = OUR_DEFAULTS[section]
        self.keys = {entry["name"]: ConfigKey(entry, our_defaults) for entry in entries + OUR_SETTINGS[section]}

    def key(self, name: str) -> ConfigKey:
        """Return the setting called `name`, with dots or underscores.

        Raises `ConfigError` when there is none; the message names the nearest one, if one is near.
        """
        key = self.keys.get(name) or self.keys.get(canonical_name(name))
        if key is None:
            raise ConfigError(self._explain_unknown(canonical_name(name)))
        return key

    def _explain_unknown(self, name: str) -> str:
        import difflib

        problem = f"{name!r} is not a setting of the {self.section}"
        nearest = difflib.get_close_matches(name, self.keys, n=1, cutoff=0.8)
        if nearest:
            return f"{problem}; did you mean {nearest[0]!r}?"
        elsewhere = [s for s in SECTIONS if s != self.section and name in definitions(s).keys]
        if elsewhere:
            return f"{problem}, it belongs to: {', '.join(elsewhere)}"
        nearest = difflib.get_close_matches(name, self.keys, n=1, cutoff=0.5)
        return f"{problem}; the nearest known one is {nearest[0]!r}" if nearest else problem


def canonical_name(name: str) -> str:
    """Kafka's spelling of a keyword: `linger_ms` is `linger.ms`."""
    return name.replace("_", ".")


_loaded: dict[str, ConfigDef] = {}


def definitions(section: str) -> ConfigDef:
    """Return the settings of a section (one of `SECTIONS`), loaded once."""
    loaded = _loaded.get(section)
    if loaded is None:
        loaded = _loaded.setdefault(section, ConfigDef(section))
    return loaded


def known_to(section: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of another client's settings that a section has too: addresses, security, time-outs."""
    keys = definitions(section).keys
    return {name: value for name, value in settings.items() if name in keys}
