"""Files with a private key that other users of the machine may read are told at the start, by name."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.instant import Instant
from barnabas.broker.security.readable_secrets import has_secrets, readable_by_others
from barnabas.config.properties_file import read_properties
from tests.peers.secure_kafka import Certificates
from tests.unit.broker.security.test_listener_security import certificates, config_of, securities_of  # noqa: F401


@pytest.fixture
def reachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that others may enter; those above it, which are pytest's, are private."""
    monkeypatch.setattr("barnabas.broker.security.readable_secrets._folders_of", lambda path: [str(tmp_path)])
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("folder", "mode", "told"),
    [(0o755, 0o644, True), (0o755, 0o640, False), (0o755, 0o600, False), (0o750, 0o644, False)],
)
def test_the_mode_of_the_file_and_of_its_folder_decide(reachable: Path, folder: int, mode: int, told: bool) -> None:
    key = reachable / "key.pem"
    key.write_text("key")
    key.chmod(mode)
    reachable.chmod(folder)
    assert readable_by_others(str(key)) == told


def test_what_a_link_leads_to_counts(reachable: Path) -> None:
    (reachable / "key.pem").write_text("key")
    (reachable / "key.pem").chmod(0o600)
    (reachable / "link.pem").symlink_to(reachable / "key.pem")
    assert not readable_by_others(str(reachable / "link.pem"))
    assert not readable_by_others(str(reachable / "nowhere.pem"))


def test_all_folders_above_are_asked() -> None:
    from barnabas.broker.security import readable_secrets

    assert readable_secrets._folders_of("/a/b/key.pem") == ["/a/b", "/a", "/"]


def test_the_warning_names_listener_and_file_and_says_what_to_do(
    reachable: Path,
    certificates: Certificates,  # noqa: F811
) -> None:
    key, said = reachable / "broker.pem", list[str]()
    key.write_bytes(certificates.broker.read_bytes())
    key.chmod(0o644)
    config = config_of(certificates, ssl_keystore_location=str(key))
    securities_of(config, said)
    (line,) = said
    assert line.startswith("listener SSL: ")
    assert str(key) in line
    assert "chmod o-r" in line
    key.chmod(0o600)
    securities_of(config, said)
    assert len(said) == 1


def test_a_file_that_is_opened_to_others_later_is_told_once_and_again_after_a_mend(
    reachable: Path,
    certificates: Certificates,  # noqa: F811
) -> None:
    key, said = reachable / "broker.pem", list[str]()
    key.write_bytes(certificates.broker.read_bytes())
    key.chmod(0o600)
    securities = securities_of(config_of(certificates, ssl_keystore_location=str(key)), said)
    now = 100.0

    def told() -> int:
        nonlocal now
        now = max(now, securities.next_deadline())
        securities.tick(Instant(now, 0))
        return sum("chmod o-r" in line for line in said)

    assert told() == 0
    key.chmod(0o644)
    assert (told(), told()) == (1, 1)
    # A store that takes its place brings its mode along.
    other = reachable / "next.pem"
    other.write_bytes(certificates.broker.read_bytes())
    other.chmod(0o600)
    other.replace(key)
    assert told() == 1
    other.write_bytes(certificates.broker.read_bytes())
    other.chmod(0o644)
    other.replace(key)
    assert told() == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("delegation.token.secret.key=s", True),
        ("listener.name.sasl.plain.sasl.jaas.config=PlainLoginModule required;", True),
        ("listener.name.ssl.ssl.key.password=s", True),
        ("num.partitions=3", False),
    ],
)
def test_a_file_of_settings_with_secrets_that_others_may_read_is_told(reachable: Path, line: str, told: bool) -> None:
    path, said = reachable / "server.properties", list[str]()
    path.write_text(line)
    path.chmod(0o644)
    config = BrokerConfig(dict([line.split("=", 1)]))
    config.secrets_file = str(path) if has_secrets(read_properties(str(path))) else None
    securities = securities_of(config, said)
    assert [str(path) in one for one in said] == [True] * told
    path.chmod(0o600)
    securities_of(config, said)
    assert len(said) == told
    assert (securities.next_deadline() < inf) == told
