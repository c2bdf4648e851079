"""A broker in memory whose listener SASL wants a login, and the logins of clients, step by step."""

from __future__ import annotations

from typing import Any

from barnabas.network.security import scram
from barnabas.network.security.scram_sasl_client import ScramSaslClient
from barnabas.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.support.core_broker import CoreBroker, CoreClient

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="other";'
OAUTH = 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
FAILED, ILLEGAL_STATE = 58, 34
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.sasl.plain.sasl.jaas.config": PLAIN,
    "listener.name.sasl.oauthbearer.sasl.jaas.config": OAUTH,
}


def broker_with(**more: Any) -> CoreBroker:
    broker = CoreBroker({**SETTINGS, **{name.replace("__", "."): value for name, value in more.items()}})
    broker.state.advertised["SASL"] = ("127.0.0.1", 9093)
    return broker


def handshake(client: CoreClient, mechanism: str = "PLAIN", version: int = 1) -> int:
    code: int = client.request(SaslHandshakeRequest(mechanism=mechanism), version).error_code
    return code


def say(client: CoreClient, token: bytes, delay: float = 0.1) -> Any:
    """Authenticate; a refusal comes after the delay."""
    answer = client.request(SaslAuthenticateRequest(auth_bytes=token), 2)
    if answer is None and not client.closed:
        client.broker.advance(delay)
        return client.responses[-1] if client.responses else None
    return answer


def log_in(client: CoreClient, user: str = "alice", password: str = "secret") -> Any:
    assert handshake(client) == 0
    return say(client, f"\0{user}\0{password}".encode())


def bring_to(client: CoreClient, state: str) -> None:
    """Let a connection log in as far as the name of the state says."""
    if state == "versions":
        client.request(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    elif state == "handshake":
        handshake(client)
    elif state == "failure":
        log_in(client, password="wrong")
    elif state in ("login", "renewal"):
        log_in(client)
    if state == "renewal":
        client.broker.advance(30)
        handshake(client)


def is_served(client: CoreClient) -> bool:
    answer = client.request(MetadataRequest(topics=[]), 12)
    return answer is not None and hasattr(answer, "brokers")


def bearer(token: str) -> bytes:
    return b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"


class Scram:
    """A client of SCRAM, whose messages may be changed on their way."""

    def __init__(self, broker: CoreBroker, user: str, password: str, mechanism: str = "SCRAM-SHA-256"):
        self.client = broker.connect("SASL")
        self.exchange = ScramSaslClient(mechanism, user, password, "nonce-of-the-client")
        assert handshake(self.client, mechanism) == 0

    def run(self, first: Any = lambda text: text, final: Any = lambda text: text) -> Any:
        challenge = say(self.client, first(self.exchange.initial_response()))
        if challenge.error_code:
            return challenge
        work = self.exchange.evaluate_challenge(challenge.auth_bytes)
        assert work is not None
        return say(self.client, final(work.run()))


def add_user(broker: CoreBroker, name: str, password: str, mechanism: int = 1, iterations: int = 4096) -> int:
    kind, salt = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}[mechanism], b"a salt"
    salted = scram.salted_password(kind, password.encode(), salt, iterations)
    one = ScramCredentialUpsertion(name, mechanism, iterations, salt, salted)
    answer = broker.connect().request(AlterUserScramCredentialsRequest(upsertions=[one]), 0)
    code: int = answer.results[0].error_code
    return code
