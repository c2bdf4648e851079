"""What the console is started with, and the check that it is not exposed unasked."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.console.masking import Rule
    from barnabas.console.protobuf_values import MessageRule, Messages
    from barnabas.console.proxies import Network
    from barnabas.streams.topology.description import TopologyDescription


class ConsoleSettings(NamedTuple):
    """Where the console listens, and the clients' settings by section ("admin", "consumer", "producer").

    `connection` is how a command line names the same cluster, such as ("-b", "localhost:9092"); it has no secrets.
    `allowed_hosts` are further names under which browsers may ask for it, such as that of a reverse proxy. Without
    `clients` there is no cluster, and the console shows the `recordings` of `barnabas.anatomy` alone. `checkpoints` are
    of Spark's queries, or directories of them, `topologies` of streams applications by their ids. `change_log` is the
    file that changes are noted in, `masks` say what of records is not shown. `messages` are Protobuf's by name, and
    `message_rules` say which topics hold them. With `login` each session logs in to the cluster by one
    of these mechanisms, and the clients' settings say nothing of who they are. `trusted_proxies` are the addresses of
    reverse proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
    """

    clients: Mapping[str, Mapping[str, Any]]
    connection: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 0
    read_only: bool = False
    allowed_hosts: tuple[str, ...] = ()
    tls_certificate: str | None = None
    tls_key: str | None = None
    schema_registry: str | None = None
    recordings: tuple[Path, ...] = ()
    checkpoints: tuple[Path, ...] = ()
    topologies: Mapping[str, TopologyDescription] = {}
    change_log: Path | None = None
    masks: tuple[Rule, ...] = ()
    messages: Messages | None = None
    message_rules: tuple[MessageRule, ...] = ()
    login: tuple[str, ...] = ()
    trusted_proxies: tuple[Network, ...] = ()

    @property
    def has_cluster(self) -> bool:
        """Whether there is a cluster to show, and not only recordings."""
        return bool(self.clients)


def check_exposure(settings: ConsoleSettings) -> None:
    """Raise `ConfigError` when other machines could reach the console without TLS, or TLS is given by half."""
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        raise ConfigError("a certificate and its key belong together: give --tls-certificate and --tls-key, or neither")
    if not is_loopback(settings.host) and settings.tls_certificate is None:
        raise ConfigError(
            f"--listen {settings.host}: other machines could reach the console, and without TLS what is sent there, "
            "passwords and cookie too, could be read: give --tls-certificate and --tls-key, or listen on 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_names(settings: ConsoleSettings, port: int) -> frozenset[str]:
    """Return the values of `Host` that are answered, in lower case."""
    own = [settings.host, "127.0.0.1", "localhost", "[::1]"] if is_loopback(settings.host) else [settings.host]
    default_port = 443 if settings.tls_certificate else 80
    names = {f"{_bracketed(name)}:{port}" for name in own}
    if port == default_port:
        names.update(map(_bracketed, own))
    return frozenset(name.lower() for name in [*names, *settings.allowed_hosts])


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
