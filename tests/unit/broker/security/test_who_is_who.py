"""Whose word counts where several say who a client is: certificates beside logins, like names, member ids."""

from __future__ import annotations

import unicodedata

import pytest

from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import ResourceType
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from tests.support.sasl_conversation import Scram, add_user, broker_with, log_in
from tests.unit.broker.security.test_attacks import GROUP_DENIED, Guarded


def test_beside_a_login_the_certificate_of_somebody_else_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with()
    channel = broker.node.core.channel
    # As TLS with `ssl.client.auth=required` would: the certificate was verified, and is the administrator's.
    monkeypatch.setattr(type(channel.securities["SASL"]), "principal_of", lambda *of: "User:admin")
    client = broker.connect("SASL")
    channel.secured(client.connection, b"the administrator's")
    assert not client.connection.info.is_authenticated
    log_in(client, "bob", "other")
    assert client.connection.info.principal == "User:bob"
    unknown = broker.connect("SASL")
    channel.secured(unknown.connection, b"the administrator's")
    assert unknown.request(MetadataRequest(topics=[]), 12) is None
    broker.advance(0.2)
    assert unknown.closed


@pytest.mark.parametrize("user", ["caf\u00e9", "cafe\u0301", "\ufb01", "a,b=c", "\u2168"])
def test_names_and_passwords_of_scram_are_bytes_that_nothing_is_made_of(user: str) -> None:
    # RFC 5802 asks for SASLprep, Apache Kafka does none (ScramFormatter.normalize): what looks alike is another.
    broker, likeness = broker_with(), unicodedata.normalize("NFKC", user)
    likeness = unicodedata.normalize("NFD", user) if likeness == user else likeness
    add_user(broker, user, user)
    right = Scram(broker, user, user)
    assert not right.run().error_code
    assert right.client.connection.info.principal == f"User:{user}"
    if likeness != user:
        assert Scram(broker, likeness, user).run().error_code
        assert Scram(broker, user, likeness).run().error_code


def test_a_members_id_is_no_secret_and_the_right_is_the_groups() -> None:
    guarded = Guarded()
    # As in Apache Kafka: who may READ the group may act for each of its members, nobody else may.
    guarded.allow("bob", Op.READ, "billing", ResourceType.GROUP)
    for name, denied in (("bob", False), ("mallory", True)):
        client = guarded.client(name)
        beat = HeartbeatRequest(group_id="billing", generation_id=1, member_id="alice-1")
        assert (client.request(beat, 4).error_code == GROUP_DENIED) == denied
