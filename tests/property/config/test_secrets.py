"""No secret setting is ever shown, whatever is wrong with it or beside it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.bootstrap import bootstrap_nodes
from barnabas.client.client_utils import channel_builder
from barnabas.config.client_config import ClientConfig
from barnabas.config.config import Config
from barnabas.config.config_def import SECTIONS, ConfigKey, definitions
from barnabas.errors import ConfigError
from barnabas.network.security.channel_builder import create_channel_builder

CLIENTS = ("producer", "consumer", "admin")
SECRETS = [key for key in definitions("producer").keys.values() if key.is_secret]
MARK = "sEcReT"
PROVIDED = "hUnTeR2"
VALUES = st.one_of(
    st.just(MARK),
    st.text(max_size=20).map(lambda text: f"{MARK}{text}"),
    st.text(max_size=20).map(lambda text: f"{text} required x={MARK}"),
    st.just(f'x.PlainLoginModule required username={MARK} password="{MARK}";'),
    st.just(f"-----BEGIN PRIVATE KEY-----{MARK}-----END PRIVATE KEY-----"),
    st.lists(st.just(MARK), min_size=1, max_size=2),
    st.just(MARK.encode()),
)


def test_there_are_secrets_and_all_of_them_are_of_type_password() -> None:
    assert {"sasl.password", "sasl.jaas.config", "ssl.keystore.key", "ssl.key.password"} <= {
        key.name for key in SECRETS
    }
    for section in CLIENTS:
        for name, key in definitions(section).keys.items():
            assert key.is_secret == name.endswith(
                (
                    "password",
                    "passphrase",
                    "secret",
                    "jaas.config",
                    "keystore.key",
                    "certificate.chain",
                    "truststore.certificates",
                )
            )


@settings(deadline=None, max_examples=60)  # the system's authorities are read for some, which takes a while
@given(
    st.sampled_from(CLIENTS),
    st.dictionaries(st.sampled_from([key.name for key in SECRETS]), VALUES, min_size=1, max_size=4),
    st.sampled_from(["PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT"]),
    st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]),
)
def test_no_repr_and_no_error_shows_a_secret(
    section: str, secrets: dict[str, object], protocol: str, mechanism: str
) -> None:
    given_settings = {"bootstrap.servers": "a:1", "security.protocol": protocol, "sasl.mechanism": mechanism, **secrets}
    shown = []
    try:
        config = ClientConfig(section, given_settings)
        shown = [repr(config), str(config), str(config.given), str(dict(config))]
        builder = create_channel_builder(config, "me")
        shown += [repr(builder), str(vars(builder) if builder else None)]
    except ConfigError as error:
        shown += [str(error), repr(error), str(error.__cause__)]
        shown += [] if error.__suppress_context__ else [str(error.__context__)]
    assert shown
    assert not [text for text in shown if MARK in text]


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(CLIENTS),
    st.sampled_from([name for name in definitions("admin").keys if name != "config.providers"]),
    st.one_of(
        st.just(PROVIDED),
        st.text(max_size=20).map(lambda text: f"{PROVIDED}{text}"),
        st.just(f"{PROVIDED},{PROVIDED}:1"),
    ),
    st.sampled_from(["PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT"]),
    st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]),
)
def test_no_repr_and_no_error_shows_what_a_config_provider_gave(
    section: str, name: str, secret: str, protocol: str, mechanism: str
) -> None:
    given_settings = {
        "bootstrap.servers": "a:1",
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": "u",
        "config.providers": "vault",
        "config.providers.vault.class": lambda path, keys: dict.fromkeys(keys, secret),
        name: "${vault:key}",
    }
    shown = []
    try:
        config = ClientConfig(section, given_settings)
        shown = [repr(config), str(config)]
        bootstrap_nodes(config, lambda host: [host])
        channel_builder(config, "me")
    except ConfigError as error:
        shown += [str(error), repr(error), str(error.__cause__)]
        shown += [] if error.__suppress_context__ else [str(error.__context__)]
    assert shown
    assert not [text for text in shown if PROVIDED.lower() in text.lower()]


@pytest.mark.parametrize("key", SECRETS, ids=lambda key: key.name)
def test_a_secret_of_the_wrong_type_is_not_shown(key: ConfigKey) -> None:
    with pytest.raises(ConfigError, match=r"\[hidden\]"):
        key.parse(12345)


URLS = [f"https://user:{MARK}@host/token", f"user:{MARK}@host:9092", f"PLAINTEXT://u:{MARK}@h:1,b:2"]


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(SECTIONS),
    st.data(),
    st.sampled_from(URLS),
)
def test_no_error_and_no_repr_shows_the_password_of_a_url_or_an_address(
    section: str, data: st.DataObject, url: str
) -> None:
    """Any setting may be given a URL: those that want one, and all others by mistake."""
    name = data.draw(st.sampled_from(sorted(definitions(section).keys)))
    shown = []
    try:
        config = Config(section, {name: url})
        shown = [repr(config), config.shown(name)]
        bootstrap_nodes(ClientConfig(section, {"bootstrap.servers": url}), lambda host: [host])
    except ConfigError as error:
        shown += [str(error), repr(error), str(error.__cause__)]
    assert shown
    assert not [text for text in shown if MARK in text]


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("name", ["sasl.pasword", "ssl.key.passwort", "sasl.jaas.confg", "pasword"])
def test_the_value_of_a_misspelt_name_is_not_shown(section: str, name: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")) as caught:
        Config(section, {name: MARK})
    assert MARK not in str(caught.value)
