"""A broker on which people log in by SASL and ACLs say what each may do: ours and Apache's, on the same settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas import AdminClient
from barnabas.admin import ScramMechanism, UserScramCredentialUpsertion
from tests.peers import apache_kafka
from tests.peers.apache_kafka import ApacheKafka, free_port
from tests.support.secured_broker import secured_broker

LOGIN = ("-X", "security.protocol=SASL_PLAINTEXT", "--login")
PASSWORD = "hunter2 of {}; \"quoted\", 'long'"
PEOPLE = ("root", "reader", "stranger", "leaver")
#: How long a connection that was logged in by SCRAM-SHA-256 lasts until it has to log in again.
SESSION_MS = 4000
_MODULES = "org.apache.kafka.common.security"


def password(user: str) -> str:
    """The password of one of PEOPLE."""
    return PASSWORD.format(user)


def broker_settings() -> dict[str, str]:
    """What both brokers are started with, all but addresses."""
    plain = " ".join(f'user_{user}="{password(user)}"'.replace('"quoted"', '\\\\"quoted\\\\"') for user in PEOPLE)
    modules = {
        "plain": f"{_MODULES}.plain.PlainLoginModule required {plain};",
        "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{_MODULES}.scram.ScramLoginModule required;",
        "oauthbearer": f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="b";',
    }
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        **{f"listener.name.sasl.{name}.sasl.jaas.config": module for name, module in modules.items()},
        "listener.name.sasl.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:root",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "connection.failed.authentication.delay.ms": "0",
    }


class Cluster(NamedTuple):
    """`inner` lets in without a word, who may do everything there; `servers` is the listener of SASL."""

    inner: str
    servers: str


@contextmanager
def barnabas_cluster(folder: Path) -> Iterator[Cluster]:
    """Ours, in a process of its own."""
    listeners = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:1,SASL://localhost:0"
    roles = {"process.roles": "broker,controller", "controller.listener.names": "CONTROLLER"}
    with secured_broker(folder, {**broker_settings(), **roles, "listeners": listeners}) as broker:
        yield Cluster(broker.servers["PLAINTEXT"], broker.servers["SASL"])


@contextmanager
def kafka_cluster() -> Iterator[Cluster]:
    """Apache Kafka; a test that lacks it is skipped."""
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    kafka, port = ApacheKafka(broker_settings(), heap="512m"), free_port()
    open_to_all = [f"PLAINTEXT://127.0.0.1:{kafka.port}", f"SASL://localhost:{port}"]
    kafka.settings["listeners"] = ",".join([*open_to_all, f"CONTROLLER://127.0.0.1:{kafka.controller_port}"])
    kafka.settings["advertised.listeners"] = ",".join(open_to_all)
    with kafka:
        yield Cluster(kafka.bootstrap_servers, f"localhost:{port}")


def add_people(admin: AdminClient) -> None:
    """Give PEOPLE their passwords for SCRAM; for PLAIN the broker has them from its start."""
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        users = [UserScramCredentialUpsertion(user, password(user), mechanism, iterations=4096) for user in PEOPLE]
        admin.alter_user_scram_credentials(users)
