"""How a broker shows ZooKeeper who it is: the settings of Apache Kafka 3.9's brokers, and what others may do."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.zookeeper.zookeeper_security import Login, ZooKeeperSecurity, zookeeper_security
from barnabas.errors import ConfigError
from tests.peers.secure_kafka import Certificates

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
LOGIN = f'{MODULE} required username="kafka" password="s3";'
KERBEROS = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab="true";'


def security(environment: dict[str, str] | None = None, **settings: Any) -> ZooKeeperSecurity:
    given = {f"zookeeper.{name.replace('_', '.')}": value for name, value in settings.items()}
    config = BrokerConfig({"zookeeper.connect": "zk:2181", "inter.broker.protocol.version": "3.9", **given})
    return zookeeper_security(config, environment or {})


def test_without_settings_there_is_neither_tls_nor_a_login_and_znodes_are_everybodys() -> None:
    found = security()
    assert found == ZooKeeperSecurity(None, None, False)
    assert not found.owns("/config/users/alice")


def test_tls_checks_the_servers_certificate_and_name() -> None:
    context = security(ssl_client_enable="true", clientCnxnSocket="org.apache.zookeeper.ClientCnxnSocketNetty").context
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    unnamed = security(ssl_client_enable="true", ssl_endpoint_identification_algorithm="").context
    assert unnamed is not None
    assert not unnamed.check_hostname


def test_versions_and_suites_are_those_that_are_set() -> None:
    only = security(ssl_client_enable="true", ssl_enabled_protocols="TLSv1.3").context
    assert only is not None
    assert only.minimum_version is ssl.TLSVersion.TLSv1_3
    suite = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    found = security(ssl_client_enable="true", ssl_enabled_protocols="TLSv1.2", ssl_cipher_suites=suite).context
    assert found is not None
    assert found.maximum_version is ssl.TLSVersion.TLSv1_2
    assert "ECDHE-RSA-AES128-GCM-SHA256" in {one["name"] for one in found.get_ciphers()}
    assert "ECDHE-RSA-AES256-GCM-SHA384" not in {one["name"] for one in found.get_ciphers()}


@pytest.mark.parametrize("store", ["keystore", "truststore"])
def test_stores_are_of_the_type_that_is_set_or_that_their_names_end_with(tmp_path: Path, store: str) -> None:
    made = Certificates.make(tmp_path)
    text = made.client if store == "keystore" else made.authority
    assert security(ssl_client_enable="true", **{f"ssl_{store}_location": str(text)}).context is not None
    other = tmp_path / "store.jks"
    other.write_bytes(text.read_bytes())
    given = {f"ssl_{store}_location": str(other)}
    with pytest.raises(ConfigError, match="store"):
        security(ssl_client_enable="true", **given)
    given[f"ssl_{store}_type"] = "PEM"
    assert security(ssl_client_enable="true", **given).context is not None
    if store == "truststore":
        with pytest.raises(ConfigError, match="password"):
            security(ssl_client_enable="true", **given, ssl_truststore_password="s3")
    else:
        assert security(ssl_client_enable="true", set_acl="true", **given).sets_acl
        with pytest.raises(ConfigError, match="password"):
            security(ssl_client_enable="true", **given, ssl_keystore_password="s3")


def test_a_login_is_a_setting_or_stands_in_the_file_that_kafkas_scripts_name(tmp_path: Path) -> None:
    assert security(sasl_jaas_config=LOGIN).login == Login("kafka", "s3")
    file = tmp_path / "jaas.conf"
    file.write_text(f"KafkaServer {{ x.PlainLoginModule required; }};\nClient {{\n  {LOGIN}\n}};\n")
    environment = {"KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={file} -Da=b"}
    assert security(environment).login == Login("kafka", "s3")
    file.write_text("KafkaServer { x.PlainLoginModule required; };")
    assert security(environment).login is None


def test_znodes_with_an_owner_may_be_read_by_others_but_for_what_is_secret() -> None:
    found = security(sasl_jaas_config=LOGIN, set_acl="true")
    for path, is_owned, is_hidden in (
        ("/brokers/topics/t", True, False),
        ("/config/users/alice", True, True),
        ("/config/brokers/1", True, True),
        ("/delegation_token/tokens/x", True, True),
        ("/kafka-acl/Topic/t", True, False),
        ("/consumers", False, False),
    ):
        assert (found.owns(path), found.hides(path)) == (is_owned, is_hidden), path


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"set_acl": "true"}, "zookeeper.sasl.jaas.config"),
        ({"set_acl": "true", "ssl_client_enable": "true"}, "keystore.location"),
        ({"sasl_jaas_config": KERBEROS}, "is a Krb5LoginModule"),
        ({"sasl_jaas_config": f'{MODULE} required username="x";'}, "without password"),
        ({"sasl_jaas_config": "x"}, "login to ZooKeeper"),
        (
            {"ssl_client_enable": "true", "clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"},
            "cannot do TLS",
        ),
        ({"ssl_client_enable": "true", "ssl_crl_enable": "true"}, "crl.enable=true is not supported"),
        ({"ssl_client_enable": "true", "ssl_ocsp_enable": "true"}, "ocsp.enable=true is not supported"),
        ({"ssl_client_enable": "true", "ssl_truststore_location": "/no/such.jks"}, "/no/such.jks"),
    ],
)
def test_settings_that_cannot_be_used_say_what_to_do(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        security(**settings)


def test_a_login_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ConfigError, match=r"/no/such/jaas\.conf"):
        security({"KAFKA_OPTS": "-Djava.security.auth.login.config=/no/such/jaas.conf"})
