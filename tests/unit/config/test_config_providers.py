"""Variables in the settings of clients, and where their values come from (KIP-297, KIP-421, KIP-632, KIP-887)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.bootstrap import bootstrap_nodes
from barnabas.config.client_config import ClientConfig
from barnabas.config.config import Config
from barnabas.config.values import Password
from barnabas.errors import ConfigError

PACKAGE = "org.apache.kafka.common.config.provider"
ENV = {"config.providers": "env", "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider"}
FILE = {"config.providers": "file", "config.providers.file.class": f"{PACKAGE}.FileConfigProvider"}
DIRECTORY = {"config.providers": "dir", "config.providers.dir.class": f"{PACKAGE}.DirectoryConfigProvider"}
ALL = {**ENV, **FILE, **DIRECTORY, "config.providers": "env, file,dir"}


def config_of(*given: Mapping[str, Any], section: str = "producer", **keywords: Any) -> ClientConfig:
    settings: dict[str, Any] = {"bootstrap.servers": "a:1"}
    for more in given:
        settings.update(more)
    return ClientConfig(section, settings, keywords)


def client_id(*given: Mapping[str, Any], value: str) -> str:
    return config_of(*given, {"client.id": value}).get_str("client.id")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"APP_NAME": "flights", "APP_PORT": "7", "APP_VARIABLE": "${env:APP_NAME}"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("APP_MISSING", raising=False)


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.properties"
    path.write_text("# of this application\nname = flights\npass\\ word: a\\u00e9=b\\\n  c\nempty=\n", encoding="utf-8")
    (tmp_path / "token").write_text(" value\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("section", ["producer", "consumer", "admin"])
def test_every_client_reads_variables_in_all_its_settings(section: str) -> None:
    config = config_of(
        ENV,
        {"bootstrap.servers": "${env:APP_NAME}:1,b:${env:APP_PORT}", "sasl.password": "${env:APP_NAME}"},
        section=section,
        retry_backoff_ms="${env:APP_PORT}",
    )

    assert config["bootstrap.servers"] == ["flights:1", "b:7"]
    assert config["sasl.password"] == Password("flights")
    assert config["retry.backoff.ms"] == 7
    assert config["config.providers"] == ["env"]
    assert not [name for name in config.given if name.startswith("config.providers.")]


def test_providers_may_be_given_as_keywords_and_variables_in_the_items_of_a_list() -> None:
    config = ClientConfig(
        "admin",
        None,
        {
            "config_providers": ["my_env"],
            "config_providers_my_env_class": f"{PACKAGE}.EnvVarConfigProvider",
            "config_providers_my_env_param_allowlist_pattern": "APP_.*",
            "bootstrap_servers": ("${my_env:APP_NAME}:1", "b:2"),
        },
    )

    assert config["bootstrap.servers"] == ["flights:1", "b:2"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("<${env:APP_NAME}-${env:APP_PORT}>", "<flights-7>"),
        ("${env::APP_NAME}", "flights"),
        ("${env:APP_MISSING}", "${env:APP_MISSING}"),
        ("${other:APP_NAME}-${env:APP_NAME}", "${other:APP_NAME}-flights"),
        ("${APP_NAME} ${env:APP_NAME", "${APP_NAME} ${env:APP_NAME"),
        ("${env:APP_VARIABLE}", "${env:APP_NAME}"),
    ],
)
def test_what_no_provider_knows_stays_as_it_is_and_nothing_is_replaced_twice(value: str, found: str) -> None:
    assert client_id(ENV, value=value) == found


def test_without_providers_a_variable_is_nothing_special() -> None:
    assert client_id(value="${env:APP_NAME}") == "${env:APP_NAME}"


def test_only_variables_of_the_environment_that_match_the_whole_pattern_are_given() -> None:
    limited = {**ENV, "config.providers.env.param.allowlist.pattern": "APP_N.*|PORT"}

    assert client_id(limited, value="${env:APP_NAME} ${env:APP_PORT}") == "flights ${env:APP_PORT}"


@pytest.mark.parametrize(
    ("key", "found"),
    [("name", "flights"), ("pass word", "aé=bc"), ("empty", ""), ("missing", "${file:PATH:missing}")],
)
def test_a_file_of_javas_properties_gives_its_keys(secrets: Path, key: str, found: str) -> None:
    assert client_id(FILE, value=f"<${{file:{secrets}:{key}}}>") == f"<{found}>".replace("PATH", str(secrets))


def test_a_directory_gives_its_files_without_the_line_end(secrets: Path) -> None:
    assert client_id(DIRECTORY, value=f"${{dir:{secrets.parent}:token}}") == "value"


@pytest.mark.parametrize("key", ["missing", "../outside", "."])
def test_a_directory_gives_nothing_but_the_files_in_it(tmp_path: Path, key: str) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "outside").write_text("secret", encoding="utf-8")
    variable = f"${{dir:{tmp_path / 'inner'}:{key}}}"

    assert client_id(DIRECTORY, value=variable) == variable


@pytest.mark.parametrize(("provider", "settings"), [("file", FILE), ("dir", DIRECTORY)])
def test_what_lies_outside_of_the_allowed_paths_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, provider: str, settings: dict[str, str]
) -> None:
    for name in ("open", "opened"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text("key=value", encoding="utf-8")
    inside, beside = ((tmp_path / name / ("key" if provider == "file" else "")) for name in ("open", "opened"))
    around = f"{tmp_path}/open/../opened" + ("/key" if provider == "file" else "")
    limited = {**settings, f"config.providers.{provider}.param.allowed.paths": f"{tmp_path / 'open'}"}

    with caplog.at_level(logging.WARNING, logger="barnabas.config"):
        assert "value" in client_id(limited, value=f"${{{provider}:{inside}:key}}")
        assert not caplog.records
        for place in (beside, around):
            assert client_id(limited, value=f"${{{provider}:{place}:key}}") == f"${{{provider}:{place}:key}}"
    assert ["allowed.paths" in record.getMessage() for record in caplog.records] == [True, True]


def read_vault(path: str, keys: set[str]) -> dict[str, str]:
    return {key: f"{path}/{key}" for key in keys if key != "missing"}


@pytest.mark.parametrize("provider", [read_vault, "vault_of_this_test:read_vault"])
def test_a_function_of_path_and_keys_is_a_provider_too(monkeypatch: pytest.MonkeyPatch, provider: Any) -> None:
    monkeypatch.setitem(sys.modules, "vault_of_this_test", SimpleNamespace(read_vault=read_vault))
    settings = {"config.providers": "vault", "config.providers.vault.class": provider}

    assert client_id(settings, value="${vault:kv:a},${vault:b},${vault:missing}") == "kv/a,/b,${vault:missing}"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"config.providers": "env"}, r"config\.providers\.env\.class is needed"),
        ({"config.providers": 5}, "must be a list"),
        ({**ENV, "config.providers": ""}, "belongs to none of the providers"),
        ({**ENV, "config.providers.evn.param.x": "y"}, "'config.providers.evn.param.x' belongs to none"),
        ({**ENV, "config_providers_env_class": "x"}, "given twice"),
        ({**ENV, "config.providers.env.class": "x.y.VaultProvider"}, "is not known; there are org.apache"),
        ({**ENV, "config.providers.env.class": "barnabas:nothing"}, "cannot be loaded"),
        ({**ENV, "config.providers.env.class": 5}, "not int"),
        ({**ENV, "config.providers.env.param.allowed.paths": "/"}, r"env\.param\.allowed\.paths is not a setting"),
        ({**ENV, "config.providers.env.param.allowlist.pattern": "("}, "is not a regular expression"),
        ({**FILE, "config.providers.file.param.allowed.paths": "here"}, "is not an absolute path"),
        ({**FILE, "config.providers.file.param.allowed.paths": "/no/such/place"}, "does not exist"),
        ({**ENV, "client.id": "${env:path:NAME}"}, "has no path"),
        ({**FILE, "client.id": "${file:/no/such/file:key}"}, "cannot read properties from '/no/such/file': No such"),
    ],
)
def test_providers_that_cannot_work_are_an_error(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        config_of(settings)


def test_a_file_that_cannot_be_read_is_an_error_that_quotes_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "escape").write_text("key=\\uhunter2", encoding="utf-8")
    (tmp_path / "latin").write_bytes(b"key=hunter\xe9")
    for name in ("escape", "latin"):
        with pytest.raises(ConfigError, match="cannot read properties") as caught:
            config_of(FILE, {"client.id": f"${{file:{tmp_path / name}:key}}"})
        assert "hunt" not in str(caught.value)
    with pytest.raises(ConfigError, match="it is not UTF-8"):
        config_of(DIRECTORY, {"client.id": f"${{dir:{tmp_path}:latin}}"})


@pytest.mark.parametrize(
    "name",
    [
        *("linger.ms", "acks", "security.protocol", "bootstrap.servers", "client.dns.lookup", "security.providers"),
        *("enable.idempotence", "sasl.password", "sasl.login.refresh.window.factor"),
    ],
)
def test_what_came_from_a_provider_is_in_no_error_and_no_repr(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("APP_SECRET", "hunter2")
    shown = []
    try:
        config = config_of(ENV, {name: "${env:APP_SECRET}", "client.id": "x${env:APP_SECRET}"})
        shown = [repr(config), config.shown(name), config.shown("client.id")]
        with pytest.raises(ConfigError) as caught:
            config.get_int("client.id")
        shown.append(str(caught.value))
        if name == "bootstrap.servers":
            bootstrap_nodes(config)
    except ConfigError as error:
        shown += [str(error), str(error.__cause__), str(error.__suppress_context__ or error.__context__)]
    assert name in "".join(shown)
    assert "${env:APP_SECRET}" in "".join(shown) or name == "sasl.password"
    assert "hunter2" not in "".join(shown)


def test_a_broker_has_no_config_providers() -> None:
    with pytest.raises(ConfigError, match="not supported yet"):
        Config("broker", ENV)
