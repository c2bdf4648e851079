"""Clients from the options of the command line."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from barnabas.cli import logs
from barnabas.cli.named_values import named_values
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.consumer.consumer import Consumer
    from barnabas.client.consumer.share.share_consumer import ShareConsumer
    from barnabas.client.producer.producer import Producer
    from barnabas.network.selectable import Buffer
    from barnabas.protocol.messages.sasl_handshake_response import SaslHandshakeResponse


C = TypeVar("C")

ENVIRONMENT = "BARNABAS_BOOTSTRAP_SERVERS"
DEFAULT_SERVERS = "localhost:9092"
# People wait at a terminal: Kafka's minute would look like a hang.
API_TIMEOUT_MS = 15_000
CONNECT_TIMEOUT = 5.0
_CLIENT_ID = "barnabas-cli"
_SERVERS = "bootstrap.servers"
_CONTROLLERS = "bootstrap.controllers"


class UnreachableError(KafkaError):
    """None of the bootstrap servers can be connected to."""


def client_settings(args: Namespace, section: str, defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the settings of one client: those of the file that concern it, then -X, then -b.

    `defaults` for the others.
    """
    from barnabas.config.config_def import canonical_name

    settings: dict[str, Any] = _of_section(_from_file(args), section)
    settings.update({canonical_name(name): value for name, value in named_values(args.settings, "-X").items()})
    if settings.get(_CONTROLLERS) and not args.bootstrap_servers and not settings.get(_SERVERS):
        return {**(defaults or {}), **settings}
    servers = args.bootstrap_servers or settings.get(_SERVERS) or os.environ.get(ENVIRONMENT) or DEFAULT_SERVERS
    return {**(defaults or {}), **settings, _SERVERS: servers}


def _from_file(args: Namespace) -> dict[str, str]:
    if not args.config:
        return {}
    from barnabas.config.properties_file import read_properties

    return read_properties(args.config)


def _of_section(settings: dict[str, str], section: str) -> dict[str, Any]:
    """One file serves all clients: what only others know is left out, what none knows is for the client to refuse."""
    if not settings:
        return {}
    from barnabas.config.config_def import definitions

    others = {"producer", "consumer", "admin"} - {section}
    known_elsewhere = {name for other in others for name in definitions(other).keys} - definitions(section).keys.keys()
    return {name: value for name, value in settings.items() if name not in known_elsewhere}


def admin_client(args: Namespace) -> AdminClient:
    """Return an admin client. Raises UnreachableError, ConfigError."""
    from barnabas.client.admin.admin_client import AdminClient

    settings = client_settings(args, "admin", {"default.api.timeout.ms": API_TIMEOUT_MS, "client.id": "barnabas-cli"})
    logs.set_up(verbose=args.verbose)
    client = AdminClient(settings)
    return _checked(args, "admin", settings, client, client.close)


def consumer(args: Namespace, defaults: Mapping[str, Any], forced: Mapping[str, Any]) -> Consumer:
    """Return a consumer; `forced` holds against what was given. Raises UnreachableError, ConfigError."""
    from barnabas.client.consumer.consumer import Consumer

    base = {"default.api.timeout.ms": API_TIMEOUT_MS, "client.id": "barnabas-cli", "allow.auto.create.topics": False}
    settings = {**client_settings(args, "consumer", {**base, **defaults}), **forced}
    logs.set_up(verbose=args.verbose)
    client = Consumer(settings)
    return _checked(args, "consumer", settings, client, client.close)


def share_consumer(args: Namespace, defaults: Mapping[str, Any], forced: Mapping[str, Any]) -> ShareConsumer:
    """Return a share consumer; `forced` holds against what was given. Raises UnreachableError, ConfigError."""
    from barnabas.client.consumer.share.share_consumer import ShareConsumer

    base = {"default.api.timeout.ms": API_TIMEOUT_MS, "client.id": "barnabas-cli", "allow.auto.create.topics": False}
    settings = {**client_settings(args, "consumer", {**base, **defaults}), **forced}
    logs.set_up(verbose=args.verbose)
    client = ShareConsumer(settings)
    return _checked(args, "consumer", settings, client, client.close)


def producer(args: Namespace, forced: Mapping[str, Any]) -> Producer[bytes, bytes]:
    """Return a producer; `forced` holds against what was given. Raises UnreachableError, ConfigError."""
    from barnabas.client.producer.producer import Producer

    base = {"max.block.ms": API_TIMEOUT_MS, "client.id": "barnabas-cli"}
    settings = {**client_settings(args, "producer", base), **forced}
    logs.set_up(verbose=args.verbose)
    client: Producer[bytes, bytes] = Producer(settings)
    return _checked(args, "producer", settings, client, lambda: client.close(0))


def _checked(args: Namespace, section: str, settings: dict[str, Any], client: C, close: Callable[[], None]) -> C:
    """Return the client, once the broker answers; made before, so that wrong settings are said first."""
    try:
        servers = str(settings.get(_SERVERS) or settings[_CONTROLLERS])
        others = {name: value for name, value in settings.items() if name != _CONTROLLERS}
        check_reachable(servers, section=section, settings=others)
    except BaseException:
        close()
        raise
    logs.show_warnings(verbose=args.verbose)
    return client


def check_reachable(
    servers: str,
    timeout: float = CONNECT_TIMEOUT,
    *,
    section: str = "admin",
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Have one of the servers answer, to say at once what a client would find out by waiting.

    `settings` of a client (its `section` of them) say how to connect, by TLS and SASL for instance. Raises
    UnreachableError with what became of each, AuthenticationError when one does not let this client in.
    """
    from barnabas.protocol.framing import encode_request
    from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest

    # Version 0, which every broker there ever was answers.
    _first_answer(servers, timeout, section, settings or {}, encode_request(ApiVersionsRequest(), 0, 0, _CLIENT_ID))


def offered_mechanisms(settings: Mapping[str, Any], timeout: float = CONNECT_TIMEOUT) -> list[str]:
    """Return the SASL mechanisms that the cluster's listener offers, as it tells them to one who logs in by none.

    `settings` are an admin client's, whose security.protocol is SASL_PLAINTEXT or SASL_SSL. Raises `UnreachableError`.
    """
    from barnabas.protocol.api import ApiKey
    from barnabas.protocol.framing import decode_response, encode_request
    from barnabas.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

    protocol = str(settings["security.protocol"]).upper().replace("SASL_", "")
    unsecured = {name: value for name, value in settings.items() if not name.startswith("sasl.")}
    # No mechanism has this name: the broker refuses it, with the names of those that there are (KIP-43).
    ask = encode_request(SaslHandshakeRequest(mechanism="?"), 1, 0, _CLIENT_ID)
    servers = str(settings[_SERVERS])
    frame = _first_answer(servers, timeout, "admin", {**unsecured, "security.protocol": protocol}, ask)
    _, answer = decode_response(ApiKey.SASL_HANDSHAKE, 1, frame)
    return list(cast("SaslHandshakeResponse", answer).mechanisms)


def _first_answer(servers: str, timeout: float, section: str, settings: Mapping[str, Any], request: Buffer) -> bytes:
    """Return the first answer of any of the servers to a request. Raises UnreachableError, AuthenticationError."""
    from barnabas.client.bootstrap import bootstrap_nodes
    from barnabas.client.client_utils import channel_builder
    from barnabas.config.client_config import ClientConfig
    from barnabas.network.selector import Selector

    config = ClientConfig(section, {**settings, _SERVERS: servers})
    nodes = {node.id: node for node in bootstrap_nodes(config)}
    selector = Selector(channel_builder=channel_builder(config, _CLIENT_ID))
    connected: set[int] = set()
    asked: set[int] = set()
    problems: dict[int, str] = {}
    now = time.monotonic()
    deadline = now + timeout
    try:
        for node in nodes.values():
            selector.connect(node.id, node.host, node.port)
        while len(problems) < len(nodes) and now < deadline:
            now = selector.poll(deadline - now, now)
            if selector.completed_receives:
                return bytes(selector.completed_receives[0][1])
            connected.update(selector.connected)
            for node_id in connected - asked:
                if selector.is_channel_ready(node_id):
                    asked.add(node_id)
                    selector.send(node_id, [request])
            for node_id, why in selector.disconnected.items():
                if why.authentication_error is not None:
                    raise why.authentication_error
                problems[node_id] = why.reason
    finally:
        selector.close_all()
    silence = f"no answer within {timeout:.0f} s"
    tried = "; ".join(f"{node.host}:{node.port} ({problems.get(node.id, silence)})" for node in nodes.values())
    if connected:
        raise UnreachableError(f"no Kafka broker answers at {tried}: something else listens there, or it expects TLS")
    raise UnreachableError(
        f"cannot connect to {tried}: start a broker with `barnabas up`, or name another with -b HOST:PORT"
    )
