"""Every setting that is called supported is taken by somebody who acts on it; one that nobody reads is not supported.

Reading is observed while clients, security and a broker are put together and asked to work; for the settings of topics
it is what the log makes of them that has to be used.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import barnabas
from barnabas import AdminClient, Consumer, Producer
from barnabas.broker.config import BrokerConfig
from barnabas.broker.log.log_config import COMPRESSION_LEVELS, LogConfig
from barnabas.config.client_config import ClientConfig
from barnabas.config.config import Config
from barnabas.config.support import IGNORED, SUPPORTED
from barnabas.config.topic_defaults import TOPIC_SYNONYMS
from barnabas.errors import KafkaError
from barnabas.network.security.channel_builder import create_channel_builder
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from tests.support.core_broker import CoreBroker, batch, create, fetch, produce

SOURCES = Path(barnabas.__file__).parent
SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
_JAAS = 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="i" clientSecret="s";'
_JWT_BEARER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
#: Ways to connect; each reads settings that the others leave alone.
CONNECTIONS: list[dict[str, Any]] = [
    {"security.protocol": "SSL"},
    {"security.protocol": "SSL", "ssl.truststore.type": "JKS", "ssl.truststore.location": __file__},
    {"security.protocol": "SSL", "ssl.truststore.type": "PKCS12", "ssl.truststore.location": __file__},
    {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.key": "k", "ssl.key.password": "p"},
    {"security.protocol": "SSL", "ssl.keystore.type": "PKCS12", "ssl.keystore.location": __file__},
    {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"},
    {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": _JAAS},
    {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://h/token",
        "sasl.oauthbearer.client.credentials.client.id": "i",
        "sasl.oauthbearer.client.credentials.client.secret": "s",
    },
    {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.jwt.retriever.class": _JWT_BEARER,
        "sasl.oauthbearer.token.endpoint.url": "https://h/token",
        "sasl.oauthbearer.assertion.private.key.file": "/none",
        "sasl.oauthbearer.assertion.claim.iss": "i",
        "sasl.oauthbearer.assertion.claim.sub": "s",
        "sasl.oauthbearer.assertion.claim.aud": "a",
    },
    {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.jwt.retriever.class": _JWT_BEARER,
        "sasl.oauthbearer.token.endpoint.url": "https://h/token",
        "sasl.oauthbearer.assertion.file": "/none",
    },
]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Section → the settings that were read since."""
    found: dict[str, set[str]] = {}
    get = Config.__getitem__

    def noted(self: Config, name: str) -> Any:
        found.setdefault(self.section, set()).add(self._definitions.key(name).name)
        return get(self, name)

    is_given = Config.is_given

    def noted_given(self: Config, name: str) -> bool:
        found.setdefault(self.section, set()).add(self._definitions.key(name).name)
        return is_given(self, name)

    monkeypatch.setattr(Config, "__getitem__", noted)
    monkeypatch.setattr(Config, "is_given", noted_given)
    return found


def connect(section: str) -> None:
    """Put the security of a client together in every way, as far as it goes without files."""
    for settings in CONNECTIONS:
        with contextlib.suppress(KafkaError):
            create_channel_builder(ClientConfig(section, {**SERVERS, **settings}), "me")


def make(section: str, settings: Mapping[str, Any]) -> None:
    with contextlib.suppress(KafkaError):
        if section == "producer":
            Producer({**SERVERS, **settings}).close(0)
        elif section == "consumer":
            Consumer({**SERVERS, **settings}).close(0)
        else:
            with AdminClient({**SERVERS, **settings}) as admin:
                admin.list_topics(timeout=0.05)


#: What makes clients read what they leave alone by default.
CLIENTS: dict[str, list[dict[str, Any]]] = {
    "producer": [
        {},
        {"transactional.id": "t"},
        *({"compression.type": codec} for codec in ("gzip", "lz4", "zstd")),
    ],
    "consumer": [{}, {"group.id": "g"}, {"group.id": "g", "group.protocol": "consumer"}],
    "admin": [{}, {"bootstrap.controllers": "127.0.0.1:1"}],
}


@pytest.mark.parametrize("section", CLIENTS)
@pytest.mark.filterwarnings("ignore")
def test_every_supported_setting_of_a_client_is_read(read: dict[str, set[str]], section: str) -> None:
    for settings in CLIENTS[section]:
        make(section, settings)
    connect(section)

    # Read before there is a Config, for it is made of what they say.
    unread = SUPPORTED[section] - read[section] - {"config.providers", "bootstrap.servers", "bootstrap.controllers"}
    # The rest needs files of keys; the code that reads it puts its name together.
    assert not {name for name in unread if not is_named(name)}


def test_every_supported_setting_of_a_broker_is_read(read: dict[str, set[str]]) -> None:
    broker = CoreBroker()
    client = broker.connect()
    client.request(ApiVersionsRequest(), 0)
    client.request(create("t"), 7)
    client.request(produce("t", batch(b"a")), 12)
    client.request(fetch("t"), 12)
    _ = broker.state.group_coordinator, broker.state.transaction_coordinator, broker.state.topic_admin
    broker.advance(5)
    config = BrokerConfig()
    _ = config.log_settings, config.data_directory, config.listeners

    of_the_shell = {
        # The sockets and the process: read in the runner, in the server of sockets and in the request of a topic.
        *("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides", "telemetry.max.bytes"),
        # Of files of keys, as above: test_listener_security.py reads them.
        *(f"ssl.{store}.{part}" for store in ("keystore", "truststore") for part in ("location", "password", "type")),
    }
    # Of connections to other brokers: read as those of a client, above (`client_settings`).
    of_connections = {name for name in SUPPORTED["admin"] if name.startswith(("ssl.", "sasl."))}
    unread = SUPPORTED["broker"] - read["broker"] - of_the_shell - of_connections
    assert not {name for name in unread if not is_named(name)}


def is_named(name: str) -> bool:
    """Whether code that acts names the setting, as a whole or in two parts; tables that list settings do not count."""
    names = _named()
    parts = [(name[: dot + 1], name[dot + 1 :]) for dot, character in enumerate(name) if character == "."]
    return name in names or any(first in names and (last in names or f".{last}" in names) for first, last in parts)


_names: set[str] = set()
_TABLES = {"config/support.py", "config/config_def.py", "config/topic_defaults.py", "broker/dynamic_broker_config.py"}


def _named() -> set[str]:
    if not _names:
        for path, tree in _modules():
            if path not in _TABLES:
                _names.update(
                    n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
                )
    return _names


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for file in SOURCES.rglob("*.py"):
        path = str(file.relative_to(SOURCES))
        if not path.startswith("protocol/messages/"):
            yield path, ast.parse(file.read_text())


def test_what_the_log_makes_of_every_supported_topic_setting_is_used_outside_of_its_settings() -> None:
    attributes = {name: name.replace(".", "_") for name in SUPPORTED["topic"]}
    attributes |= {name: "compression_level" for name, _ in COMPRESSION_LEVELS.values()}
    used = {
        node.attr
        for path, tree in _modules()
        if path != "broker/log/log_config.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    #: Parsed into what the log goes by instead.
    instead = {"cleanup_policy": "compact", "segment_ms": "max_segment_ms"}
    of_the_log = {name: attribute for name, attribute in attributes.items() if attribute in LogConfig.__slots__}
    assert not {name for name, attribute in of_the_log.items() if instead.get(attribute, attribute) not in used}
    assert not {name for name in attributes.keys() - of_the_log.keys() if not is_named(name)}


def test_what_stands_for_a_topics_setting_is_supported_where_that_is() -> None:
    for name, synonyms in TOPIC_SYNONYMS.items():
        if name in SUPPORTED["topic"]:
            for synonym, _ in synonyms:
                assert synonym in SUPPORTED["broker"], (name, synonym)


@pytest.mark.parametrize("section", SUPPORTED)
def test_no_setting_is_both_supported_and_ignored(section: str) -> None:
    assert not SUPPORTED[section] & IGNORED[section]
